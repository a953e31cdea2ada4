"""The guards as `blueflame doctor` shows them: a table for people, keys for programs, an exit code for both."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.doctor.guards import OTHER_GUARDS, SANDBOX_GUARDS
from support.command_line import at_terminal, call, configure, here
from support.sandboxes import needs_sandbox

NAMES = [row.name for row in (*SANDBOX_GUARDS, *OTHER_GUARDS)]


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


@needs_sandbox
def test_every_guard_is_in_the_table(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "doctor", "--json")
    assert said.code == 0
    assert [guard["name"] for guard in said.json["guards"]] == NAMES
    assert all(guard["holds"] and guard["seen"] for guard in said.json["guards"])
    assert {guard["state"] for guard in said.json["guards"]} <= {"enforced", "detected only"}
    assert said.json["level"]["asked"] == "standard"
    assert said.json["level"]["held"] in ("standard", "strict")


@needs_sandbox
@pytest.mark.usefixtures("guards_are_known")
def test_outside_of_a_repository_the_defaults_are_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = here(capsys, "doctor", "--json")
    assert {guard["state"] for guard in said.json["guards"]} <= {"enforced", "detected only"}
    assert {each["name"]: each["state"] for each in said.json["findings"]}["level"] == "ok"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.verification(18)
def test_level_off_is_a_warning(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(project, {"sandbox": {"level": "off"}})
    said = here(capsys, "doctor")
    assert said.code == 0
    assert "without walls" in said.out
    assert "off" in said.out
    assert "enforced" in said.out


def test_where_nothing_is_installed_it_says_what_to_do(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = call("doctor", "--json", cwd=project)
    assert (said.code, said.err) == (3, "")
    states = {guard["name"]: guard["state"] for guard in said.json["guards"]}
    assert {states[row.name] for row in SANDBOX_GUARDS} == {"impossible here"}
    assert states["dead watcher"] == "enforced"
    findings = {each["name"]: each for each in said.json["findings"]}
    wanted = {"python": "ok", "git": "bad", "editor": "warning", "level": "bad"}
    assert {name: findings[name]["state"] for name in wanted} == wanted
    assert "apt-get install bubblewrap" in findings["level"]["details"]
    assert said.json["level"] == {"asked": "standard", "held": "off"}


@needs_sandbox
@pytest.mark.usefixtures("guards_are_known")
@pytest.mark.parametrize("columns", [44, 80, 160])
def test_at_a_terminal_of_any_width_the_table_can_be_read(project: Path, columns: int) -> None:
    with at_terminal("doctor", cwd=project, columns=columns) as terminal:
        parts = terminal.expect("Guards"), terminal.expect("file scope")
        assert terminal.end() == 0
    whole = [line for part in parts for line in part.splitlines()[1:-1]]  # where one is cut, lines are not whole
    assert [line for line in whole if len(line) > columns] == []
    seen = "".join(parts)
    assert "enforced" in seen
    assert "\x1b" not in seen
