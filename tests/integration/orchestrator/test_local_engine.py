"""The verbs over real wardens. A fresh engine object stands for an orchestrator that was killed and started again."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.errors import InternalError, ProcessFailed, WorldError
from blueflame.orchestrator.engine import local
from blueflame.orchestrator.engine.interface import (
    AttemptEngine,
    AttemptSpec,
    Ended,
    ExitReason,
    Queued,
    Running,
    SetupStep,
    Unreadable,
    WardenLost,
)
from blueflame.orchestrator.engine.local import LocalEngine
from blueflame.orchestrator.engine.start_warden import close_fork_server
from blueflame.system.flock import wait_until_free
from blueflame.system.process_identity import read_identity
from support.disks import read_only

SESSION = "ses-20260101-000000"
ATTEMPT = f"{SESSION}.task-001.worker.1"
PATIENCE = 20.0


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "мой проект" / ".blueflame"


def order(
    state: Path, script: str, *, attempt: str = ATTEMPT, grace: float = 5.0, timeout: float = 60.0
) -> AttemptSpec:
    work = state.parent / "work"
    work.mkdir(parents=True, exist_ok=True)
    env = {"PATH": os.environ["PATH"]}
    return AttemptSpec(attempt=attempt, argv=("sh", "-c", script), env=env, cwd=str(work), grace=grace, timeout=timeout)


def has_written(state: Path) -> bool:
    """Whether the agent has written its line: the shell creates the file before that."""
    ledger = state.parent / "work" / "ledger"
    return ledger.exists() and ledger.stat().st_size > 0


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE * 2))


async def until(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"timed out waiting until {what}"
        await asyncio.sleep(0.01)


async def running(engine: AttemptEngine, attempt: str = ATTEMPT) -> Running:
    give_up = time.monotonic() + PATIENCE
    while True:
        standing = await engine.inspect(attempt)
        if isinstance(standing, Running) and standing.state == "working":
            return standing
        assert time.monotonic() < give_up, f"{attempt} does not run: {standing}"
        await asyncio.sleep(0.01)


def test_what_is_submitted_runs_and_is_waited_for(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        assert await engine.inspect(ATTEMPT) == Queued()

        ordered = order(state, "cat; pwd; exit 3")
        await engine.submit(
            AttemptSpec(
                attempt=ATTEMPT,
                argv=ordered.argv,
                env=ordered.env,
                cwd=ordered.cwd,
                prompt="--слова\n",
                setup=(SetupStep(name="ready", command="echo готово"), SetupStep(name="argv", command=("true",))),
            )
        )
        outcome = await engine.wait(ATTEMPT)

        assert (outcome.reason, outcome.exit_code, outcome.setup_output) == (ExitReason.EXITED, 3, "готово\n")
        assert outcome.attempt == ATTEMPT
        assert await engine.inspect(ATTEMPT) == Ended(outcome)
        assert await engine.wait(ATTEMPT) == outcome
        assert (engine.mirror(ATTEMPT) / "launch.json").stat().st_mode & 0o077 == 0
        said = (engine.mirror(ATTEMPT) / "stdout.log").read_text()
        assert said == f"--слова\n{ordered.cwd}\n"

    play(story())


def test_submitting_again_never_runs_it_again(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        once = order(state, "echo run >> ledger; until [ -e go ]; do sleep 0.01; done")
        await asyncio.gather(*(engine.submit(once) for _ in range(3)))
        await engine.submit(once)
        before = await running(engine)
        await engine.submit(once)
        await LocalEngine(state).submit(once)
        now = await engine.inspect(ATTEMPT)
        assert isinstance(now, Running)
        assert now.pid == before.pid
        (state.parent / "work" / "go").touch()
        outcome = await engine.wait(ATTEMPT)
        await engine.submit(once)
        await LocalEngine(state).submit(once)

        assert outcome.exit_code == 0
        assert (state.parent / "work" / "ledger").read_text() == "run\n"

    play(story())


def test_a_fresh_engine_adopts_what_runs_and_collects_what_ended(state: Path) -> None:
    async def story() -> None:
        first = LocalEngine(state)
        other = f"{SESSION}.task-002.worker.1"
        await first.submit(order(state, "until [ -e go ]; do sleep 0.01; done; exit 4"))
        await first.submit(order(state, "exit 5", attempt=other))
        await running(first)
        await first.wait(other)

        engine = LocalEngine(state)
        assert await engine.list_live(SESSION) == (ATTEMPT,)
        waiting = asyncio.create_task(engine.wait(ATTEMPT))
        await asyncio.sleep(0)
        (state.parent / "work" / "go").touch()

        assert (await waiting).exit_code == 4
        assert (await engine.wait(other)).exit_code == 5
        assert await engine.list_live(SESSION) == ()

    play(story())


def test_an_orchestrator_that_is_killed_costs_nothing(state: Path) -> None:
    """A whole other process submits and is killed -9; ours adopts."""
    code = """
import asyncio, os, sys
from pathlib import Path
from blueflame.orchestrator.engine import local
from blueflame.orchestrator.engine.local import LocalEngine
from blueflame.orchestrator.engine.start_warden import close_fork_server
from blueflame.orchestrator.engine.interface import AttemptSpec

async def story() -> None:
    script = "echo run >> ledger; until [ -e go ]; do sleep 0.01; done; exit 6"
    state, attempt, work = sys.argv[1:]
    env = {"PATH": os.environ["PATH"]}
    await LocalEngine(Path(state)).submit(AttemptSpec(attempt=attempt, argv=("sh", "-c", script), env=env, cwd=work))
    print("submitted", flush=True)
    await asyncio.sleep(600)

asyncio.run(story())
"""

    async def story() -> None:
        work = state.parent / "work"
        work.mkdir(parents=True)
        argv = [sys.executable, "-c", code, str(state), ATTEMPT, str(work)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as orchestrator:
            assert orchestrator.stdout is not None
            assert orchestrator.stdout.readline() == b"submitted\n"
            orchestrator.kill()
        engine = LocalEngine(state)
        await engine.submit(order(state, "echo run >> ledger; until [ -e go ]; do sleep 0.01; done; exit 6"))
        (work / "go").touch()

        assert (await engine.wait(ATTEMPT)).exit_code == 6
        assert (work / "ledger").read_text() == "run\n"

    play(story())


def test_a_killed_warden_is_noticed_cleared_up_and_recorded_as_lost(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        family = (
            "setsid sh -c 'echo $$ > stray; exec sleep 600' & until [ -s stray ]; do sleep 0.01; done; touch up; wait"
        )
        await engine.submit(order(state, family, grace=0.2))
        work = state.parent / "work"
        await until((work / "up").exists, "the agent runs")
        warden = await running(engine)
        waiting = asyncio.create_task(engine.wait(ATTEMPT))
        await asyncio.sleep(0)

        os.kill(warden.pid, signal.SIGKILL)

        outcome = await waiting
        assert outcome.reason is ExitReason.LOST
        assert read_identity(int((work / "stray").read_text())) is None
        assert warden.agent_pid is not None
        assert read_identity(warden.agent_pid) is None

    play(story())


def test_a_lost_attempt_is_reported_and_submitting_it_again_only_cleans_up(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        again = order(state, "echo run >> ledger; sleep 600", grace=0.2)
        await engine.submit(again)
        warden = await running(engine)
        await until(lambda: has_written(state), "the agent runs")
        os.kill(warden.pid, signal.SIGKILL)
        await until(lambda: read_identity(warden.pid) is None, "the warden is gone")

        fresh = LocalEngine(state)
        assert await fresh.inspect(ATTEMPT) == WardenLost()
        assert await fresh.list_live(SESSION) == (ATTEMPT,)
        await fresh.submit(again)

        assert (await fresh.wait(ATTEMPT)).reason is ExitReason.LOST
        assert await fresh.list_live(SESSION) == ()
        assert (state.parent / "work" / "ledger").read_text() == "run\n"

    play(story())


def test_cancel_ends_the_whole_tree_and_keeps_the_reason(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "sleep 600 & echo $! > child; wait"))
        await running(engine)
        child = state.parent / "work" / "child"
        await until(lambda: child.exists() and child.read_text().strip(), "the child runs")

        await engine.cancel(ATTEMPT, "задача снята")
        await engine.cancel(ATTEMPT, "задача снята")
        outcome = await engine.wait(ATTEMPT)
        await engine.cancel(ATTEMPT, "too late")

        assert (outcome.reason, outcome.detail) == (ExitReason.CANCELLED, "задача снята")
        assert read_identity(int(child.read_text())) is None
        assert await engine.wait(ATTEMPT) == outcome

    play(story())


def test_a_second_cancel_without_grace_kills_at_once(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "trap '' TERM; touch up; while :; do sleep 0.05; done", grace=60))
        await until((state.parent / "work" / "up").exists, "the agent runs")
        await engine.cancel(ATTEMPT, "please")
        await engine.cancel(ATTEMPT, "now", grace=0)

        outcome = await engine.wait(ATTEMPT)
        assert (outcome.reason, outcome.signal) == (ExitReason.CANCELLED, signal.SIGKILL)

    play(story())


def test_what_was_cancelled_before_it_was_submitted_never_runs(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        await engine.cancel(ATTEMPT, "stop")
        await engine.submit(order(state, "touch ran"))

        assert (await engine.wait(ATTEMPT)).reason is ExitReason.CANCELLED
        assert not (state.parent / "work" / "ran").exists()

    play(story())


def test_a_timeout_is_an_outcome_and_no_error(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "sleep 600", timeout=0.2))

        assert (await engine.wait(ATTEMPT)).reason is ExitReason.TIMEOUT

    play(story())


def test_waiting_for_what_was_never_submitted_is_our_bug(state: Path) -> None:
    with pytest.raises(InternalError, match="never submitted"):
        play(_wait_only(state))


def test_a_machine_that_cannot_run_wardens_is_reported_with_their_log(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "true"))
        await engine.wait(ATTEMPT)

    broken = state.parent / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho the machine is broken >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    close_fork_server()
    with pytest.raises(ProcessFailed, match="the machine is broken"):
        play(story())


async def _wait_only(state: Path) -> None:
    await LocalEngine(state).wait(ATTEMPT)


@pytest.mark.parametrize("name", ["../escape", "a/b", "", ".hidden", "name\n", "x" * 300])
def test_an_attempt_cannot_climb_out_of_its_folder(state: Path, name: str) -> None:
    with pytest.raises(InternalError):
        LocalEngine(state).stage(name)


DAMAGED = ["", "{", "[]", "{}", '{"attempt": "x", "reason": "bored"}', "\0" * 300]


@pytest.mark.parametrize("content", DAMAGED)
@pytest.mark.parametrize("missing", [(), ("started",), ("started", "lock", "launch.json")])
def test_a_damaged_outcome_is_a_loss_at_once_and_no_second_start(
    state: Path, content: str, missing: tuple[str, ...]
) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "echo run >> ledger"))
        await engine.wait(ATTEMPT)
        folder = engine.mirror(ATTEMPT)
        wait_until_free(folder / "lock")  # its warden ends after it has written the outcome
        (folder / "outcome.json").write_text(content)
        for name in missing:
            (folder / name).unlink()

        fresh = LocalEngine(state)
        assert await fresh.inspect(ATTEMPT) == WardenLost()
        assert await fresh.list_live(SESSION) == (ATTEMPT,)
        outcome = await fresh.wait(ATTEMPT)

        assert outcome.reason is ExitReason.LOST
        assert "outcome" in outcome.detail
        assert (state.parent / "work" / "ledger").read_text() == "run\n"

    play(story())


def test_an_outcome_that_another_program_wrote_does_not_end_a_running_attempt(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "until test -e go; do sleep 0.01; done"))
        await running(engine)
        (engine.mirror(ATTEMPT) / "outcome.json").touch()
        assert isinstance(await engine.inspect(ATTEMPT), Running)
        (state.parent / "work" / "go").touch()

        assert (await engine.wait(ATTEMPT)).reason is ExitReason.EXITED

    play(story())


def test_an_outcome_that_cannot_be_read_is_unknown_and_never_an_end(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_UNKNOWN_SECONDS", 0.1)

    async def story() -> None:
        (engine.mirror(ATTEMPT) / "outcome.json").mkdir(parents=True)
        assert isinstance(await engine.inspect(ATTEMPT), Unreadable)
        assert await engine.list_live(SESSION) == (ATTEMPT,)
        with pytest.raises(WorldError, match=r"the status of attempt .* is unknown"):
            await engine.wait(ATTEMPT)

    engine = LocalEngine(state)
    play(story())


def test_a_stopped_warden_is_not_waited_for_without_end(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_UNKNOWN_SECONDS", 0.1)
    monkeypatch.setattr(local, "HINDERED_POLL_SECONDS", 0.05)

    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "until test -e go; do sleep 0.01; done"))
        warden = await running(engine)
        os.kill(warden.pid, signal.SIGSTOP)
        try:
            with pytest.raises(WorldError, match=f"its warden is stopped .* 'kill -CONT {warden.pid}'"):
                await engine.wait(ATTEMPT)
            found = await engine.inspect(ATTEMPT)
            assert isinstance(found, Running)
            assert "is stopped" in found.hindrance
        finally:
            os.kill(warden.pid, signal.SIGCONT)
        (state.parent / "work" / "go").touch()

        assert (await engine.wait(ATTEMPT)).reason is ExitReason.EXITED

    play(story())


def test_a_warden_that_cannot_record_the_end_is_not_waited_for_without_end(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the result until its folder can be written."""
    monkeypatch.setattr(local, "MAX_UNKNOWN_SECONDS", 0.1)
    monkeypatch.setattr(local, "HINDERED_POLL_SECONDS", 0.05)

    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "until test -e go; do sleep 0.01; done"))
        await running(engine)
        with read_only(state):
            (state.parent / "work" / "go").touch()
            with pytest.raises(WorldError, match=r"its warden cannot write .* make the folder writable"):
                await engine.wait(ATTEMPT)

        assert (await engine.wait(ATTEMPT)).reason is ExitReason.EXITED

    play(story())


@pytest.mark.parametrize(("limit", "least"), [(resource.RLIMIT_NOFILE, 4), (resource.RLIMIT_FSIZE, 0)])
def test_a_warden_whose_limits_are_lowered_keeps_the_result_and_says_so(
    state: Path, monkeypatch: pytest.MonkeyPatch, limit: int, least: int
) -> None:
    monkeypatch.setattr(local, "MAX_UNKNOWN_SECONDS", 0.1)
    monkeypatch.setattr(local, "HINDERED_POLL_SECONDS", 0.05)

    async def story() -> None:
        engine = LocalEngine(state)
        await engine.submit(order(state, "until test -e go; do sleep 0.01; done"))
        warden = await running(engine)
        _, most = resource.prlimit(warden.pid, limit)
        resource.prlimit(warden.pid, limit, (least, most))
        (state.parent / "work" / "go").touch()
        with pytest.raises(WorldError, match=f"its warden keeps the result .* 'prlimit --pid {warden.pid} "):
            await engine.wait(ATTEMPT)

        resource.prlimit(warden.pid, limit, (most, most))
        monkeypatch.setattr(local, "MAX_UNKNOWN_SECONDS", 600.0)
        ended = await engine.wait(ATTEMPT)
        assert (ended.reason, ended.exit_code) == (ExitReason.EXITED, 0)

    play(story())


def test_live_knows_its_session_only(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        assert await engine.list_live(SESSION) == ()
        other = "ses-20260101-000000-2.task-001.worker.1"
        wait_for_it = "until [ -e go ]; do sleep 0.01; done"
        await engine.submit(order(state, wait_for_it))
        await engine.submit(order(state, wait_for_it, attempt=other))
        await running(engine)
        await running(engine, other)

        assert await engine.list_live(SESSION) == (ATTEMPT,)
        (state.parent / "work" / "go").touch()
        await asyncio.gather(engine.wait(ATTEMPT), engine.wait(other))

    play(story())


def test_hints_name_the_attempt_that_ended(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        hints = engine.iterate_hints()
        first = asyncio.ensure_future(anext(hints))
        await asyncio.sleep(0.3)  # a watch says nothing about when it begins to see
        await engine.submit(order(state, "true"))
        hint = await first
        await engine.wait(ATTEMPT)
        await hints.aclose()

        assert hint == ATTEMPT

    play(story())


def test_an_agent_gets_a_prompt_with_half_of_a_character(state: Path) -> None:
    async def story() -> None:
        engine = LocalEngine(state)
        spec = replace(order(state, "cat"), prompt="a title that was cut: \ud83d\n")

        await engine.submit(spec)
        await engine.wait(ATTEMPT)

        assert (engine.mirror(ATTEMPT) / "stdout.log").read_text("utf-8") == "a title that was cut: \ufffd\n"

    play(story())
