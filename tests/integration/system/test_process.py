"""Real processes: what they say, how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.errors import ProcessFailed
from blueflame.system import process_identity as liveness
from blueflame.system.piped_process import PipedProcess
from blueflame.system.proc import read_boot_id
from blueflame.system.process import (
    ProcessResultBytes,
    read_tail,
    run,
    run_bytes,
    run_capped,
    start_detached,
)
from blueflame.system.process_identity import (
    ProcessIdentity,
    ProcessState,
    read_identity,
    read_process_state,
    wait_until_gone,
)
from support.disks import fill, mounted

HERE = Path("/")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def is_dead(pid: int) -> bool:
    return read_identity(pid) is None


# --- run


def test_output_errors_and_code_come_back(tmp_path: Path) -> None:
    assert run("sh", "-c", "echo out; echo err >&2; exit 3", cwd=tmp_path) == (3, "out\n", "err\n")


def test_line_ends_and_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    done = run("printf", r"a\r\nb\377", cwd=tmp_path)
    assert done.out == "a\r\nb\udcff"
    assert done.out.encode("utf-8", "surrogateescape") == b"a\r\nb\xff"


@settings(max_examples=25)
@given(st.binary(max_size=200))
def test_what_goes_in_as_bytes_or_text_comes_out_the_same(data: bytes) -> None:
    assert run_bytes("cat", cwd=HERE, stdin=data).out == data
    assert (
        run("cat", cwd=HERE, stdin=data.decode("utf-8", "surrogateescape")).out.encode("utf-8", "surrogateescape")
        == data
    )


def test_unread_input_and_large_output_do_not_block(tmp_path: Path) -> None:
    done = run("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x", cwd=tmp_path, stdin="y" * 1_000_000)
    assert len(done.out) == 300_000


def test_without_input_a_reader_sees_the_end_at_once(tmp_path: Path) -> None:
    assert run("cat", cwd=tmp_path).out == ""


def test_a_timeout_names_command_folder_and_seconds_and_kills_the_group(tmp_path: Path) -> None:
    script = "sleep 1000 & echo $! > child; wait"
    with pytest.raises(ProcessFailed) as caught:
        run("sh", "-c", script, cwd=tmp_path, timeout=1.0)
    assert "sleep 1000" in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "1.0 seconds" in str(caught.value)
    eventually(lambda: is_dead(int((tmp_path / "child").read_text())))


def test_a_grandchild_that_keeps_the_pipe_open_cannot_outlast_the_timeout(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed):
        run("sh", "-c", "setsid sleep 1000 & echo $! > child", cwd=tmp_path, timeout=1.0)
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_an_interrupt_while_waiting_leaves_nothing_running(tmp_path: Path) -> None:
    """The child interrupts us as early as it can, often while we are still busy with starting it."""
    for n in range(10):
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            run("sh", "-c", f"echo $$ > leader{n}; kill -INT $PPID; sleep 1000", cwd=tmp_path)
        assert is_dead(int((tmp_path / f"leader{n}").read_text()))
        assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("execute", [run_bytes, partial(run_capped, max_bytes=100)])
def test_a_child_that_an_interrupt_ends_before_it_ran_is_run_again(
    execute: Callable[..., ProcessResultBytes], tmp_path: Path
) -> None:
    """Ctrl-C reaches it until it has a session of its own; the second one is not interrupted."""
    script = "if [ -e begun ]; then echo ran; else touch begun; kill -INT $$; fi"
    assert execute("sh", "-c", script, cwd=tmp_path).out == b"ran\n"


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="no-such-program-бф: no such program on PATH"):
        run("no-such-program-бф", cwd=tmp_path, env={"PATH": str(tmp_path)})  # folders of another user may hide one


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match=r"the folder .*нет такой does not exist"):
        run("true", cwd=tmp_path / "нет такой")


def test_a_program_that_may_not_be_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    with pytest.raises(ProcessFailed, match="Permission denied"):
        run(str(tmp_path / "text"), cwd=tmp_path)


def test_a_nul_byte_in_an_argument_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="null byte"):
        run("echo", "a\0b", cwd=tmp_path)


# --- run_capped


def test_short_output_is_whole(tmp_path: Path) -> None:
    done = run_capped("sh", "-c", "echo some; echo err >&2; exit 2", cwd=tmp_path, max_bytes=100)
    assert done == (2, b"some\n", b"err\n", False)


def test_endless_output_is_cut_and_its_program_stopped(tmp_path: Path) -> None:
    done = run_capped("yes", cwd=tmp_path, max_bytes=1001)
    assert done.truncated
    assert len(done.out) == 1001


def test_silence_beyond_the_timeout_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="sleep 1000"):
        run_capped("sleep", "1000", cwd=tmp_path, max_bytes=10, timeout=0.3)


# --- tail


def test_the_tail_of_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert read_tail(tmp_path / "none", 10) == ""


@settings(deadline=None)
@given(text=st.text(max_size=60), size=st.integers(min_value=1, max_value=80))
def test_a_tail_is_an_end_of_the_text_without_half_characters(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int
) -> None:
    path = tmp_path_factory.mktemp("tail") / "log"
    path.write_bytes(text.encode())
    end = read_tail(path, size)
    assert text.endswith(end)
    assert len(text.encode()) - 4 < len(end.encode()) + max(0, len(text.encode()) - size)


# --- start_detached, identity, standing, until_gone


def test_a_detached_process_has_its_own_session_and_no_terminal_input(tmp_path: Path) -> None:
    script = "import os,sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()), os.getcwd(), flush=True)"
    pid = start_detached([sys.executable, "-c", script], cwd=tmp_path, log=tmp_path / "deep" / "log")
    eventually(lambda: is_dead(pid))
    assert (tmp_path / "deep" / "log").read_text() == f"True '' {tmp_path}\n"


def test_a_detached_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from blueflame.system.process import start_detached;"
        f"print(start_detached(['sleep', '1000'], cwd=Path('/'), log=Path({str(tmp_path / 'log')!r})))"
    )
    pid = int(run(sys.executable, "-c", script, cwd=tmp_path).out)
    known = read_identity(pid)
    assert known is not None
    assert read_process_state(known) is ProcessState.ALIVE
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: read_process_state(known) is ProcessState.DEAD)


@pytest.mark.verification(32)
def test_a_zombie_is_dead(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    try:
        known = read_identity(child.pid)
        assert known is not None
        child.kill()
        eventually(lambda: read_process_state(known) is ProcessState.DEAD)
        assert child.returncode is None
        assert read_identity(child.pid) is None
    finally:
        child.wait()


@pytest.mark.verification(8, 34)
def test_a_recycled_pid_and_an_earlier_boot_are_dead() -> None:
    me = read_identity(os.getpid())
    assert me is not None
    assert read_process_state(me) is ProcessState.ALIVE
    assert read_process_state(me._replace(start_time=me.start_time - 1)) is ProcessState.DEAD
    assert read_process_state(me._replace(boot_id="another boot")) is ProcessState.DEAD


def test_a_process_we_may_not_look_at_is_not_called_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(_pid: int) -> None:
        raise liveness.ProcessHidden

    monkeypatch.setattr(liveness, "_read_snapshot", hidden)
    assert read_process_state(ProcessIdentity(1, 0.0, read_boot_id())) is ProcessState.UNKNOWN
    assert read_identity(1) is None


def test_no_process_has_no_identity() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert read_identity(child.pid) is None


def test_a_process_with_a_strange_name_is_known(tmp_path: Path) -> None:
    odd = tmp_path / "a ) Z ("
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "1000"])
    try:
        eventually(lambda: read_identity(child.pid) is not None)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("pidfd", [True, False])
def test_waiting_ends_when_the_process_does(pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    child = subprocess.Popen(["sleep", "1000"])
    known = read_identity(child.pid)
    assert known is not None

    async def story() -> None:
        waiting = asyncio.create_task(wait_until_gone(known.pid, known.start_time))
        await asyncio.sleep(0)
        assert not waiting.done()
        child.kill()
        await asyncio.wait_for(waiting, 20)
        await asyncio.wait_for(wait_until_gone(known.pid, known.start_time), 20)

    asyncio.run(story())
    child.wait()
    asyncio.run(wait_until_gone(known.pid, known.start_time))


def test_waiting_for_one_whose_pid_is_anothers_ends_at_once() -> None:
    asyncio.run(asyncio.wait_for(wait_until_gone(os.getpid(), 1.0), 20))


def test_a_folder_for_temporary_files_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    words = r"cannot write temporary files in \S+/gone: No such file"
    with pytest.raises(OSError, match=words):
        run_capped("true", cwd=tmp_path, max_bytes=9)
    with pytest.raises(OSError, match=words):
        PipedProcess(["true"], cwd=tmp_path, env={})


def test_a_folder_for_temporary_files_that_is_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "small"))
    with mounted(tmp_path / "small", 1):
        fill(tmp_path / "small" / "ballast")

        with pytest.raises(OSError, match=r"cannot write temporary files in \S+/small: No space left"):
            run_capped("cat", cwd=tmp_path, max_bytes=9, stdin=b"a request")
