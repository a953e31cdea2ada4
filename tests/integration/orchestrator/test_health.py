"""How agents are said to be: by what is seen of them, with real wardens, and never well by default."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.agents.scripted import ScriptedRuntime
from blueflame.model.activity import Health, HealthReport
from blueflame.model.attempt import WORKER, Attempt, AttemptOutcome, AttemptRecord, Ending
from blueflame.model.settings import LimitSettings
from blueflame.orchestrator.engine.health import HealthMonitor, assess_health
from blueflame.orchestrator.engine.interface import (
    AttemptSpec,
    AttemptStatus,
    Ended,
    ExitReason,
    ProcessOutcome,
    Queued,
    Running,
    SetupStep,
    Unreadable,
    WardenLost,
)
from blueflame.orchestrator.engine.local import LocalEngine

NOW = 1_770_000_000.0
ID = "ses-20260206-143022.task-001.worker.1"
LIMITS = LimitSettings(stall_timeout=100.0, kill_grace=10.0)
RECORD = AttemptRecord(
    attempt=Attempt(
        id=ID, session="ses-20260206-143022", subject="task-001", role=WORKER, n=1, agent_id="worker-1", timeout=600.0
    ),
    intended_at=NOW - 50,
    started_at=NOW - 49,
)
WORKING = Running(
    pid=10, start_time=1.0, agent_pid=11, state="working", since=NOW - 49, state_since=NOW - 40, last_output=NOW - 5
)


def found(standing: AttemptStatus, record: AttemptRecord = RECORD) -> HealthReport:
    return assess_health(record, standing, LIMITS, now=NOW)


@pytest.mark.parametrize(
    ("standing", "state"),
    [
        (WardenLost(), Health.LOST),
        (Unreadable("may not look"), Health.UNKNOWN),
        (Queued(), Health.LOST),
        (Ended(ProcessOutcome(attempt=ID, reason=ExitReason.EXITED)), Health.ENDED),
        (WORKING, Health.WORKING),
        (replace(WORKING, state="starting"), Health.STARTING),
        (replace(WORKING, state="setup"), Health.STARTING),
        (replace(WORKING, state="stopping"), Health.UNKNOWN),
        (replace(WORKING, state="stopping", state_since=NOW - 3), Health.STOPPING),
        (replace(WORKING, state="ended", state_since=NOW - 1), Health.ENDED),
        (replace(WORKING, state="ended"), Health.UNKNOWN),
        (replace(WORKING, hindrance="its warden is stopped"), Health.UNKNOWN),
        (replace(WORKING, last_output=NOW - 100), Health.SILENT),
        (replace(WORKING, last_output=None, state_since=NOW - 101), Health.SILENT),
        (replace(WORKING, asking_since=NOW - 900, last_output=NOW - 900, state_since=NOW - 9000), Health.ASKING),
        (replace(WORKING, parked={"kind": "rate_limit"}, last_output=NOW - 900, state_since=NOW - 9000), Health.PARKED),
        (replace(WORKING, state_since=NOW - 760), Health.WORKING),
        (replace(WORKING, state_since=NOW - 770), Health.UNKNOWN),
    ],
)
def test_each_state_follows_from_the_status(standing: AttemptStatus, state: Health) -> None:
    assert found(standing).state is state


@pytest.mark.parametrize(
    "standing", [WardenLost(), Unreadable("may not look"), Queued(), replace(WORKING, state="ended")]
)
def test_every_bad_state_has_a_reason(standing: AttemptStatus) -> None:
    assert found(standing).why


def test_what_was_not_started_yet_is_starting() -> None:
    assert found(Queued(), replace(RECORD, started_at=None)).state is Health.STARTING


def test_an_attempt_asked_to_end_is_stopping_before_its_warden_notices() -> None:
    assert found(WORKING, replace(RECORD, cancel_reason="enough")).state is Health.STOPPING


def test_without_a_limit_no_agent_is_silent() -> None:
    limits = LimitSettings(stall_timeout=0)
    assert assess_health(RECORD, replace(WORKING, last_output=1.0), limits, now=NOW).state is Health.WORKING


def test_who_talks_with_a_person_is_not_silent_while_the_person_thinks() -> None:
    talking = replace(RECORD, attempt=replace(RECORD.attempt, interactive=True))
    assert found(replace(WORKING, last_output=NOW - 100), talking).state is Health.WORKING


def saying(*lines: Mapping[str, object], then: str) -> tuple[str, ...]:
    words = "".join(f"print({json.dumps(json.dumps(line))}, flush=True)\n" for line in lines)
    return (sys.executable, "-I", "-S", "-c", f"import time, os\n{words}{then}")


UNTIL_ASKED = "while not os.path.exists('go'): time.sleep(0.01)"


async def looked_at(rounds: HealthMonitor, wanted: Callable[[HealthReport], bool]) -> HealthReport:
    async with asyncio.timeout(20):
        while True:
            checkup = (await rounds.probe([RECORD], NOW))[ID]
            if wanted(checkup):
                return checkup
            await asyncio.sleep(0.02)


def with_warden(
    tmp_path: Path, order: AttemptSpec, story: Callable[[LocalEngine, HealthMonitor], Awaitable[None]]
) -> None:
    async def play() -> None:
        engine = LocalEngine(tmp_path / "мой .blueflame")
        rounds = HealthMonitor(engine, {"scripted": ScriptedRuntime()}, LimitSettings(stall_timeout=0))
        await engine.submit(order)
        try:
            await story(engine, rounds)
        finally:
            await engine.cancel(ID, "the test is over", grace=0)
            await engine.wait(ID)

    asyncio.run(play())


def order(tmp_path: Path, *argv: str, **more: object) -> AttemptSpec:
    env = {"PATH": os.environ["PATH"]}
    return AttemptSpec(attempt=ID, argv=argv, env=env, cwd=str(tmp_path), **more)  # type: ignore[arg-type]  # by name


def test_a_running_agent_has_a_pid_a_text_and_a_cost(tmp_path: Path) -> None:
    usage = {"type": "usage", "cost_usd": 0.25, "input_tokens": 10}
    argv = saying({"type": "say", "text": "раз"}, usage, usage, {"type": "say", "text": "два"}, then=UNTIL_ASKED)

    async def story(engine: LocalEngine, rounds: HealthMonitor) -> None:
        seen = await looked_at(
            rounds, lambda c: c.said == "два" and c.state is Health.WORKING and c.last_output is not None
        )
        assert (seen.spend.usd, seen.spend.tokens) == (0.5, 20)
        assert seen.agent_pid
        assert seen.warden_pid
        assert os.getpgid(seen.agent_pid) == seen.agent_pid
        assert (await rounds.probe([RECORD], NOW))[ID].spend.usd == 0.5, "nothing is counted twice"
        (tmp_path / "go").touch()
        await engine.wait(ID)
        assert (await looked_at(rounds, lambda _c: True)).state is Health.ENDED

    with_warden(tmp_path, order(tmp_path, *argv), story)


def test_an_agent_whose_checkout_is_made_ready_is_starting(tmp_path: Path) -> None:
    step = SetupStep(name="wait", command="while [ ! -e go ]; do sleep 0.01; done")

    async def story(_engine: LocalEngine, rounds: HealthMonitor) -> None:
        assert (await looked_at(rounds, lambda c: c.warden_pid is not None)).state is Health.STARTING
        (tmp_path / "go").touch()
        await looked_at(rounds, lambda c: c.state is Health.WORKING)

    with_warden(tmp_path, order(tmp_path, "sleep", "600", setup=(step,)), story)


def test_an_agent_whose_warden_was_killed_is_lost_and_not_well(tmp_path: Path) -> None:
    async def story(_engine: LocalEngine, rounds: HealthMonitor) -> None:
        seen = await looked_at(rounds, lambda c: c.agent_pid is not None)
        assert seen.warden_pid is not None
        os.kill(seen.warden_pid, signal.SIGKILL)
        lost = await looked_at(rounds, lambda c: c.state is not Health.WORKING)
        assert lost.state is Health.LOST
        assert "its warden is gone" in lost.why

    with_warden(tmp_path, order(tmp_path, "sleep", "600"), story)


def test_who_will_not_end_is_stopping(tmp_path: Path) -> None:
    async def story(engine: LocalEngine, rounds: HealthMonitor) -> None:
        await looked_at(rounds, lambda c: c.said == "deaf")
        await engine.cancel(ID, "enough", grace=60)
        await looked_at(rounds, lambda c: c.state is Health.STOPPING)

    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    deaf = """print('{"type": "say", "text": "deaf"}', flush=True); time.sleep(600)"""
    argv = saying(then=f"{ignoring}\n{deaf}")
    with_warden(tmp_path, order(tmp_path, *argv), story)


def test_ended_attempts_are_not_probed(tmp_path: Path) -> None:
    ended = replace(RECORD, ended=AttemptOutcome(ending=Ending.PASSED))
    rounds = HealthMonitor(LocalEngine(tmp_path), {}, LIMITS)
    assert asyncio.run(rounds.probe([ended], NOW)) == {}
