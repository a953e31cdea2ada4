"""Requests from another terminal about tasks, on whole simulated sessions: try one again, do one more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from blueflame.journal.journal import Message
from blueflame.model.attempt import Ending
from blueflame.model.event import Event, TaskMoved
from blueflame.model.limits import Limits
from blueflame.model.task import Cause, Task, TaskState
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.inbox import decide_message
from blueflame.session.gates.edits import build_edit_payload
from blueflame.session.state import Session
from support.session_examples import BARRIER, FLOW, Outcomes, begun, moves, reported, states, task

NO_RETRIES = Limits(max_retries=0, allowed_paths=("src/**",), workers=4)
FAILS_ONCE = {"task-001.worker.1": Ending.CRASHED}
LONG = {"task-003.worker.1": 50.0}


def ask(kind: str, replies: list[str], **body: object) -> Callable[[Session], Sequence[Event]]:
    def send(session: Session) -> Sequence[Event]:
        decided = decide_message(session, Message(id=1, session=session.id, at=9.0, kind=kind, body=body))
        replies.append(decided.reply)
        return decided.events

    return send


def new_task(
    title: str, *, name: str = "", needs: tuple[str, ...] = (), locks: tuple[str, ...] = ()
) -> dict[str, object]:
    task = Task(id=name, title=title, description="", cohesion_group="", dependencies=needs, file_locks=locks)
    return build_edit_payload([task])


@pytest.mark.parametrize("workflow", [BARRIER, FLOW], ids=["waves", "flow"])
def test_a_failed_task_is_tried_again_at_once_with_what_waited_for_it(workflow: Workflow) -> None:
    replies: list[str] = []
    outcomes = Outcomes(task(1), task(2, 1), task(3), endings=FAILS_ONCE, minutes=LONG)
    world = begun(outcomes, workflow, NO_RETRIES)
    world.send(ask("retry", replies, task="task-001", reason="use the other library"), at=9.0)
    world.run()
    assert replies == ["task-001 is tried again"]
    assert moves(world, "task-001")[:3] == ["claim", "fail", "renew"]
    assert moves(world, "task-002")[:2] == ["block", "unblock"]
    assert set(states(world).values()) == {TaskState.MERGED}
    assert world.session.cycle == 1
    assert "use the other library" in [entry.notes for entry in world.session.tasks["task-001"].history]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("task-003", "is being worked on: end its agent with 'blueflame kill'"),
        ("task-002", "waits for another task: retry that one"),
        ("task-009", "those that can be retried: task-001"),
    ],
)
def test_a_task_that_cannot_be_tried_again_is_refused_with_what_to_do(name: str, words: str) -> None:
    replies: list[str] = []
    world = begun(Outcomes(task(1), task(2, 1), task(3), endings=FAILS_ONCE, minutes=LONG), limits=NO_RETRIES)
    world.send(ask("retry", replies, task=name), at=9.0)
    world.run()
    assert words in replies[0]


def test_a_task_that_is_added_is_done_in_the_same_session() -> None:
    replies: list[str] = []
    world = begun(Outcomes(task(1), task(3), minutes=LONG), limits=NO_RETRIES)
    world.send(ask("add", replies, by="ann", **new_task("Write it down", needs=("task-001",))), at=9.0)
    world.run()
    assert replies == ["added task-004"]
    added = world.session.tasks["task-004"]
    assert (added.task.file_locks, added.task.description) == (("src/**",), "Write it down")
    assert set(states(world).values()) == {TaskState.MERGED}


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (new_task("x", needs=("task-009",)), "depends on task-009, which is not in the plan"),
        (new_task("x", locks=("docs/",)), "outside of allowed_paths"),
        (new_task("x", name="task-001"), "task-001 is in the session already"),
        (new_task(" "), "has no title"),
        ({"tasks": [{"id": 1}]}, "not a task"),
        ({}, "not a task"),
    ],
)
def test_a_task_that_breaks_the_rules_of_a_plan_is_not_added(payload: dict[str, object], words: str) -> None:
    replies: list[str] = []
    world = begun(Outcomes(task(1), task(3), minutes=LONG), limits=NO_RETRIES)
    world.send(ask("add", replies, **payload), at=9.0)
    world.run()
    assert words in replies[0]
    assert set(world.session.tasks) == {"task-001", "task-003"}


def test_a_task_that_depends_on_a_dropped_one_is_not_added() -> None:
    replies: list[str] = []
    world = begun(Outcomes(task(1, 3), task(3), minutes=LONG), limits=NO_RETRIES)
    world.send(lambda _session: [TaskMoved(task="task-001", cause=Cause.DROP)], at=9.0)
    world.send(ask("add", replies, **new_task("x", needs=("task-001",))), at=9.0)
    world.run()
    assert "depends on task-001, which was dropped" in replies[0]
    assert set(world.session.tasks) == {"task-001", "task-003"}


def test_nothing_is_added_before_a_plan_is_approved() -> None:
    session = begun(Outcomes(task(1))).session
    replies: list[str] = []
    assert ask("add", replies, **new_task("x"))(session) == ()
    assert "no plan is approved yet" in replies[0]


def test_an_ended_session_takes_no_requests() -> None:
    session = reported(Outcomes(task(1))).session
    replies: list[str] = []
    assert ask("retry", replies, task="task-001")(session) == ()
    assert "has ended" in replies[0]
