"""An attempt that ends by itself: what is recorded, and what is left (nothing)."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.wardens import (
    is_alive,
    read_outcome,
    read_pid,
    run_warden,
    running_warden,
    start_warden,
    wait_until,
    write_launch,
)

SESSION = "ses-20260101-000000.task-001.worker.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "состояние дел" / "attempts" / SESSION


def test_an_agent_that_ends_well_is_recorded(folder: Path) -> None:
    prompt = folder.parent / "prompt.txt"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("слово\n" * 50_000)  # more than any argument could carry

    ended = run_warden(write_launch(folder, "sh", "-c", "cat; echo oops >&2", stdin=str(prompt)))

    assert ended["reason"] == "exited"
    assert (ended["stage"], ended["exit_code"], ended["signal"]) == ("agent", 0, None)
    assert ended["attempt"] == SESSION
    assert ended["started_at"] <= ended["ended_at"]
    assert ended["rusage"]["max_rss"] > 0
    assert ended["left_running"] == []
    assert (folder / "stdout.log").read_text() == prompt.read_text()
    assert (folder / "stderr.log").read_text() == "oops\n"


@pytest.mark.parametrize("code", [1, 3, 255])
def test_an_exit_code_is_passed_on(folder: Path, code: int) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", f"exit {code}"))

    assert (ended["reason"], ended["exit_code"]) == ("exited", code)


def test_death_by_a_signal_is_no_exit_code(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", "kill -SEGV $$"))

    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("exited", None, signal.SIGSEGV)


def test_a_missing_program_is_a_failed_spawn(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "no-such-program-anywhere"))

    assert ended["reason"] == "spawn_failed"
    assert "no-such-program-anywhere" in ended["detail"]


def test_a_missing_folder_is_a_failed_spawn(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "true", cwd=str(folder / "gone")))

    assert ended["reason"] == "spawn_failed"
    assert str(folder / "gone") in ended["detail"]


@pytest.mark.parametrize(
    ("launch", "reported"),
    [
        ("{", "launch.json"),
        ("[]", "not an object"),
        ('{"attempt": "x"}', "argv is missing"),
        ('{"attempt": "x", "argv": [], "cwd": "/"}', "argv must be"),
        ('{"attempt": "x", "argv": ["true"], "cwd": "/", "limits": {"as": 5}}', "limits: as is not one of"),
    ],
)
def test_an_unreadable_launch_file_starts_nothing(folder: Path, launch: str, reported: str) -> None:
    folder.mkdir(parents=True)
    (folder / "launch.json").write_text(launch)

    ended = run_warden(folder)

    assert ended["reason"] == "spawn_failed"
    assert reported in ended["detail"]


def test_an_agent_gets_the_environment_of_the_launch_file_only(folder: Path) -> None:
    run_warden(write_launch(folder, "env", env={"PATH": "/usr/bin:/bin", "ИМЯ": "значение"}))

    names = {line.partition("=")[0] for line in (folder / "stdout.log").read_text().splitlines()}
    assert names == {"PATH", "ИМЯ", "BLUEFLAME_ATTEMPT", "BLUEFLAME_COOKIE"}


def test_an_agent_leads_a_session_of_its_own_and_hears_every_signal(folder: Path) -> None:
    look = "import os; print(os.getsid(0) == os.getpid() == os.getpgrp()); print(open('/proc/self/status').read())"

    run_warden(write_launch(folder, sys.executable, "-I", "-S", "-c", look))

    said = (folder / "stdout.log").read_text()
    assert said.startswith("True\n")
    ignored = int(next(line for line in said.splitlines() if line.startswith("SigIgn")).split()[1], 16)
    assert not ignored & (1 << (signal.SIGHUP - 1))
    blocked = int(next(line for line in said.splitlines() if line.startswith("SigBlk")).split()[1], 16)
    assert blocked == 0


@pytest.mark.verification(18)
def test_limits_hold_for_the_agent(folder: Path) -> None:
    run_warden(write_launch(folder, "sh", "-c", "ulimit -n; ulimit -c", limits={"nofile": 77, "core": 0}))

    assert (folder / "stdout.log").read_text().split() == ["77", "0"]


def test_a_daemon_left_behind_is_ended(folder: Path) -> None:
    daemon = "setsid sh -c 'echo $$ > daemon; exec sleep 600' & until [ -s daemon ]; do sleep 0.01; done"

    ended = run_warden(write_launch(folder, "sh", "-c", daemon))

    assert ended["exit_code"] == 0
    assert ended["left_running"] == []
    assert not is_alive(read_pid(folder / "daemon"))


def test_a_double_forked_daemon_that_ignores_term_is_ended(folder: Path) -> None:
    daemon = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open("daemon.draft", "w") as file: file.write(f"{os.getpid()}\\n")
        os.rename("daemon.draft", "daemon")
        time.sleep(600)
    os._exit(0)
while not os.path.exists("daemon"): time.sleep(0.01)
"""
    ended = run_warden(write_launch(folder, sys.executable, "-I", "-S", "-c", daemon, grace=0.2))

    assert (ended["exit_code"], ended["left_running"]) == (0, [])
    assert not is_alive(read_pid(folder / "daemon"))


def test_an_agent_that_closes_its_output_and_works_on_is_waited_for(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "sh", "-c", "exec >&- 2>&-; sleep 0.3; touch done; exit 4"))

    assert (ended["reason"], ended["exit_code"]) == ("exited", 4)
    assert (folder / "done").exists()


def test_setup_steps_go_before_the_agent_in_order(folder: Path) -> None:
    steps = [
        {"name": "one", "shell": "echo first; echo 1 > made"},
        {"name": "two", "argv": ["sh", "-c", "echo 2 >> made"]},
    ]

    ended = run_warden(write_launch(folder, "cat", "made", setup=steps))

    assert (ended["reason"], ended["stage"]) == ("exited", "agent")
    assert (folder / "stdout.log").read_text() == "1\n2\n"
    assert ended["setup_output"] == "first\n"


def test_a_failing_setup_fails_the_attempt_with_its_output(folder: Path) -> None:
    steps = [{"name": "установка", "shell": "echo нет сети; (sleep 600 & echo $! > left); exit 7"}]

    ended = run_warden(write_launch(folder, "touch", "agent-ran", setup=steps))

    assert (ended["reason"], ended["stage"], ended["step"], ended["exit_code"]) == (
        "setup_failed",
        "setup",
        "установка",
        7,
    )
    assert ended["setup_output"] == "нет сети\n"
    assert not (folder / "agent-ran").exists()
    assert not is_alive(read_pid(folder / "left"))


def test_a_setup_that_hangs_is_ended_at_its_own_timeout(folder: Path) -> None:
    ended = run_warden(write_launch(folder, "true", setup=[{"name": "wait", "shell": "sleep 600", "timeout": 0.2}]))

    assert (ended["reason"], ended["stage"]) == ("setup_failed", "setup")
    assert "0.2" in ended["detail"]


def test_what_a_setup_left_running_serves_the_agent_and_ends_with_it(folder: Path) -> None:
    serve = [{"name": "serve", "shell": "sleep 600 & echo $! > server"}]

    run_warden(write_launch(folder, "sh", "-c", "kill -0 $(cat server) && echo served", setup=serve))

    assert (folder / "stdout.log").read_text() == "served\n"
    assert not is_alive(read_pid(folder / "server"))


def test_an_ended_attempt_is_never_run_again(folder: Path) -> None:
    write_launch(folder, "sh", "-c", "echo run >> ledger")
    before = run_warden(folder)

    assert run_warden(folder) == before
    assert (folder / "ledger").read_text() == "run\n"


def test_a_second_warden_leaves_at_once_and_changes_nothing(folder: Path) -> None:
    write_launch(folder, "sh", "-c", "echo run >> ledger; while ! [ -e go ]; do sleep 0.01; done")
    with running_warden(folder) as first:
        wait_until(lambda: (folder / "ledger").exists() and (folder / "ledger").stat().st_size > 0, "the agent runs")
        before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "status.json"}

        with start_warden(folder) as second:
            assert second.wait(20) == 75

        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "status.json"} == before
        (folder / "go").touch()
        assert first.wait(20) == 0
    assert read_outcome(folder)["exit_code"] == 0
    assert (folder / "ledger").read_text() == "run\n"


def test_many_wardens_at_once_start_one_agent(folder: Path) -> None:
    write_launch(folder, "sh", "-c", "echo run >> ledger; sleep 0.5")

    wardens = [start_warden(folder) for _ in range(6)]

    assert {warden.wait(20) for warden in wardens} <= {0, 75}
    assert (folder / "ledger").read_text() == "run\n"
    assert read_outcome(folder)["exit_code"] == 0


def test_the_status_file_has_the_current_state(folder: Path) -> None:
    write_launch(folder, "sh", "-c", "echo hello; while ! [ -e go ]; do sleep 0.01; done")

    def status() -> dict[str, object]:
        found: dict[str, object] = json.loads((folder / "status.json").read_text())
        return found

    with running_warden(folder) as warden:
        wait_until(lambda: (folder / "status.json").exists() and status()["output_bytes"] == 6, "the output is seen")
        assert status()["pid"] == warden.pid
        assert status()["state"] == "working"
        assert status()["last_output_at"]
        (folder / "go").touch()
        warden.wait(20)
    assert status()["state"] == "ended"


def test_a_hint_is_given_at_the_end(folder: Path, tmp_path: Path) -> None:
    run_warden(write_launch(folder, "true", signal=str(tmp_path / "hint")))

    assert (tmp_path / "hint").exists()


def test_a_warden_without_a_folder_prints_its_usage() -> None:
    done = subprocess.run([sys.executable, "-m", "blueflame.warden"], capture_output=True, text=True, check=False)

    assert done.returncode == 64
    assert "usage" in done.stderr


def test_a_missing_folder_is_reported_and_not_created(tmp_path: Path) -> None:
    with start_warden(tmp_path / "nowhere", stderr=subprocess.PIPE) as warden:
        assert warden.stderr is not None
        assert b"nowhere" in warden.stderr.read()
        assert warden.wait(20) == 74
    assert not (tmp_path / "nowhere").exists()


def test_a_warden_is_small(folder: Path) -> None:
    """Memory only: timings on a busy machine would tell nothing about the warden."""
    write_launch(folder, "sh", "-c", "while ! [ -e go ]; do sleep 0.01; done")
    with running_warden(folder) as warden:
        wait_until((folder / "agent.json").exists, "the agent runs")
        pages = int(Path(f"/proc/{warden.pid}/statm").read_text().split()[1])
        (folder / "go").touch()
        warden.wait(20)
    assert pages * resource.getpagesize() < 20 * 1024 * 1024


def test_a_spool_that_cannot_be_opened_is_a_failed_spawn(folder: Path) -> None:
    write_launch(folder, "touch", "ran")
    (folder / "stdout.log").mkdir()

    ended = run_warden(folder)

    assert ended["reason"] == "spawn_failed"
    assert "stdout.log" in ended["detail"]
    assert not (folder / "ran").exists()


def test_a_setup_that_cannot_be_logged_fails_the_attempt(folder: Path) -> None:
    write_launch(folder, "touch", "ran", setup=[{"name": "s", "shell": "true"}])
    (folder / "setup.log").mkdir()

    assert run_warden(folder)["reason"] == "setup_failed"
    assert not (folder / "ran").exists()
