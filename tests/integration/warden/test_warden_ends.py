"""Attempts that have to be ended, and wardens that are killed or have a full disk: nothing is left running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blueflame.warden.output import Spool
from support.disks import mounted
from support.wardens import (
    ENTRY,
    ROOT,
    is_alive,
    read_agent_pid,
    read_outcome,
    read_pid,
    read_state,
    run_warden,
    running_warden,
    start_warden,
    wait_until,
    write_launch,
)

DEAF = "trap '' TERM; echo $$ > agent; while :; do sleep 0.1; done"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "дела" / "ses-20260101-000000.task-001.worker.1"


def cancelled(folder: Path, *up: str) -> dict[str, Any]:
    """Run until all processes have written their pids, then cancel; none of them may be left."""
    with running_warden(folder) as warden:
        family = [read_pid(folder / name) for name in up]
        (folder / "cancel").write_text("{}")
        assert warden.wait(20) == 0
    assert not any(map(is_alive, family))
    return read_outcome(folder)


@pytest.mark.verification(37)
def test_an_agent_over_its_time_is_ended(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "sleep", "600", timeout=0.2))

    assert (ended["reason"], ended["signal"]) == ("timeout", signal.SIGTERM)


def test_an_agent_is_asked_before_it_is_killed(folder: Path) -> None:
    polite = "trap 'echo bye; exit 9' TERM; echo $$ > agent; while :; do sleep 0.05; done"

    ended = cancelled(write_launch(folder, "sh", "-c", polite, grace=60), "agent")

    assert (ended["reason"], ended["exit_code"]) == ("cancelled", 9)
    assert (folder / "stdout.log").read_text() == "bye\n"


@pytest.mark.verification(37)
def test_an_agent_that_ignores_term_is_killed_after_the_grace(folder: Path) -> None:
    ended = cancelled(write_launch(folder, "sh", "-c", DEAF, grace=0.2), "agent")

    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("cancelled", None, signal.SIGKILL)


def test_the_time_of_an_agent_does_not_pass_while_all_is_stopped(folder: Path) -> None:
    """A container that is frozen, or SIGSTOP to everything."""
    write_launch(folder, "sh", "-c", "echo $$ > agent; mkfifo go; cat go", timeout=2)
    with running_warden(folder) as warden:
        agent = read_pid(folder / "agent")
        for pid in (warden.pid, agent):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)  # the fault itself: longer than the agent's whole time
        for pid in (agent, warden.pid):
            os.kill(pid, signal.SIGCONT)
        (folder / "go").write_text("go\n")
        assert warden.wait(20) == 0
    assert read_outcome(folder)["reason"] == "exited"


@pytest.mark.parametrize(
    ("script", "reason"),
    [("kill -STOP $$", "lost"), ("sleep 600 & kill -STOP $!; wait", "timeout")],
    ids=["itself", "what it started"],
)
def test_a_stopped_agent_is_ended_and_lost(folder: Path, script: str, reason: str) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", script, timeout=0.3, grace=5))

    assert (ended["reason"], ended["signal"]) == (reason, signal.SIGTERM)


@pytest.mark.verification(37)
def test_grandchildren_with_a_session_of_their_own_are_ended(folder: Path) -> None:
    family = "\n".join(
        [
            "cat > deaf.sh <<'X'",
            "trap '' TERM",
            "echo $$ > $1",
            "while :; do sleep 0.05; done",
            "X",
            "setsid sh deaf.sh one &",
            "(setsid sh deaf.sh two &)",
            "exec sleep 600",
        ]
    )
    ended = cancelled(write_launch(folder, "sh", "-c", family, grace=0.2), "one", "two")

    assert ended["left_running"] == []


@pytest.mark.verification(37)
def test_a_grandchild_that_keeps_the_output_open_does_not_block_the_warden(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", "sleep 600 & echo $! > keeper; echo done"))

    assert (ended["reason"], ended["exit_code"]) == ("exited", 0)
    assert (folder / "stdout.log").read_text() == "done\n"
    assert not is_alive(read_pid(folder / "keeper"))


def test_a_flood_is_cut_off_and_costs_neither_memory_nor_disk(folder: Path) -> None:
    cap = 20_000_000

    ended = run_warden(write_launch(folder, "sh", "-c", "yes 0123456789012345678901234567890123456789", max_output=cap))

    assert ended["reason"] == "output"
    assert str(cap) in ended["detail"]
    assert (folder / "stdout.log").stat().st_size == cap


def test_a_silent_agent_is_ended(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", "echo hello; sleep 600", silence=0.3))

    assert (ended["reason"], ended["signal"]) == ("silent", signal.SIGTERM)


def test_any_output_ends_the_silence(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    spool.grew_at -= 1000
    spool.update_size()
    assert spool.grew_at <= time.monotonic() - 1000
    (tmp_path / "stderr.log").write_text("still here")

    spool.update_size()

    assert spool.grew_at > time.monotonic() - 1000
    assert spool.size == len("still here")


def test_a_cancel_file_ends_it_with_its_reason(folder: Path) -> None:
    with running_warden(write_launch(folder, "sh", "-c", "echo $$ > agent; exec sleep 600")) as warden:
        agent = read_pid(folder / "agent")
        (folder / "cancel").write_text(json.dumps({"reason": "человек передумал", "grace": 3}))
        assert warden.wait(20) == 0

    assert (read_outcome(folder)["reason"], read_outcome(folder)["detail"]) == ("cancelled", "человек передумал")
    assert not is_alive(agent)


def test_a_later_cancel_can_only_hurry_it(folder: Path) -> None:
    with running_warden(write_launch(folder, "sh", "-c", DEAF, grace=60)) as warden:
        agent = read_pid(folder / "agent")
        warden.send_signal(signal.SIGTERM)
        wait_until(lambda: read_state(folder) == "stopping", "it is being ended")
        (folder / "cancel").write_text('{"reason": "at once", "grace": 0}')
        assert warden.wait(20) == 0

    assert (read_outcome(folder)["reason"], read_outcome(folder)["signal"]) == ("cancelled", signal.SIGKILL)
    assert not is_alive(agent)


def test_term_to_the_warden_cancels_and_a_second_one_kills(folder: Path) -> None:
    with running_warden(write_launch(folder, "sh", "-c", DEAF, grace=60)) as warden:
        agent = read_pid(folder / "agent")
        warden.send_signal(signal.SIGTERM)
        wait_until(lambda: read_state(folder) == "stopping", "it is being ended")
        warden.send_signal(signal.SIGTERM)
        assert warden.wait(20) == 0

    assert read_outcome(folder)["reason"] == "cancelled"
    assert not is_alive(agent)


def test_what_is_cancelled_before_it_starts_never_starts(folder: Path) -> None:
    write_launch(folder, "touch", "ran", setup=[{"name": "s", "shell": "touch ran"}])
    (folder / "cancel").write_text("not even JSON")

    assert run_warden(folder)["reason"] == "cancelled"
    assert not (folder / "ran").exists()


def test_a_cancel_during_setup_ends_the_setup(folder: Path) -> None:
    write_launch(folder, "touch", "ran", setup=[{"name": "s", "shell": "echo $$ > step; exec sleep 600"}])
    with running_warden(folder) as warden:
        step = read_pid(folder / "step")
        (folder / "cancel").write_text("{}")
        assert warden.wait(20) == 0

    assert (read_outcome(folder)["reason"], read_outcome(folder)["stage"]) == ("cancelled", "setup")
    assert not is_alive(step)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGQUIT])
def test_a_warden_is_deaf_to_a_closed_terminal(folder: Path, number: signal.Signals) -> None:
    with running_warden(
        write_launch(folder, "sh", "-c", "touch up; while ! [ -e go ]; do sleep 0.01; done; exit 5")
    ) as warden:
        wait_until((folder / "up").exists, "the agent runs")
        warden.send_signal(number)
        (folder / "go").touch()
        assert warden.wait(20) == 0

    assert read_outcome(folder)["exit_code"] == 5


def test_a_warden_outlives_the_process_that_started_it(folder: Path) -> None:
    """The parent is killed, which closes its end of the pipes; a prototype died of the broken pipe."""
    write_launch(folder, "sh", "-c", "touch up; while ! [ -e go ]; do sleep 0.01; done; exit 6")
    parent = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-I', '-S', '-c', *sys.argv[1:]], stdout=subprocess.PIPE,"
        " stderr=subprocess.PIPE, start_new_session=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent, ENTRY, str(ROOT), str(folder)]) as orchestrator:
        wait_until((folder / "up").exists, "the agent runs")
        orchestrator.kill()
    (folder / "go").touch()

    wait_until((folder / "outcome.json").exists, "the outcome is recorded")
    assert read_outcome(folder)["exit_code"] == 6
    wait_until(lambda: not is_alive(int((folder / "lock").read_text().split()[0])), "the warden is gone")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_an_agent_that_is_killed_from_outside_is_lost_and_has_not_crashed(folder: Path, number: signal.Signals) -> None:
    with running_warden(write_launch(folder, "sleep", "600")) as warden:
        wait_until(lambda: read_state(folder) == "working", "it works")
        os.kill(read_agent_pid(folder), number)
        assert warden.wait(20) == 0

    ended = read_outcome(folder)
    assert (ended["reason"], ended["signal"]) == ("lost", number)
    assert f"ended by {number.name}, which Blue Flame did not send" in ended["detail"]


def test_a_setup_that_is_killed_from_outside_is_lost_and_has_not_failed(folder: Path) -> None:
    setup = [{"name": "install", "shell": "echo $$ > up.draft; mv up.draft up; exec sleep 600", "timeout": 60}]
    with running_warden(write_launch(folder, "true", setup=setup)) as warden:
        os.kill(read_pid(folder / "up"), signal.SIGKILL)
        assert warden.wait(20) == 0

    assert (read_outcome(folder)["reason"], read_outcome(folder)["step"]) == ("lost", "install")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_whose_program_was_killed_ends_as_a_shell_does_and_is_lost(
    folder: Path, number: signal.Signals
) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", f"sh -c 'kill -{number.value} $$'; exit $?"))

    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("lost", 128 + number, None)


def test_a_failure_is_in_doubt_for_a_moment_and_a_stop_then_takes_its_place(folder: Path) -> None:
    """The whole tree gets TERM: an agent may end with an error just before its warden hears of it."""
    with running_warden(write_launch(folder, "sh", "-c", "kill -TERM $PPID; exit 1")) as warden:
        assert warden.wait(20) == 0

    assert read_outcome(folder)["reason"] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGINT])
def test_an_agent_that_dies_of_its_own_faults_has_exited(folder: Path, number: signal.Signals) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", f"ulimit -c 0; kill -{number.value} $$"))

    assert (ended["reason"], ended["signal"]) == ("exited", number)


def test_an_agent_over_its_cpu_time_has_reached_a_limit_and_was_not_killed_from_outside(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", "while :; do :; done", limits={"cpu": 1}))

    assert (ended["reason"], ended["signal"]) == ("exited", signal.SIGXCPU)


@pytest.fixture
def narrow_group() -> Iterator[Path]:
    """A control group of others, in which the number of processes can be limited."""
    place = Path("/sys/fs/cgroup/pids") / f"blueflame-narrow-{os.getpid()}"
    try:
        place.mkdir()
    except OSError:
        pytest.skip("no control group can be made here")
    yield place
    wait_until(lambda: not (place / "cgroup.procs").read_text(), "all have left the group")
    place.rmdir()


def test_processes_that_a_limit_of_others_refused_are_counted(folder: Path, narrow_group: Path) -> None:
    agent = "echo $$ > up.draft; mv up.draft up; until test -e go; do :; done; sleep 9 & sleep 9 & wait"
    with running_warden(write_launch(folder, "sh", "-c", agent)) as warden:
        for pid in (warden.pid, read_pid(folder / "up")):
            (narrow_group / "cgroup.procs").write_text(str(pid))
        (narrow_group / "pids.max").write_text("2")
        (folder / "go").touch()
        assert warden.wait(20) == 0

    ended = read_outcome(folder)
    assert ended["reason"] == "exited"
    assert ended["refused_forks"] >= 1


def test_when_the_warden_is_killed_its_agent_ends(folder: Path) -> None:
    with start_warden(
        write_launch(folder, "sh", "-c", "trap '' TERM HUP; echo $$ > agent; while :; do sleep 0.05; done")
    ) as warden:
        agent = read_pid(folder / "agent")
        warden.kill()

    wait_until(lambda: not is_alive(agent), "the agent is gone")


@pytest.mark.verification(34)
def test_after_a_killed_warden_the_next_one_cleans_up_and_records_lost(folder: Path) -> None:
    family = "\n".join(
        [
            "cat > deaf.sh <<'X'",
            "trap '' TERM",
            "echo $$ > $1",
            "while :; do sleep 0.05; done",
            "X",
            "setsid sh deaf.sh cookie >/dev/null 2>&1 &",  # known by the cookie in its environment
            "env -i PATH=$PATH setsid sh deaf.sh spool &",  # known by our spool as its output
            "echo run >> ledger",
            "wait",
        ]
    )
    write_launch(folder, "sh", "-c", family, grace=0.3)
    with start_warden(folder) as warden:
        left = [read_pid(folder / name) for name in ("cookie", "spool")]
        warden.kill()
    assert all(map(is_alive, left))
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)

    try:
        ended = run_warden(folder)

        assert (ended["reason"], ended["left_running"]) == ("lost", [])
        assert not any(map(is_alive, left))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert (folder / "ledger").read_text() == "run\n"
    assert run_warden(folder) == ended


def test_the_agent_of_a_copied_folder_is_left_to_its_own_warden(folder: Path) -> None:
    """A person who copies the repository and resumes the copy ends no agent of the session that goes on."""
    write_launch(folder, "sh", "-c", "echo $$ > agent; while ! test -e go; do sleep 0.01; done")
    copy = folder.with_name("copy")
    with start_warden(folder) as warden:
        agent = read_pid(folder / "agent")
        shutil.copytree(folder, copy)

        ended = run_warden(copy)

        assert (ended["reason"], ended["left_running"]) == ("lost", [])
        assert ended["detail"].startswith("its folder was copied while it ran")
        assert is_alive(agent)
        (folder / "go").touch()
        warden.wait()
    assert read_outcome(folder)["reason"] == "exited"


@pytest.mark.verification(34)
def test_a_recycled_pid_is_left_alone(folder: Path) -> None:
    """The record names a living process, but not with its start time: that is another process."""
    write_launch(folder, "touch", "ran")
    (folder / "started").write_text('{"cookie": "0123456789abcdef", "pid": 1, "at": 5.0}')
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            record = {"pid": stranger.pid, "start_time": 1, "boot_id": boot}
            (folder / "agent.json").write_text(json.dumps(record))

            ended = run_warden(folder)

            assert (ended["reason"], ended["started_at"]) == ("lost", 5.0)
            assert stranger.poll() is None
        finally:
            stranger.kill()
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("started_file", ["", "{", "[]", '{"cookie": 5}'])
def test_a_damaged_start_mark_still_means_that_it_was_started(folder: Path, started_file: str) -> None:
    write_launch(folder, "touch", "ran")
    (folder / "started").write_text(started_file)

    assert run_warden(folder)["reason"] == "lost"
    assert not (folder / "ran").exists()


def test_an_outcome_that_cannot_be_written_is_tried_again(folder: Path) -> None:
    """A folder in place of the draft fails like a full disk: the warden retries until it is gone."""
    write_launch(folder, "true")
    (folder / "outcome.draft").mkdir()
    with running_warden(folder) as warden:
        wait_until(lambda: read_state(folder) == "ended", "it ended")
        time.sleep(0.2)  # some failed tries
        assert warden.poll() is None
        (folder / "outcome.draft").rmdir()
        assert warden.wait(20) == 0

    assert read_outcome(folder)["exit_code"] == 0


def test_a_full_disk_of_the_checkout_alone_is_recorded(folder: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "trees", 1):
        ended = run_warden(write_launch(folder, "sh", "-c", "echo > full", cwd=str(tmp_path / "trees")))
    assert ended["free_disk"] < 1 << 20


def test_a_disk_that_was_full_for_a_moment_is_recorded(folder: Path, tmp_path: Path) -> None:
    """It has room again when the agent that could not write has ended."""
    with mounted(tmp_path / "trees", 8):
        fill = "head -c 9m /dev/zero > full; sleep 0.6; rm full"
        ended = run_warden(write_launch(folder, "sh", "-c", fill, cwd=str(tmp_path / "trees")))
    assert ended["free_disk"] < 1 << 20


def test_a_full_disk_does_not_lose_the_outcome(tmp_path: Path) -> None:
    """The space that was reserved for it is enough."""
    with mounted(tmp_path / "disk", 1):
        folder = write_launch(
            tmp_path / "disk" / "ses-1.task-001.worker.1",
            *("sh", "-c", "dd if=/dev/zero of=fill bs=4096 2>/dev/null; exit 8"),
        )

        assert (run_warden(folder)["reason"], read_outcome(folder)["exit_code"]) == ("exited", 8)


def gone(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def test_an_agent_whose_folder_is_removed_is_ended(folder: Path) -> None:
    """Its attempt is lost, and another one starts: it would work, and cost money, beside that."""
    write_launch(folder, "sleep", "600", cwd=str(folder))
    with start_warden(folder) as warden:
        agent = read_agent_pid(folder)
        wait_until(lambda: gone(folder), "its folder is removed")  # the warden may still be writing to it
        assert warden.wait(20) == 74

    assert not is_alive(agent)
