"""A person's command behind the walls: its output, its exit code, its signals, and nothing of it left afterwards."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blueflame.model.errors import Refused
from blueflame.model.sandbox import MountKind, SandboxLevel
from blueflame.orchestrator.foreground_sandbox import (
    build_command_sandbox,
    build_site,
    find_highest_level,
    find_sandbox_problems,
    run_in_sandbox,
)
from blueflame.sandbox.person_checkout import find_checkout, read_checkout
from blueflame.sandbox.probe import SandboxProblem
from support.command_line import MAIN, Said, call, configure, here, until
from support.sandboxes import needs_sandbox

pytestmark = needs_sandbox


Boxed = Callable[..., Said]


@pytest.fixture(autouse=True)
def single_thread() -> Iterator[None]:
    """Programs are started by a bare clone of a process with one thread. xdist has another one: if it asked for the
    interpreter's lock at that moment, the clone would wait for it for ever. It asks after the interval, and is given
    the lock before that when we wait for something, as we do here for requests that are made already."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    time.sleep(0.02)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def sandbox(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Boxed:
    """`blueflame sandbox run` in this process; the command inside is a real one."""

    def run(*argv: object, cwd: Path) -> Said:
        monkeypatch.chdir(cwd)
        return here(capfd, "sandbox", "run", *argv)

    return run


@pytest.fixture
def boxed(sandbox: Boxed) -> Boxed:
    return lambda *argv, cwd: sandbox("--", *argv, cwd=cwd)


def test_the_exit_code_is_the_commands(repo: Path, boxed: Boxed) -> None:
    assert boxed("/bin/sh", "-c", "echo out; echo err >&2; exit 7", cwd=repo) == (7, "out\n", "err\n")
    assert boxed("/bin/sh", "-c", "kill -SEGV $$", cwd=repo)[0] == 128 + signal.SIGSEGV


def test_a_program_that_is_missing_inside_is_reported(repo: Path, boxed: Boxed) -> None:
    code, _, err = boxed("no-such-program", "x", cwd=repo)
    assert code != 0
    assert "no-such-program" in err
    assert "Traceback" not in err


def test_standard_input_comes_through(repo: Path) -> None:
    argv = [sys.executable, "-c", MAIN, "sandbox", "run", "--", "tr", "a-z", "A-Z"]
    done = subprocess.run(argv, cwd=repo, input="кот cat\n", text=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "кот CAT\n"), done.stderr


def test_a_file_given_to_read_cannot_be_written_and_one_given_to_write_cannot_be_read(
    repo: Path, tmp_path: Path
) -> None:
    given, taken = tmp_path / "given", tmp_path / "taken"
    given.write_text("canary")
    taken.write_text("secret\n")
    script = (
        "cat; for n in 0 1 2; do (echo x >>/proc/self/fd/$n) 2>/dev/null; done;"
        " timeout 1 cat /proc/self/fd/1 >~/got; grep -c secret ~/got >&2"
    )
    with given.open("rb") as source, taken.open("ab") as sink:
        argv = [sys.executable, "-c", MAIN, "sandbox", "run", "--", "/bin/bash", "-c", script]
        done = subprocess.run(
            argv, cwd=repo, stdin=source, stdout=sink, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert given.read_text() == "canary"
    assert taken.read_text().startswith("secret\ncanary")
    assert done.stderr.split()[-1:] == [b"0"]


def test_both_outputs_into_one_file_keep_their_order(repo: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", MAIN, "sandbox", "run", "--"]
    script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done; exit 4"
    with (tmp_path / "log").open("wb") as sink:
        done = subprocess.run(
            [*argv, "/bin/sh", "-c", script], cwd=repo, stdout=sink, stderr=sink, timeout=60, check=False
        )
    assert done.returncode == 4
    lines = [f"{what} {n}" for n in (1, 2, 3) for what in ("out", "err")]
    assert (tmp_path / "log").read_text().splitlines() == lines


def test_a_folder_given_as_input_is_refused(repo: Path) -> None:
    handle = os.open("/", os.O_RDONLY)
    try:
        argv = [sys.executable, "-c", MAIN, "sandbox", "run", "--", "ls", "/proc/self/fd/0/"]
        done = subprocess.run(argv, cwd=repo, stdin=handle, capture_output=True, timeout=60, check=False)
    finally:
        os.close(handle)
    assert done.returncode != 0
    assert done.stdout == b""


def test_in_a_repository_of_ones_own_git_can_be_asked_and_not_changed(repo: Path, boxed: Boxed) -> None:
    script = (
        "echo new >src/new.py; git status --short; git log --format=%s; git add -A;"
        " echo x >.git/hooks/pre-commit; echo evil >>.git/config; mv .git .tig; rm -rf .git"
    )
    _, out, _ = boxed("/bin/sh", "-c", script, cwd=repo)
    assert out.splitlines()[:2] == ["?? src/new.py", "Begin"]
    assert (repo / "src/new.py").exists()
    assert not (repo / ".git/hooks/pre-commit").exists()
    assert "evil" not in (repo / ".git/config").read_text()
    assert subprocess.run(["git", "fsck"], cwd=repo, check=True, capture_output=True).returncode == 0


def test_it_starts_in_the_current_folder(repo: Path, boxed: Boxed) -> None:
    assert boxed("pwd", cwd=repo / "src")[1].strip() == str(repo / "src")


def test_what_git_ignores_and_the_rules_block_cannot_be_seen(repo: Path, boxed: Boxed) -> None:
    (repo / ".gitignore").write_text(".env\n.blueflame/\n")
    (repo / ".env").write_text("PASSWORD=canary\n")
    (repo / "go.mod").write_text("module x\n")
    (repo / ".blueflame").mkdir()
    (repo / ".blueflame" / "journal.db").write_text("canary")
    configure(repo)
    _, out, _ = boxed(
        "/bin/sh", "-c", "cat .env; ls -A .blueflame; cat go.mod; echo y >go.mod; echo y >.env; rm -f .env", cwd=repo
    )
    assert out == "module x\n"
    assert (repo / ".env").read_text() == "PASSWORD=canary\n"
    assert (repo / "go.mod").read_text() == "module x\n"


def test_a_server_of_the_persons_that_listens_in_the_checkout_is_not_reached(
    repo: Path, monkeypatch: pytest.MonkeyPatch, boxed: Boxed
) -> None:
    monkeypatch.chdir(repo)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(".overmind.sock")
        server.listen()
        server.settimeout(0.2)
        script = "import socket; socket.socket(socket.AF_UNIX).connect('.overmind.sock')"
        assert boxed("/usr/bin/python3", "-c", script, cwd=repo)[0] != 0
        with pytest.raises(TimeoutError):
            server.accept()


def test_outside_of_a_repository_a_folder_must_be_named(tmp_path: Path, sandbox: Boxed) -> None:
    (tmp_path / "папка").mkdir()
    said = sandbox("--", "true", cwd=tmp_path)
    assert said.code == 3
    assert "--worktree" in said.err
    said = sandbox("--worktree", "папка", "--", "/bin/sh", "-c", "pwd; echo x >here", cwd=tmp_path)
    assert (said.code, said.out.strip()) == (0, str(tmp_path / "папка"))
    assert (tmp_path / "папка" / "here").exists()


def test_a_linked_worktree_reads_its_repository(repo: Path, tmp_path: Path, boxed: Boxed) -> None:
    linked = tmp_path / "linked"
    subprocess.run(["git", "worktree", "add", "-q", str(linked), "-b", "side"], cwd=repo, check=True)
    _, out, err = boxed("/bin/sh", "-c", "git log --format=%s; echo x >new && git status --short", cwd=linked)
    assert out.splitlines() == ["Begin", "?? new"], err


def test_an_agents_checkout_is_its_own_with_the_repositorys_history(repo: Path, sandbox: Boxed) -> None:
    configure(repo)
    checkout = repo / ".trees" / "one"
    subprocess.run(["git", "clone", "-q", "--shared", str(repo), str(checkout)], check=True)
    (checkout / "blueflame.yaml").write_text("not: [valid")  # an agent's own file counts for nothing
    said = sandbox(
        "--worktree", checkout, "--", "/bin/sh", "-c",
        f"echo x >new; git add new; git commit -qm 'feat(task-001): new'; git log --format=%s -1; ls -A '{repo}'; pwd",
        cwd=repo,
    )  # fmt: skip
    *lines, folder = said.out.splitlines()
    assert lines == ["feat(task-001): new", ".git"], said.err
    assert folder.startswith("/work/")
    assert "/." not in folder


def test_the_folder_of_its_home_and_tmp_is_gone_afterwards(repo: Path, tmp_path: Path) -> None:
    ours = tmp_path / "tmp"
    ours.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    script = f"mkdir -p ~/a/b; echo x >~/a/b/c; ln -s '{outside}' ~/a/link; chmod 000 ~/a/b; chmod 500 ~/a"
    argv = [sys.executable, "-c", MAIN, "sandbox", "run", "--", "/bin/sh", "-c", script]
    subprocess.run(argv, cwd=repo, env={**os.environ, "TMPDIR": str(ours)}, check=True, timeout=60)
    assert list(ours.iterdir()) == []
    assert outside.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 42), (signal.SIGTERM, 43)])
def test_a_signal_is_passed_on_and_the_command_decides(repo: Path, number: signal.Signals, expected: int) -> None:
    script = "trap 'exit 42' INT; trap 'exit 43' TERM; echo ready; while :; do sleep 0.05; done"
    argv = [sys.executable, "-c", MAIN, "sandbox", "run", "--", "/bin/bash", "-c", script]
    with subprocess.Popen(argv, cwd=repo, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(30) == expected


def test_a_command_that_will_not_end_is_ended_when_asked_twice(repo: Path) -> None:
    script = "trap '' TERM INT; echo ready; while :; do sleep 0.05; done"
    argv = [sys.executable, "-c", MAIN, "sandbox", "run", "--", "/bin/bash", "-c", script]
    with subprocess.Popen(argv, cwd=repo, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(2):
            process.terminate()
            time.sleep(0.3)  # two signals that arrive together are one
        assert process.wait(30) == 128 + signal.SIGTERM


def test_when_we_are_killed_the_command_dies_with_us(repo: Path) -> None:
    argv = [sys.executable, "-c", MAIN, "sandbox", "run", "--", "/bin/sh", "-c", "echo $$ >alive; sleep 60"]
    with subprocess.Popen(argv, cwd=repo) as process:
        until((repo / "alive").exists, what="the command")
        process.kill()
    until(lambda: not _running("sleep 60", repo), what="its end")


def _running(words: str, folder: Path) -> bool:
    """Whether a process with this command line works in the folder."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if line.strip() == words and (entry / "cwd").readlink() == folder:
                return True
        except OSError:
            continue
    return False


@pytest.mark.verification(18)
def test_limits_hold(repo: Path, boxed: Boxed) -> None:
    configure(repo, {"sandbox": {"max_file_size_mb": 1, "max_open_files": 64, "max_memory_mb": 100}})
    assert boxed("/bin/bash", "-c", "ulimit -n; ulimit -c", cwd=repo)[1].split() == ["64", "0"]
    assert boxed("/bin/sh", "-c", "head -c 3000000 /dev/zero >big", cwd=repo)[0] != 0
    assert (repo / "big").stat().st_size <= 1 << 20
    code, _, err = boxed("/usr/bin/python3", "-c", "import time; x = b'x' * 400_000_000; time.sleep(20)", cwd=repo)
    assert code != 0
    assert "Traceback" not in err


def test_a_host_that_is_not_allowed_is_not_reached_even_with_a_gateway(repo: Path, sandbox: Boxed) -> None:
    script = (
        "import os, socket\n"
        "s = socket.create_connection(('127.0.0.1', int(os.environ['BLUEFLAME_GATEWAY_PORT'])))\n"
        "s.sendall(b'CONNECT example.com:443 HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n')\n"
        "print(s.recv(200).decode().split()[1], os.environ['HTTPS_PROXY'])\n"
    )
    said = sandbox("--host", "example.org", "--", "/usr/bin/python3", "-c", script, cwd=repo)
    assert said.out == "403 http://127.0.0.1:61128\n", said.err


@pytest.mark.parametrize("host", ["http://x", "a b", "", "*"])
def test_an_invalid_host_is_refused(repo: Path, host: str, sandbox: Boxed) -> None:
    said = sandbox("--host", host, "--", "true", cwd=repo)
    assert said.code == 2
    assert f"--host: {host!r} is" in said.err


@pytest.mark.verification(18)
def test_a_level_that_cannot_be_held_is_refused_and_nothing_runs(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = build_site(read_checkout(repo), repo, None, None)
    problem = SandboxProblem("bubblewrap", "bubblewrap (bwrap) is not installed; install it")
    monkeypatch.setattr("blueflame.orchestrator.foreground_sandbox.find_problems", lambda level, groups: (problem,))
    with pytest.raises(Refused, match="not installed"):
        run_in_sandbox(ground, ["touch", "canary"])
    assert not (repo / "canary").exists()


def test_level_off_is_off_and_reported(repo: Path) -> None:
    """As a program: without a sandbox, all descendants of the process are killed at the end, and we have some."""
    configure(repo, {"sandbox": {"level": "off"}})
    code, out, err = call("sandbox", "run", "--", "/bin/sh", "-c", "cd /; pwd; exit 3", cwd=repo)
    assert (code, out) == (3, "/\n")
    assert "without a sandbox" in err


def test_the_machine_is_asked_for_what_it_can_hold() -> None:
    assert find_sandbox_problems("standard") == ()
    assert find_sandbox_problems("off") == ()
    assert find_highest_level() in (SandboxLevel.STANDARD, SandboxLevel.STRICT)
    assert bool(find_sandbox_problems("strict")) == (find_highest_level() is SandboxLevel.STANDARD)


def test_the_box_of_a_checkout_is_the_same_each_time(repo: Path) -> None:
    ground = build_site(find_checkout(repo / "src"), repo, None, None)
    folder = Path(tempfile.gettempdir(), "nowhere")
    box = build_command_sandbox(ground, folder)
    assert box == build_command_sandbox(ground, folder)
    kinds = {mount.target: mount.kind for mount in box.mounts}
    assert kinds[str(repo)] is MountKind.RW
    assert kinds[str(repo / ".git")] is MountKind.RO
