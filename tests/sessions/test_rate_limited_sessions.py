"""A model that is unavailable: reported once, waited for, asked about, and no task is blamed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.attempt import Attempt, AttemptRecord
from blueflame.model.errors import NoAnswer
from blueflame.model.event import (
    AttemptIntended,
    AttemptStarted,
    Event,
    GateOpened,
    GateWithdrawn,
    JournalEntry,
    RuntimeParked,
    RuntimeResumed,
)
from blueflame.model.gate import Gate
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.interface import AttemptEngine, AttemptStatus, Queued, Running
from blueflame.orchestrator.lifecycle import lock_project, open_session
from blueflame.orchestrator.monitors.limits import LimitMonitor
from blueflame.orchestrator.monitors.rate_limits import await_runtime, find_waits, read_shared_wait, remove_shared_wait
from blueflame.orchestrator.wiring import build_context
from blueflame.session.effects import AwaitRuntime
from blueflame.session.state import Session
from support.sessions import Stage, Watcher, task, writes

HOUR = 3600.0


def word(stage: Stage) -> Path:
    return stage.root / ".blueflame" / "parked" / "scripted.json"


def leave_word(stage: Stage, seconds: float | None) -> None:
    now = time.time()
    park = {"kind": "rate_limit", "reason": "429: slow down", "since": now - 5, "until": seconds and now + seconds}
    word(stage).parent.mkdir(parents=True, exist_ok=True)
    word(stage).write_text(json.dumps({**park, "attempt": "another"}))


def one_by_one(stage: Stage, **gates: str) -> Path:
    """Two tasks; the first worker waits for the file that is given back."""
    go = stage.root.parent / "go"
    stage.reconfigure(concurrency={"development": 1, "adaptive": False}, gates=gates)
    wait = {"run": f"while [ ! -e '{go}' ]; do sleep 0.02; done"}
    stage.play(task(1), task(2), workers={1: writes("src/1.txt", "one", wait), 2: writes("src/2.txt", "two")})
    return go


def limited(stage: Stage, go: Path, seconds: float) -> Watcher:
    """The first agent meets a limit of the account, and ends its work when that is known."""

    def see(_session: Session, recorded: JournalEntry) -> None:
        match recorded.event:
            case AttemptStarted(attempt=name) if "task-001" in name:
                leave_word(stage, seconds)
            case RuntimeParked():
                go.touch()

    return Watcher(see)


def story(events: list[JournalEntry], *kinds: type[Event]) -> list[str]:
    return [type(each.event).__name__ for each in events if isinstance(each.event, kinds)]


def test_no_agent_starts_while_the_account_is_limited_and_then_work_goes_on_by_itself(stage: Stage) -> None:
    go = one_by_one(stage)
    result = stage.run(observers=[limited(stage, go, 4.0)])
    order = story(result.events, AttemptIntended, RuntimeParked, RuntimeResumed)
    assert order == ["AttemptIntended", "RuntimeParked", "RuntimeResumed", "AttemptIntended"]
    parked = result.of(RuntimeParked)[0]
    assert (parked.kind, parked.reason, parked.agents) == ("rate_limit", "429: slow down", 1)
    assert parked.until is not None
    assert [gate for gate in result.gates if gate.startswith("rate")] == []
    assert result.session.outcome == "completed"
    assert not word(stage).exists()


def test_a_retry_at_the_gate_removes_the_shared_wait(stage: Stage) -> None:
    go = one_by_one(stage, on_rate_limit="ask")
    result = stage.run({"rate_limit": ["retry"]}, observers=[limited(stage, go, HOUR)])
    assert "rate_limit-scripted" in result.gates
    assert [event.by for event in result.of(RuntimeResumed)] == ["test"]
    assert result.session.outcome == "completed"
    assert not word(stage).exists()


def test_a_gate_is_withdrawn_when_a_call_succeeds(stage: Stage) -> None:
    go = one_by_one(stage, on_rate_limit="ask")

    def through(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, GateOpened) and recorded.event.gate.kind == "rate_limit":
            remove_shared_wait(word(stage))

    result = stage.run({"rate_limit": ["wait"]}, observers=[limited(stage, go, HOUR), Watcher(through)])
    assert [event.gate for event in result.of(GateWithdrawn)] == ["rate_limit-scripted"]
    assert result.session.outcome == "completed"


def leave_open(gate: Gate, _session: Session) -> str:
    """As a decisions file without an entry for it."""
    raise NoAnswer(gate.id)


def test_a_resume_after_the_limit_needs_no_answer_to_its_gate(stage: Stage) -> None:
    go = one_by_one(stage, on_rate_limit="ask")
    with pytest.raises(NoAnswer, match="rate_limit-scripted"):
        stage.run({"rate_limit": [leave_open]}, observers=[limited(stage, go, HOUR)])
    remove_shared_wait(word(stage))
    result = stage.resume({"rate_limit": [leave_open]})
    assert [event.gate for event in result.of(GateWithdrawn)] == ["rate_limit-scripted"]
    assert result.session.outcome == "completed"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"kind": "rate_limit", "reason": "r", "since": 10, "until": 101}', True),
        ('{"kind": "rate_limit", "reason": "r", "since": 10, "until": 100}', False),
        ('{"kind": "rate_limit", "since": 50, "until": null}', True),
        ('{"kind": "rate_limit", "since": 30, "until": null}', False),
        ('{"until": "tomorrow", "since": 99}', True),
        ('{"until": true, "since": 1e999}', False),
        ("[]", False),
        ("{", False),
        ("", False),
    ],
)
def test_an_expired_or_unreadable_shared_wait_delays_nothing(tmp_path: Path, text: str, found: bool) -> None:
    path = tmp_path / "claude.json"
    path.write_text(text)
    assert (read_shared_wait(path, now=100.0) is not None) is found
    assert read_shared_wait(tmp_path / "none.json", now=100.0) is None


@dataclass
class Sayings:
    """An engine whose agents stand as they are said to stand."""

    real: AttemptEngine
    parked: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def mirror(self, attempt: str) -> Path:
        return self.real.mirror(attempt)

    async def inspect(self, attempt: str) -> AttemptStatus:
        if attempt not in self.parked:
            return Queued()
        return Running(pid=1, start_time=0.0, state="working", parked=self.parked[attempt])


@dataclass
class Scenario:
    context: SessionContext
    session: Session
    engine: Sayings
    said: list[Event] = field(default_factory=list)

    def poll(self, watcher: LimitMonitor, now: float) -> list[Event]:
        self.said.clear()
        asyncio.run(watcher.poll(now))
        return list(self.said)

    def watcher(self) -> LimitMonitor:
        return LimitMonitor(lambda: self.context, self.session, self.said.extend)


@pytest.fixture
def scenario(stage: Stage) -> Scenario:
    """Two live agents of one runtime."""
    stage.play(task(1))
    project = stage.project()
    with lock_project(project) as journal:
        session = open_session(project, journal, request="x")
    context = build_context(project, session, script=stage.script)
    for n in (1, 2):
        name = f"{session.id}.task-00{n}.worker.1"
        attempt = Attempt(
            id=name, session=session.id, subject=f"task-00{n}", role="worker", n=1, agent_id=f"worker-{n}"
        )
        session.live[name] = attempt
        session.attempts[name] = AttemptRecord(attempt=attempt, intended_at=0.0)
    engine = Sayings(context.engine)
    return Scenario(replace(context, engine=engine), session, engine)  # type: ignore[arg-type]


def park(since: float, until: float | None = None, kind: str = "rate_limit") -> Mapping[str, Any]:
    return {"kind": kind, "reason": "429", "since": since, "until": until}


def test_waiting_agents_are_reported_together_and_once(scenario: Scenario) -> None:
    watcher = scenario.watcher()
    assert scenario.poll(watcher, 100.0) == []
    scenario.engine.parked = dict.fromkeys(scenario.session.live, park(since=100.0, until=900.0))
    (result,) = scenario.poll(watcher, 101.0)
    assert result == RuntimeParked(runtime="scripted", kind="rate_limit", reason="429", until=900.0, agents=2)
    assert scenario.poll(watcher, 102.0) == []
    scenario.session.parked["scripted"] = result
    assert scenario.poll(watcher, 200.0) == []
    scenario.engine.parked = dict.fromkeys(scenario.session.live, park(since=100.0, until=5000.0))
    assert [event.until for event in scenario.poll(watcher, 201.0) if isinstance(event, RuntimeParked)] == [5000.0]


def test_a_short_wait_is_not_reported(scenario: Scenario) -> None:
    watcher = scenario.watcher()
    scenario.engine.parked = dict.fromkeys(scenario.session.live, park(since=100.0, kind="network"))
    assert scenario.poll(watcher, 101.0) == []
    (result,) = scenario.poll(watcher, 104.0)
    assert isinstance(result, RuntimeParked)
    assert (result.kind, result.until) == ("network", None)


def test_right_after_a_retry_old_waits_are_ignored(scenario: Scenario) -> None:
    scenario.engine.parked = dict.fromkeys(scenario.session.live, park(since=100.0))
    scenario.session.tried_at["scripted"] = 200.0
    assert asyncio.run(find_waits(scenario.context, scenario.session, "scripted", 201.0)) == []
    assert len(asyncio.run(find_waits(scenario.context, scenario.session, "scripted", 210.0))) == 2


def test_a_rest_after_an_outage_lasts_its_time(scenario: Scenario) -> None:
    parked = RuntimeParked(runtime="scripted", kind="outage", reason="", until=time.time() + 0.2, outages=1)
    scenario.session.parked["scripted"] = parked
    (resumed,) = asyncio.run(
        await_runtime(scenario.context, scenario.session, AwaitRuntime("scripted"), lambda _events: None)
    )
    assert time.time() >= (parked.until or 0)
    assert resumed == RuntimeResumed(runtime="scripted", reason="the rest is over")
