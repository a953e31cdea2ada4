"""Tasks that are tried again later, by a dearer model, and at last by whom a person chooses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from blueflame.model.attempt import Attempt
from blueflame.model.errors import Refused
from blueflame.model.event import AttemptIntended, AttemptStarted, BackoffEnded, JournalEntry, TaskMoved
from blueflame.model.task import Cause
from blueflame.orchestrator.wiring import build_runtime_set
from blueflame.session.from_settings import build_workflow
from support.sessions import SessionRun, Stage, plan_of, start_orchestrator, task, writes

GIVES_UP = [{"say": "no idea"}, {"exit": 7}]
RUNGS = [{"model": "opus"}, {"runtime": "scripted", "model": "fable"}]


def configure(stage: Stage, *, base: int = 1, retries: int = 0, rungs: Sequence[object] = (), **more: object) -> None:
    lean = {
        "stages": ["plan", "work", "check", "merge"],
        "barrier": True,
        "max_retries": retries,
        "retry_backoff_base_ms": base,
        "escalate": list(rungs),
    }
    stage.reconfigure(workflows={"lean": lean}, **more)


def attempts(events: Sequence[JournalEntry]) -> list[Attempt]:
    made = (entry.event.attempt for entry in events if isinstance(entry.event, AttemptIntended))
    return [attempt for attempt in made if attempt.subject == "task-001"]


def find_times(result: SessionRun, kind: type) -> list[float]:
    return [entry.at for entry in result.events if isinstance(entry.event, kind)]


def test_the_second_rung_lands_the_work(stage: Stage) -> None:
    configure(stage, retries=1, rungs=RUNGS)
    steps = {"1": GIVES_UP, "2": GIVES_UP, "3": GIVES_UP, "*": writes("src/1.txt", "one")}
    stage.play(task(1), workers={1: steps})
    result = stage.run()
    assert result.session.outcome == "completed"
    assert result.gates == ["plan", "changeset-cs-001"], "no one was asked about it"
    assert stage.read("src/1.txt") == "one\n"
    tried = [(attempt.model, attempt.rung) for attempt in attempts(result.events)]
    assert tried == [("sonnet", 0), ("sonnet", 0), ("opus", 1), ("fable", 2)]
    moved = [event.until for event in result.of(TaskMoved) if event.cause is Cause.RETRY]
    ended = find_times(result, BackoffEnded)
    assert all(at >= until for at, until in zip(ended, moved, strict=True))


def test_a_wait_continues_after_kill_9_and_is_not_begun_again(stage: Stage) -> None:
    configure(stage, base=2000, retries=1)
    stage.play(planner=plan_of(task(1)), workers={1: {"1": GIVES_UP, "*": writes("src/1.txt", "one")}})
    running = start_orchestrator(stage)
    running.until("TaskMoved", 3)  # claimed, failed, to be tried again
    running.kill()
    session, _events = stage.look()
    assert (session.live, list(session.waiting)) == ({}, ["task-001"])
    until = session.waiting["task-001"]
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert [event.until for event in result.of(TaskMoved) if event.cause is Cause.RETRY] == [until]
    (ended,) = find_times(result, BackoffEnded)
    assert until <= ended <= find_times(result, AttemptStarted)[-1]
    assert result.session.tasks["task-001"].retries == 1


@pytest.fixture
def ledger(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = stage.root.parent / "ledger"
    monkeypatch.setenv("BLUEFLAME_LEDGER", str(path))
    return path


def test_an_escalation_continues_after_kill_9_on_the_same_rung(stage: Stage, ledger: Path) -> None:
    go = stage.root.parent / "go"
    wait = {"run": f"while [ ! -e '{go}' ]; do sleep 0.02; done"}
    configure(stage, rungs=RUNGS)
    stage.play(planner=plan_of(task(1)), workers={1: {"1": GIVES_UP, "*": writes("src/1.txt", "one", wait)}})
    running = start_orchestrator(stage, program=True)
    running.until("AttemptStarted", 3)
    running.kill()
    go.touch()
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert [(attempt.model, attempt.rung) for attempt in attempts(result.events)] == [("sonnet", 0), ("opus", 1)]
    started = [line.split()[1] for line in ledger.read_text().splitlines() if line.startswith("start ")]
    assert len(started) == len(set(started)) == 3, "no agent was started twice"


def test_a_person_gives_the_task_to_another_and_the_note_reaches_it(stage: Stage) -> None:
    configure(stage)
    stage.play(task(1), workers={1: {"1": GIVES_UP, "2": GIVES_UP, "*": writes("src/1.txt", "one")}})
    replies = {"escalation": ["retry: the file is src/1.txt", "reassign: model=opus start with the test"]}
    result = stage.run(replies)
    assert result.session.outcome == "completed"
    assert result.gates[1:3] == ["escalation-task-001", "escalation-task-001-2"]
    assert "the file is src/1.txt" in result.prompt("task-001", n=2)
    assert "start with the test" in result.prompt("task-001", n=3)
    assert [attempt.model for attempt in attempts(result.events)] == ["sonnet", "sonnet", "opus"]


@pytest.mark.parametrize(
    ("rung", "problem"),
    [
        (
            {"runtime": "codex"},
            "the model of rung 1 of `escalate` is 'sonnet', a name that only Claude's",
        ),
        ({"runtime": "codex", "model": "opus"}, "the model of rung 1 of `escalate` is 'opus'"),
    ],
)
def test_a_ladder_that_cannot_be_climbed_is_refused_before_anything_starts(
    stage: Stage, rung: object, problem: str
) -> None:
    configure(stage, rungs=[rung])
    project = stage.project()
    with pytest.raises(Refused, match="agents cannot be started") as refused:
        build_runtime_set(project).build_usable(build_workflow(project.settings))
    assert problem in str(refused.value)
