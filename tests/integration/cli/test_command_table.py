"""How verbs are called: help, wrong words, completion. What they do is tested elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.cli.command_table import COMMANDS
from support.command_line import MAIN, configure, here

GROUPS = {
    "config": ("check", "show", "schema", "migrate"),
    "policy": ("check", "explain"),
    "sandbox": ("run", "show"),
    "memory": ("list", "show", "forget", "export", "import"),
    "mcp": ("install", "uninstall"),
    "plugin": ("install", "uninstall", "path"),
    "telegram": ("pair",),
    "worktrees": ("create", "list", "remove"),
    "locks": ("acquire", "release", "check"),
    "requests": ("list", "show", "cancel", "start", "refuse"),
}
ALL_COMMANDS = [(verb.name,) for verb in COMMANDS if verb.name not in GROUPS] + [
    (group, name) for group, names in GROUPS.items() for name in names
]
# JSON always, or never
SPEAK_FOR_THEMSELVES = (
    ("completion",),
    ("serve",),
    ("telegram", "pair"),
    ("config", "schema"),
    ("policy", "check"),
    ("sandbox", "run"),
)
HEAVY = (
    "pydantic",
    "ruamel",
    "rich",
    "jinja2",
    "watchfiles",
    "sqlite3",
    "psutil",
    "asyncio",
    "blueflame.orchestrator",
)


@pytest.fixture(autouse=True)
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


@pytest.mark.parametrize("words", ALL_COMMANDS, ids=" ".join)
def test_every_command_explains_itself(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, *words, "--help")
    assert said.code == 0
    assert said.out.startswith(f"Usage: blueflame {' '.join(words)}")
    assert "--json" in said.out or words in SPEAK_FOR_THEMSELVES
    assert said.err == ""
    assert max(len(line) for line in said.out.splitlines()) <= 80


@pytest.mark.parametrize("words", ALL_COMMANDS, ids=" ".join)
def test_every_command_refuses_what_it_does_not_know(
    words: tuple[str, ...], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = here(capsys, *words, "--no-such-flag")
    assert said.code == 2
    assert "--no-such-flag" in said.err
    assert f"See 'blueflame {' '.join(words)} --help'." in said.err
    assert not (project / ".blueflame").exists()


WRONG = {
    "statsu": "did you mean status?",
    "awnser plan approve": "did you mean answer?",
    "config chek": "'check'",
    "run --taks x": "--task",
    "cleanup --dry-rum": "--dry-run",
    "run --task x --workflow flwo": "did you mean flow?",
    "answer plan": "'CHOICE'",
    "kill": "'AGENT'",
    "log --last minus": "--last",
    "log --last -1": "--last",
    "status one two": "two",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_near_miss_gets_a_suggestion(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, *line.split())
    assert said.code == 2
    assert WRONG[line] in said.err
    assert said.out == ""


def modules_of(*argv: str) -> Iterator[str]:
    """What a command imports, from python's own account of it."""
    words = [sys.executable, "-X", "importtime", "-c", MAIN, *argv]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return (line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line)


@pytest.mark.parametrize("argv", [["--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    loaded = set(modules_of(*argv))
    assert "blueflame.cli.command_table" in loaded
    assert loaded & set(HEAVY) == set()


def test_reading_a_session_imports_no_pydantic() -> None:
    code = "import blueflame.orchestrator.sessions, blueflame.views.session, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "blueflame.journal.codec" in done.stdout.split()
    assert "pydantic" not in done.stdout.split()


def run_main(*argv: str, **env: str) -> str:
    words = [sys.executable, "-c", MAIN, *argv]
    done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("shell", "words"), [("bash", "COMPREPLY"), ("zsh", "#compdef blueflame"), ("fish", "complete --no-files")]
)
def test_the_completion_script_of_a_shell_is_printed(shell: str, words: str) -> None:
    script = run_main("completion", shell)
    assert words in script
    assert script == run_main("completion", SHELL=f"/usr/bin/{shell}")
    assert script == run_main(_BLUEFLAME_COMPLETE=f"{shell}_source")


def test_an_unknown_shell_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    said = here(capsys, "completion")
    assert said.code == 2
    assert "no completion for the shell 'tcsh': name one of bash, zsh, fish" in said.err


def test_flags_of_a_verb_are_completed() -> None:
    asked = {"_BLUEFLAME_COMPLETE": "bash_complete", "COMP_WORDS": "blueflame cleanup --dr", "COMP_CWORD": "2"}
    assert set(run_main(**asked).split()) == {"plain,--dry-run", "plain,--drop-unmerged"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_a_command_with_the_printed_script(tmp_path: Path) -> None:
    program = tmp_path / "blueflame"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{MAIN}' \"$@\"\n")
    program.chmod(0o755)
    script = (
        f'PATH={tmp_path}:$PATH; eval "$(blueflame completion bash)"; COMP_WORDS=(blueflame cle); COMP_CWORD=1;'
        ' $(complete -p blueflame | sed "s/.*-F \\([^ ]*\\).*/\\1/") blueflame; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cleanup"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_an_output_that_is_full_is_no_bug_of_ours() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        words = [sys.executable, "-c", MAIN, "config", "show"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert "cannot write the output: No space left on device" in done.stderr
    assert "bug" not in done.stderr


def test_a_machine_without_room_for_temporary_files_is_no_bug_of_ours() -> None:
    no_file_may_grow = ["prlimit", "--fsize=0"]
    done = subprocess.run(
        [*no_file_may_grow, sys.executable, "-c", MAIN, "demo"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "No usable temporary directory" in done.stderr
    assert "TMPDIR" in done.stderr
