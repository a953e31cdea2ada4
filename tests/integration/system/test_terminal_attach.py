"""A person's real terminal connected to an agent's: handed over, and given back as it was, whatever happens (D-10)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.system.terminal_frames import SOCKET_NAME
from support.terminals import TerminalUser, open_viewer, start_terminal_user
from support.wardens import read_agent_pid, read_outcome, running_warden, wait_until, write_launch

ATTACH = """
import asyncio, sys
from pathlib import Path
from blueflame.system.terminal_attach import attach_terminal
print("PARTING", asyncio.run(attach_terminal(Path(sys.argv[1]), read_only=len(sys.argv) > 2)).value)
sys.stdin.readline()
"""
TALKER = """exec 1>&0 2>&0
trap 'echo resized to $(stty size)' WINCH
trap 'echo interrupted' INT
echo size $(stty size)
while :; do read -r word || continue; [ "$word" = quit ] && break; echo "you said $word"; done"""
SHOWY = r"exec 1>&0; printf '\033[?1049h\033[?1000h\033[?2004h\033[?25l\033]0;my title\007\033[>1u ready'; read -r word"
WATCHFUL = (
    r"exec 1>&0; printf 'early \033[6n\033[c\033]11;?\007 asked\n'; read -r word; printf 'late \033[6n asked\n'; cat"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "дело"


@pytest.fixture
def talker(folder: Path) -> Iterator[Path]:
    with running_warden(write_launch(folder, "sh", "-c", TALKER, terminal={"rows": 10, "columns": 20})):
        wait_until((folder / SOCKET_NAME).exists, "there is a terminal")
        yield folder


def connected(person: TerminalUser) -> None:
    person.expect(b"size ")
    wait_until(lambda: person.is_raw, "the terminal is raw")


def test_a_person_talks_with_an_agent_and_gets_the_terminal_back(talker: Path) -> None:
    with start_terminal_user(ATTACH, talker) as person:
        connected(person)
        person.type("слово\r".encode())
        person.expect("you said слово".encode())
        person.type(b"quit\r")
        person.expect(b"PARTING ended")
        assert person.modes == person.modes_before
    wait_until((talker / "outcome.json").exists, "it is recorded")
    assert read_outcome(talker)["exit_code"] == 0


def test_control_c_and_control_z_are_the_agents(talker: Path) -> None:
    with start_terminal_user(ATTACH, talker) as person:
        connected(person)
        person.type(b"\x03")
        person.expect(b"interrupted")
        person.type(
            b"\x1a\x15still here\r"
        )  # in its own session no shell could continue it: the kernel does not stop it
        person.expect(b"you said still here")
        assert person.process.poll() is None


def test_the_size_of_the_window_reaches_the_agent(talker: Path) -> None:
    with start_terminal_user(ATTACH, talker, rows=31, columns=97) as person:
        person.expect(b"resized to 31 97")
        person.resize(50, 132)
        person.expect(b"resized to 50 132")


@pytest.mark.parametrize("keys", [b"\x1d", b"\x1b[93;5u", b"\x1b[27;5;93~", b"half\x1d"])
def test_a_person_leaves_and_the_agent_goes_on(talker: Path, keys: bytes) -> None:
    with start_terminal_user(ATTACH, talker) as person:
        connected(person)
        person.type(keys)
        person.expect(b"PARTING left")
        assert person.modes == person.modes_before
    with open_viewer(talker) as other:
        other.type(b" of it\r")
        other.expect(b"of it")


def test_what_an_agent_did_to_the_screen_is_undone(folder: Path) -> None:
    with running_warden(write_launch(folder, "sh", "-c", SHOWY, terminal={"rows": 10, "columns": 20})):
        wait_until((folder / SOCKET_NAME).exists, "there is a terminal")
        with start_terminal_user(ATTACH, folder) as person:
            shown = person.expect(b"ready")
            assert b"\x1b[22;0t" in shown  # the title is put aside first
            person.type(b"\x1d")
            undone = person.expect(b"PARTING left")
    for code in (b"?1049l", b"?1000l", b"?2004l", b"?25h", b"<u", b"23;0t", b"0m"):
        assert b"\x1b[" + code in undone


def test_a_screen_that_was_never_changed_is_not_changed_back(talker: Path) -> None:
    """Leaving another screen moves the cursor, also when there was none."""
    with start_terminal_user(ATTACH, talker) as person:
        connected(person)
        person.type(b"\x1d")
        assert b"1049l" not in person.expect(b"PARTING left")


def test_a_killed_agent_gives_the_terminal_back(talker: Path) -> None:
    with start_terminal_user(ATTACH, talker) as person:
        connected(person)
        os.kill(read_agent_pid(talker), signal.SIGKILL)
        person.expect(b"PARTING ended")
        assert person.modes == person.modes_before


def test_a_killed_warden_gives_the_terminal_back(folder: Path) -> None:
    with running_warden(write_launch(folder, "sh", "-c", TALKER, terminal={"rows": 10, "columns": 20})) as warden:
        wait_until((folder / SOCKET_NAME).exists, "there is a terminal")
        with start_terminal_user(ATTACH, folder) as person:
            connected(person)
            warden.kill()
            person.expect(b"PARTING lost")
            assert person.modes == person.modes_before
        with start_terminal_user(ATTACH, folder) as person:
            person.expect(b"cannot connect to the terminal")


def test_a_person_who_is_killed_takes_nothing_along(talker: Path) -> None:
    with start_terminal_user(ATTACH, talker) as first:
        connected(first)
        first.type(b"early\r")
        first.expect(b"you said early")
        first.process.kill()
        first.process.wait()
    with start_terminal_user(ATTACH, talker) as second:
        second.expect(b"you said early")
        second.type(b"late\r")
        second.expect(b"you said late")


def test_an_exception_gives_the_terminal_back(talker: Path) -> None:
    """As when the session around it is stopped."""
    cancelled = ATTACH.replace("asyncio.run(attach_terminal(", "asyncio.run(stopped(").replace(
        "print(",
        "async def stopped(folder, read_only):\n"
        "    task = asyncio.ensure_future(attach_terminal(folder))\n"
        "    asyncio.get_running_loop().add_signal_handler(10, task.cancel)\n"
        "    try:\n        return await task\n"
        "    except asyncio.CancelledError:\n        print('STOPPED'); sys.stdin.readline()\n        raise\n"
        "print(",
    )
    with start_terminal_user(cancelled, talker) as person:
        connected(person)
        person.process.send_signal(signal.SIGUSR1)
        person.expect(b"STOPPED")
        assert person.modes == person.modes_before


def test_who_was_stopped_and_goes_on_has_every_key_again(talker: Path) -> None:
    with start_terminal_user(ATTACH, talker) as person:
        connected(person)
        person.process.send_signal(signal.SIGSTOP)
        termios.tcsetattr(person.master, termios.TCSANOW, person.modes_before)  # as a shell does
        person.process.send_signal(signal.SIGCONT)
        wait_until(lambda: person.is_raw, "the terminal is raw again")
        person.type(b"again\r")
        person.expect(b"you said again")


def test_questions_to_the_terminal_are_asked_only_by_the_living(folder: Path) -> None:
    """What was asked before has no one to wait for the answer, which would then be typed at the agent."""
    with running_warden(write_launch(folder, "sh", "-c", WATCHFUL, terminal={"rows": 10, "columns": 20})):
        with open_viewer(folder) as witness:
            witness.expect(b"asked")
        with start_terminal_user(ATTACH, folder) as person:
            assert b"\x1b[6n" not in (past := person.expect(b"asked"))
            assert b"early" in past
            assert b"\x1b]11" not in past
            person.type(b"go\r")
            assert b"\x1b[6n" in person.expect(b"late") + person.expect(b"asked")


def test_a_late_answer_to_the_agent_does_not_reach_the_shell(folder: Path) -> None:
    with running_warden(write_launch(folder, "sh", "-c", WATCHFUL, terminal={"rows": 10, "columns": 20})):
        wait_until((folder / SOCKET_NAME).exists, "there is a terminal")
        with start_terminal_user(ATTACH, folder) as person:
            person.expect(b"asked")
            person.type(b"go\r")
            person.expect(b"late")
            person.expect(b"asked")
            person.type(b"\x1d")
            person.expect(b"\x1b[5n")  # are you well?
            person.type(b"\x1b[1;1R\x1b[0n")
            person.expect(b"PARTING left")
            person.type(b"\n")
            assert b"1;1R" not in person.seen
            person.end()
            assert b"1;1R" not in person.seen


def test_who_only_looks_changes_nothing(talker: Path) -> None:
    with start_terminal_user(ATTACH, talker, "read-only", rows=50, columns=132) as person, open_viewer(talker) as other:
        connected(person)
        person.type(b"unheard\r")
        other.type(b"heard\r")
        person.expect(b"you said heard")
        assert b"unheard" not in other.expect(b"you said heard")
        assert b"resized" not in other.seen + other.past
        person.type(b"\x03")
        person.expect(b"PARTING left")


def test_without_a_terminal_nothing_is_connected(talker: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATTACH, str(talker)], input="", capture_output=True, text=True, check=False
    )
    assert "not a terminal: run it in a terminal" in done.stderr
