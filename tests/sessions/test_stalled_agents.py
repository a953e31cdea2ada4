"""Silent agents: reported, asked about or ended, as configured."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptStalled,
    Event,
    JournalEntry,
)
from blueflame.model.gate import Answer
from blueflame.orchestrator.engine.interface import Queued, Running
from blueflame.orchestrator.monitors.stalls import SilenceTimer
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock
from support.sessions import SessionRun, Stage, Watcher, plan_of, start_orchestrator, task, writes

SHORT = 0.4


def impatient(stage: Stage, on_stall: str, timeout: float = SHORT) -> None:
    limits = {"stall_timeout": timeout, "on_stall": on_stall, "kill_grace": "1s"}
    stage.reconfigure(limits=limits)


def quiet_until(path: Path) -> dict[str, str]:
    return {"run": f"while [ ! -e '{path}' ]; do sleep 0.02; done"}


def endings(reported: SessionRun) -> list[Ending]:
    return [event.ended.ending for event in reported.of(AttemptEnded)]


def releasing(path: Path, kind: type[Event], times: int = 1) -> Watcher:
    """Lets the agent go on after so many events of a kind."""
    left = [times]

    def see(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, kind):
            left[0] -= 1
            if left[0] == 0:
                path.touch()

    return Watcher(see)


def test_a_silence_is_reported_once_and_the_agent_goes_on(stage: Stage) -> None:
    impatient(stage, "warn")
    first, second = (stage.root.parent / name for name in ("first", "second"))
    steps = [quiet_until(first), {"say": "still here"}, quiet_until(second)]
    stage.play(task(1), workers={1: writes("src/1.txt", "one", *steps)})
    reported = stage.run(observers=[releasing(first, AttemptStalled), releasing(second, AttemptStalled, 2)])
    assert reported.session.outcome == "completed"
    assert endings(reported) == [Ending.PASSED]
    assert [event.seconds >= SHORT for event in reported.of(AttemptStalled)] == [True, True]
    assert "ATTEMPT_STALLED" in (stage.root / ".blueflame" / "logs" / "activity.log").read_text()


def test_a_talkative_agent_is_not_stalled(stage: Stage) -> None:
    impatient(stage, "ask", timeout=3.0)  # a busy machine may be silent for a second
    chatter = [step for n in range(35) for step in ({"say": f"step {n}"}, {"sleep": 0.1})]
    stage.play(task(1), workers={1: writes("src/1.txt", "one", *chatter)})
    assert stage.run().of(AttemptStalled) == []


def test_a_stalled_agent_is_ended_without_asking_where_that_is_the_policy(stage: Stage) -> None:
    impatient(stage, "kill")
    stage.play(task(1), workers={1: {"1": "stuck", "*": writes("src/1.txt", "one")}})
    reported = stage.run()
    assert endings(reported) == [Ending.STALLED, Ending.PASSED]
    assert reported.gates == ["plan", "changeset-cs-001"]


def test_a_person_may_end_a_stalled_agent_and_its_task_is_tried_again(stage: Stage) -> None:
    impatient(stage, "ask")
    stage.play(task(1), workers={1: {"1": "stubborn", "*": writes("src/1.txt", "one")}})
    reported = stage.run({"stall": ["kill"]})
    assert endings(reported) == [Ending.STALLED, Ending.PASSED]
    assert reported.session.outcome == "completed"
    assert reported.session.tasks["task-001"].retries == 1
    (gate,) = (gate for gate in reported.answers.asked if gate.kind.value == "stall")
    assert (gate.id, gate.subject, gate.default) == ("stall-task-001", "task-001", "wait")
    assert "silent" in reported.prompt("task-001", n=2)
    assert [event.stalled for event in reported.of(AttemptCancelled)] == [True]


WAIT = Answer(choice="wait", by="test")


def test_an_adopted_agent_is_watched_over_too(stage: Stage) -> None:
    impatient(stage, "ask", timeout=3.0)  # the planner must not be taken for a stalled one on a busy machine
    stage.play(planner=plan_of(task(1)), workers={1: {"1": "stuck", "*": writes("src/1.txt", "one")}})
    running = start_orchestrator(stage, {"stall": ["wait"]})
    running.until("AttemptStarted", 2)
    running.kill()
    reported = stage.resume({"stall": ["kill"]})
    assert endings(reported) == [Ending.PASSED, Ending.STALLED, Ending.PASSED]
    assert len(reported.of(AttemptStalled)) == 1


def test_a_planner_that_stalls_is_asked_about_as_well(stage: Stage) -> None:
    impatient(stage, "ask")
    stage.play(planner={"1": "stuck", "*": plan_of(task(1))}, worker=writes("src/1.txt", "one"))
    reported = stage.run({"stall": ["kill"]})
    assert reported.gates[0] == "stall-plan"
    assert endings(reported)[0] is Ending.STALLED
    assert reported.session.outcome == "completed"


def test_a_stop_while_it_is_asked_puts_the_session_down(stage: Stage) -> None:
    impatient(stage, "ask")
    stage.play(planner=plan_of(task(1)), workers={1: "stuck"})
    running = start_orchestrator(stage, {"stall": ["wait"]})
    running.until("AttemptStalled")
    running.send(signal.SIGINT)
    assert running.end() == 0
    session, _events = stage.look()
    assert not session.open_gates
    assert not session.live


class HandClock(SystemClock):
    """Two clocks that are moved by hand."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


PAUSE = 60.0  # between two checks


def working(**changes: object) -> Running:
    return replace(Running(pid=1, start_time=1.0, agent_pid=2, state="working"), **changes)  # type: ignore[arg-type] # test data


def test_a_clock_that_jumps_is_no_silence() -> None:
    clock = HandClock()
    silence = SilenceTimer(clock, PAUSE)
    assert silence.measure(working(last_output=clock.wall)) == 0
    said = working(last_output=clock.wall, output_bytes=5)
    clock.pass_by(10)
    clock.wall += 3600
    assert silence.measure(said) == 10
    clock.pass_by(5)
    clock.wall -= 7200
    assert silence.measure(said) == 15


def test_a_time_in_which_we_were_stopped_is_no_silence() -> None:
    clock = HandClock()
    silence = SilenceTimer(clock, PAUSE)
    said = working(last_output=clock.wall)
    silence.measure(said)
    clock.pass_by(PAUSE)
    assert silence.measure(said) == PAUSE
    clock.pass_by(3600)
    assert silence.measure(said) == 2 * PAUSE


def test_nor_is_one_before_the_first_look() -> None:
    clock = HandClock()
    silence = SilenceTimer(clock, PAUSE)
    said = working(last_output=clock.wall)
    clock.pass_by(3600)
    assert silence.measure(said) == PAUSE


def test_an_agent_met_for_the_first_time_may_have_been_silent_for_long() -> None:
    clock = HandClock()
    assert SilenceTimer(clock, PAUSE).measure(working(last_output=clock.wall - 90)) == 90
    assert SilenceTimer(clock, PAUSE).measure(working(state_since=clock.wall - 30)) == 30
    assert SilenceTimer(clock, PAUSE).measure(working()) == 0


@pytest.mark.parametrize("state", ["starting", "setup", "stopping", "ended"])
def test_silence_counts_only_while_it_works(state: str) -> None:
    clock = HandClock()
    silence = SilenceTimer(clock, PAUSE)
    assert silence.measure(working(state=state, state_since=clock.wall - 90)) == 0
    clock.pass_by(60)
    assert silence.measure(working(state_since=clock.wall - 1)) == 1
    assert silence.measure(Queued()) == 0
