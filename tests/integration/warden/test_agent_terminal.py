"""Agents with their own terminal: keys, sizes, several viewers, and no viewer ever blocks the agent."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from blueflame.system.terminal_frames import KEYS, SOCKET_NAME, build_frame
from support.small_sandbox import (
    SystemUser,
    build_sandbox_options,
    find_user,
    list_users,
    make_shared_folder,
    running_warden_as,
    write_sandboxed_launch,
)
from support.terminals import open_viewer
from support.wardens import read_outcome, wait_until, write_launch
from support.wardens import running_warden as warden_of

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="the rest of the walls is for Linux")

SIZE = {"rows": 33, "columns": 111}
TALKER = """exec 1>&0 2>&0
trap 'echo resized to $(stty size)' WINCH
trap 'echo interrupted' INT
echo size $(stty size)
while :; do read -r word || continue; [ "$word" = quit ] && break; echo "you said $word"; done
exit 3"""
FLOOD = "exec 1>&0; yes слово | head -c 8000000; echo last"


@pytest.fixture(params=["in the open", *list_users()])
def who(request: pytest.FixtureRequest) -> SystemUser | None:
    return None if request.param == "in the open" else find_user(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with make_shared_folder() as place:
        yield place


@pytest.fixture
def talker(who: SystemUser | None, folder: Path) -> Iterator[Path]:
    with running(who, folder, "sh", "-c", TALKER):
        yield folder


def running(who: SystemUser | None, folder: Path, *argv: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    if who is None:
        return warden_of(write_launch(folder, *argv, terminal=SIZE))
    return running_warden_as(who, write_sandboxed_launch(folder, *argv, terminal=SIZE))


def test_an_agent_is_talked_to_at_its_terminal(talker: Path) -> None:
    with open_viewer(talker) as viewer:
        viewer.expect(b"size 33 111")
        viewer.type("слово\r".encode())
        viewer.expect("you said слово".encode())
        viewer.type(b"quit\r")
        assert viewer.until_gone()
    wait_until((talker / "outcome.json").exists, "it is recorded")
    assert (read_outcome(talker)["reason"], read_outcome(talker)["exit_code"]) == ("exited", 3)
    assert not (talker / SOCKET_NAME).exists()


def test_control_c_and_a_new_size_reach_the_agent(talker: Path) -> None:
    with open_viewer(talker) as viewer:
        viewer.expect(b"size 33 111")
        viewer.type(b"\x03")
        viewer.expect(b"interrupted")
        viewer.resize(50, 132)
        viewer.expect(b"resized to 50 132")


def test_an_agent_redraws_also_when_a_viewer_has_the_same_size(talker: Path) -> None:
    """A new viewer needs the whole screen, also when the size does not change."""
    with open_viewer(talker) as viewer:
        viewer.expect(b"size 33 111")
        viewer.resize(33, 111)
        viewer.expect(b"resized to 33 111")


def test_an_agent_without_its_own_session_is_signalled_about_a_new_size(folder: Path) -> None:
    """In a sandbox without setsid, no process has it as its controlling terminal."""
    who = find_user("ourselves")
    walls = build_sandbox_options(
        folder, "--ro-bind", "/dev/null", str(Path(shutil.which("setsid") or "/usr/bin/setsid").resolve())
    )
    with (
        running_warden_as(who, write_sandboxed_launch(folder, "sh", "-c", TALKER, terminal=SIZE, sandbox=walls)),
        open_viewer(folder) as viewer,
    ):
        viewer.expect(b"size 33 111")
        viewer.resize(50, 132)
        viewer.expect(b"resized to 50 132")


def test_a_later_viewer_gets_the_earlier_output(talker: Path) -> None:
    with open_viewer(talker) as first:
        first.type(b"early\r")
        first.expect(b"you said early")
        with open_viewer(talker) as second:
            second.expect(b"you said early")
            assert b"size 33 111" in second.past
            second.type(b"both\r")
            second.expect(b"you said both")
            first.expect(b"you said both")
    with open_viewer(talker) as third:  # all viewers have left, and the agent continues
        third.expect(b"you said both")


def test_what_the_agent_prints_is_in_the_spool(folder: Path) -> None:
    with warden_of(write_launch(folder, "sh", "-c", "echo out; echo err >&2; echo shown >&0", terminal=SIZE)) as warden:
        assert warden.wait(20) == 0
    assert (folder / "stdout.log").read_text() == "out\n"
    assert (folder / "stderr.log").read_text() == "err\n"


def test_an_agent_with_much_output_needs_no_viewer(folder: Path) -> None:
    with warden_of(write_launch(folder, "sh", "-c", f"{FLOOD}; read -r word; exit 4", terminal=SIZE)) as warden:
        with open_viewer(folder) as late:
            late.expect(b"last")
            late.type(b"go\r")
        assert warden.wait(20) == 0
    assert read_outcome(folder)["exit_code"] == 4


def test_a_viewer_that_does_not_read_misses_output(folder: Path) -> None:
    talk = f"read -r word; {FLOOD}; read -r word; exit 5"
    with warden_of(write_launch(folder, "sh", "-c", talk, terminal=SIZE)) as warden:
        with open_viewer(folder) as sleeper, open_viewer(folder) as other:
            sleeper.type(b"go\r")
            other.expect(b"last")
            sleeper.expect(b"last")
            assert len(sleeper.past + sleeper.seen) < 4_000_000
            other.type(b"go\r")
            assert other.until_gone()
        assert warden.wait(20) == 0
    assert read_outcome(folder)["exit_code"] == 5


def test_keys_that_an_agent_does_not_read_block_nothing(folder: Path) -> None:
    with warden_of(write_launch(folder, "sh", "-c", "stty raw >&0; echo ready >&0; sleep 600", terminal=SIZE)):
        with open_viewer(folder) as viewer:
            viewer.expect(b"ready")
            for _ in range(8):
                viewer.type(b"x" * 60_000)
        with open_viewer(folder) as next_one:
            next_one.expect(b"ready")


@pytest.mark.parametrize(
    "nonsense", [b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 64, build_frame(KEYS, b"k" * 70_000), b"s\0\0\0\1x"]
)
def test_a_viewer_that_sends_invalid_frames_is_disconnected(folder: Path, nonsense: bytes) -> None:
    with warden_of(write_launch(folder, "sh", "-c", TALKER, terminal=SIZE)):
        with open_viewer(folder) as stranger:
            stranger.connection.sendall(nonsense)
            assert not stranger.until_gone()
        with open_viewer(folder) as viewer:
            viewer.type(b"still here\r")
            viewer.expect(b"you said still here")


def test_viewers_are_notified_when_the_agent_is_killed(folder: Path) -> None:
    with warden_of(write_launch(folder, "sh", "-c", "echo ready >&0; kill -9 $$", terminal=SIZE)) as warden:
        assert warden.wait(20) == 0
    assert read_outcome(folder)["signal"] == 9
    with (
        warden_of(write_launch(folder / "next", "sh", "-c", TALKER, terminal=SIZE)) as warden,
        open_viewer(folder / "next") as viewer,
    ):
        viewer.expect(b"size")
        (folder / "next" / "cancel").write_text('{"reason": "enough", "grace": 0}')
        assert viewer.until_gone()
        assert warden.wait(20) == 0
    assert read_outcome(folder / "next")["reason"] == "cancelled"


def test_only_its_owner_may_connect(talker: Path) -> None:
    wait_until((talker / SOCKET_NAME).exists, "there is a terminal")
    assert stat.S_IMODE((talker / SOCKET_NAME).stat().st_mode) == 0o600


def test_a_folder_may_lie_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("глубоко-" * 10) / ("глубже-" * 10) / "дело"
    with warden_of(write_launch(deep, "sh", "-c", TALKER, terminal=SIZE)), open_viewer(deep) as viewer:
        viewer.type(b"hello\r")
        viewer.expect(b"you said hello")


@pytest.mark.parametrize(
    ("terminal", "complaint"),
    [
        ({"rows": 24}, "terminal: columns"),
        ({"rows": 0, "columns": 80}, "terminal: rows"),
        ({"rows": 24, "columns": 80, "colour": 1}, "terminal: colour"),
        (True, "terminal must be an object"),
    ],
)
def test_a_terminal_that_is_not_understood_is_refused(tmp_path: Path, terminal: object, complaint: str) -> None:
    with warden_of(write_launch(tmp_path / "дело", "true", terminal=terminal)) as warden:
        assert warden.wait(20) == 0
    assert read_outcome(tmp_path / "дело")["reason"] == "spawn_failed"
    assert complaint in read_outcome(tmp_path / "дело")["detail"]
