"""`blueflame sandbox`, for a person, for a program, and for a user who is not root."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import blueflame
from support.command_line import MAIN, Said, at_terminal, call, configure, here
from support.repositories import make_repository
from support.sandboxes import needs_sandbox

pytestmark = needs_sandbox
ORDINARY_UID = 54321
"""No user of the machine has this number."""


def test_show_says_in_words_what_is_inside(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo)
    configure(repo, {"sandbox": {"allowed_hosts": ["example.org"], "max_memory_mb": 777}})
    said = here(capsys, "sandbox", "show")
    assert said.code == 0
    assert "standard is configured" in said.out
    for words in (
        "(the checkout)",
        "example.org through the gateway",
        "777 MB of memory",
        f"{repo}/.git  (for the agent)",
    ):
        assert words in said.out


def test_show_has_it_for_machines(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo)
    monkeypatch.setenv("MY_PASSWORD", "canary")
    said = here(capsys, "sandbox", "show", "--json")
    assert said.json["level"] == "standard"
    assert said.json["network"] == "none"
    assert {"kind": "rw", "target": str(repo), "source": str(repo), "why": "the checkout"} in said.json["mounts"]
    assert said.json["limits"]["processes"] == 2048
    assert "canary" not in said.out


def test_show_changes_nothing(repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(repo)
    before = sorted(path for path in repo.rglob("*") if ".git/" not in str(path))
    here(capsys, "sandbox", "show")
    assert sorted(path for path in repo.rglob("*") if ".git/" not in str(path)) == before


@pytest.mark.parametrize("argv", [("run",), ("run", "--"), ("run", "--worktree", "нет", "--", "true")])
def test_a_wrong_command_line_is_reported(
    argv: tuple[str, ...], repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo)
    said = here(capsys, "sandbox", *argv)
    assert said.code == 2
    assert "Traceback" not in said.err


def test_options_of_the_command_are_the_commands(repo: Path) -> None:
    said = call("sandbox", "run", "sh", "-c", "echo $0 $1", "--json", "--config", cwd=repo)
    assert said.out == "--json --config\n"


def test_at_a_terminal_the_command_reads_and_writes_and_hears_ctrl_c(repo: Path) -> None:
    script = 'trap "echo heard; exit 9" INT; echo begin; read -r line; echo "got $line"; while :; do sleep 0.05; done'
    with at_terminal("sandbox", "run", "--", "/bin/bash", "-c", script, cwd=repo) as terminal:
        terminal.expect("begin")
        terminal.type("слово\n")
        terminal.expect("got слово")
        terminal.type("\x03")
        terminal.expect("heard")
        assert terminal.end() == 9


def test_no_process_inside_can_type_into_the_terminal(repo: Path) -> None:
    script = (
        "import fcntl, termios\n"
        "for letter in b'echo canary':\n"
        "    try: fcntl.ioctl(0, termios.TIOCSTI, bytes([letter]))\n"
        "    except OSError as e: print('refused', e.errno); break\n"
    )
    with at_terminal("sandbox", "run", "--", "/usr/bin/python3", "-c", script, cwd=repo) as terminal:
        terminal.expect("refused 1")
        terminal.end()


# As an ordinary user, when the tests themselves run as root.


@pytest.fixture
def user_folder() -> Iterator[Path]:
    """A folder of theirs, in which an ordinary user can start Blue Flame; skips where that cannot be had."""
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root, so all of them run as an ordinary user")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    folder = Path(tempfile.mkdtemp(prefix="user-"))
    try:
        folder.chmod(0o755)
        shutil.copytree(Path(blueflame.__file__).parent, folder / "src" / "blueflame")
        repo = make_repository(folder / "репо one")
        (folder / "home").mkdir()
        for path in (repo, folder / "home", *repo.rglob("*")):
            os.chown(path, ORDINARY_UID, ORDINARY_UID)
        if run_as_user(folder, "--version").code != 0:
            pytest.skip("no Python here with our dependencies can be run by an ordinary user")
        yield folder
    finally:
        shutil.rmtree(folder)


def run_as_user(folder: Path, *argv: str, cwd: str = "репо one") -> Said:
    python = sys.executable if _others_may(Path(sys.executable).resolve()) else "/usr/bin/python3"
    packages = os.pathsep.join([str(folder / "src"), *site.getsitepackages()])
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home"), "PYTHONPATH": packages, "LANG": "C.UTF-8"}
    drop = ["setpriv", f"--reuid={ORDINARY_UID}", f"--regid={ORDINARY_UID}", "--clear-groups", "--inh-caps=-all"]
    done = subprocess.run(
        [*drop, python, "-c", MAIN, *argv],
        cwd=folder / cwd,
        env=env,
        text=True,
        capture_output=True,
        timeout=90,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def _others_may(path: Path) -> bool:
    return all(above.stat().st_mode & 0o001 for above in (path, *path.parents))


def test_an_ordinary_user_has_the_same_walls(user_folder: Path) -> None:
    secret = user_folder / "home" / ".ssh" / "id"
    secret.parent.mkdir()
    secret.write_text("canary")
    script = (
        f"id -u; echo x >here; echo x >/x; echo x >~/x; cat '{secret}'; git log --format=%s;"
        " grep -c '0000000000000000' /proc/self/status; unshare -U true; exit 5"
    )
    said = run_as_user(user_folder, "sandbox", "run", "--", "/bin/sh", "-c", script)
    assert said.code == 5, said.err
    assert said.out.splitlines()[:2] == [str(ORDINARY_UID), "Begin"]
    assert "canary" not in said.out
    assert (user_folder / "репо one" / "here").exists()
    assert not (user_folder / "home" / "x").exists()


def test_an_ordinary_user_has_the_doors(user_folder: Path) -> None:
    script = (
        "import os, socket\n"
        "s = socket.create_connection(('127.0.0.1', int(os.environ['BLUEFLAME_GATEWAY_PORT'])))\n"
        "s.sendall(b'CONNECT 127.0.0.1:22 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); print(s.recv(200).decode().split()[1])\n"
    )
    said = run_as_user(user_folder, "sandbox", "run", "--host", "example.org", "--", "/usr/bin/python3", "-c", script)
    assert said.out == "403\n", said.err


def test_a_fork_bomb_of_an_ordinary_user_is_bounded(user_folder: Path) -> None:
    configure(user_folder / "репо one", {"sandbox": {"max_processes": 40}})
    script = "for i in $(seq 200); do sleep 20 & done 2>/dev/null; jobs -p | wc -l"
    said = run_as_user(user_folder, "sandbox", "run", "--", "/bin/bash", "-c", script)
    assert said.code != 0 or int(said.out.split()[-1]) < 100
