"""Our entry in the settings of the clients: one entry, and nothing else."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from support.command_line import here, write

FILES = {
    "codex": (".codex/config.toml", '# mine\nmodel = "x"\n'),
    "gemini": (".gemini/settings.json", '{\n  // mine\n  "theme": "dark"\n}\n'),
    "opencode": (".config/opencode/opencode.json", '{\n  "model": "x", // mine\n  "mcp": { "other": {} }\n}\n'),
}


@pytest.mark.parametrize("client", FILES)
def test_the_entry_comes_and_goes_and_the_rest_stays(
    client: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, text = FILES[client]
    path = own_home / name
    path.parent.mkdir(parents=True)
    kept = write(own_home / "dotfile", text)
    kept.chmod(0o600)
    path.symlink_to(kept)
    assert here(capsys, "mcp", "install", client).out == f"registered in {path}\n"
    installed = kept.read_text()
    assert "mine" in installed
    assert '"mcp"' in installed
    assert "blueflame" in installed
    assert (path.is_symlink(), kept.stat().st_mode & 0o777) == (True, 0o600)
    assert "nothing to do" in here(capsys, "mcp", "install", client).out
    assert here(capsys, "mcp", "uninstall", client).code == 0
    assert "blueflame" not in kept.read_text()
    assert "mine" in kept.read_text()


@pytest.mark.parametrize("client", FILES)
def test_a_client_without_settings_gets_some(client: str, own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own_home / FILES[client][0]
    assert "not registered" in here(capsys, "mcp", "uninstall", client).out
    assert here(capsys, "mcp", "install", client, "--json").json == {"done": f"registered in {path}"}
    text = path.read_text()
    found = tomllib.loads(text) if client == "codex" else json.loads(text)
    (entry,) = next(iter(found.values())).values()
    assert "mcp" in (entry["command"] if client == "opencode" else entry["args"])


@pytest.mark.parametrize("client", FILES)
def test_settings_that_cannot_be_read_stay_as_they_are(
    client: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own_home / FILES[client][0]
    path.parent.mkdir(parents=True)
    write(path, '{"a": ')
    for verb in ("install", "uninstall"):
        said = here(capsys, "mcp", verb, client)
        assert said.code == 2
        assert f"{path} is not changed" in said.err
    assert path.read_text() == '{"a": '


@pytest.mark.parametrize("client", FILES)
def test_settings_that_are_read_only_stay_as_they_are(
    client: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, text = FILES[client]
    path = own_home / name
    path.parent.mkdir(parents=True)
    write(path, text).chmod(0o444)
    said = here(capsys, "mcp", "install", client)
    assert (said.code, "read-only" in said.err, path.read_text()) == (3, True, text)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A claude that writes down its arguments; what the real one does with them is a contract test."""
    log = tmp_path / "asked"
    write(tmp_path / "blueflame", "#!/bin/sh\n").chmod(0o755)
    write(tmp_path / "claude", f'#!/bin/sh\necho "$*" >> "{log}"\n').chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return log


def test_claude_is_asked_to_change_its_own_settings(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("mcp", "install", "claude"), ("plugin", "install"), ("plugin", "uninstall")):
        assert here(capsys, *words).code == 0
    lines = asked.read_text().splitlines()
    assert lines[1].startswith("mcp add --scope user blueflame -- ")
    assert lines[1].endswith(" mcp")
    assert lines[3:] == [
        "plugin install blueflame@blueflame",
        "plugin uninstall blueflame-subagents@blueflame",
        "plugin uninstall blueflame@blueflame",
        "plugin marketplace remove blueflame",
    ]


def test_without_claude_or_our_own_program_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = here(capsys, "plugin", "install")
    assert (said.code, "blueflame is not on PATH" in said.err) == (3, True)
    write(tmp_path / "blueflame", "#!/bin/sh\n").chmod(0o755)
    said = here(capsys, "plugin", "install")
    assert (said.code, "claude is not on PATH" in said.err) == (3, True)


def test_the_folder_of_the_plugin_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(here(capsys, "plugin", "path", "--json").json["path"])
    assert (folder / ".claude-plugin" / "plugin.json").is_file()
    assert folder == Path(here(capsys, "plugin", "path").out.strip())


def test_without_the_sdk_the_server_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    for name in [each for each in sys.modules if each == "mcp" or each.startswith(("mcp.", "blueflame.mcp."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    for words in (("mcp",), ("mcp", "install", "codex"), ("plugin", "install")):
        said = here(capsys, *words)
        assert (said.code, "pip install 'blueflame[mcp]'" in said.err) == (3, True), words
