"""Agents that get no slot of the house's pool, and the gate that asks: wait, or an ad hoc agent?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.attempt import PLANNER, WORKER, Attempt, Duty
from blueflame.model.event import (
    AttemptIntended,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    JournalEntry,
    SlotAwaited,
    TaskMoved,
)
from blueflame.model.limits import Limits, SlotWait
from blueflame.model.task import Cause, Task
from blueflame.model.workflow import Stage, Workflow
from blueflame.session.replay import replay
from blueflame.testing.simulation import Simulation
from blueflame.text.event_lines import describe_event
from blueflame.text.notifications import build_notifications
from blueflame.views.gates import summarize_gate
from support.session_examples import FLOW, Outcomes, begun, events, task

FULL = SlotWait(
    subject="",
    reason="1 of 1 worker agents work (pool.roles)",
    project="blog",
    ahead=3,
    seconds=900.0,
    occupants=("shop task-003",),
    is_late=True,
    may_spawn=True,
)


class Pool(Outcomes):
    """Agents of `role` wait as `wait` says; ad hoc ones get a slot while there is one."""

    def __init__(
        self, *tasks: Task, wait: SlotWait | None = FULL, role: str = WORKER, ad_hoc: int = 9, answer: str | None = None
    ) -> None:
        super().__init__(*tasks, answers={"assignment": answer})
        self.wait, self.role, self.ad_hoc = wait, role, ad_hoc

    def find_wait(self, attempt: Attempt) -> SlotWait | None:
        if attempt.role != self.role or self.wait is None:
            return None
        if attempt.ad_hoc and self.ad_hoc:
            self.ad_hoc -= 1
            return None
        return replace(self.wait, subject=attempt.subject, ad_hoc=attempt.ad_hoc)


def test_a_person_is_asked_with_task_project_occupants_and_wait() -> None:
    world = begun(Pool(task(1)), FLOW).run()
    (opened,) = [each.gate for each in events(world, GateOpened) if each.gate.kind.value == "assignment"]
    assert (opened.id, opened.default) == ("assignment-worker", "wait")
    assert opened.title == "task-001 (thing 1) waits for a worker agent: about 15 min, 3 tasks ahead."
    assert summarize_gate(world.session, opened) == (
        "Task: task-001 thing 1; Project: blog; Needs: worker; Occupied by: shop task-003; "
        "Queue: about 15 min, 3 tasks ahead"
    )
    (awaited,) = events(world, SlotAwaited)
    assert awaited.wait == replace(FULL, subject="task-001")
    assert [each.topic for each in build_notifications(world.session, world.journal[-2:])] == ["gate"]


def test_spawn_starts_an_ad_hoc_agent_for_this_task_alone() -> None:
    pool = Pool(task(1), task(2), answer="spawn", ad_hoc=1)
    world = begun(pool, FLOW, Limits(workers=4)).run()
    makers = [each.attempt for each in events(world, AttemptIntended) if each.attempt.role == WORKER]
    assert [(each.subject, each.ad_hoc) for each in makers] == [("task-001", True)]
    opened = [each.gate for each in events(world, GateOpened) if each.gate.kind.value == "assignment"]
    assert [(each.id, each.evidence["subject"]) for each in opened] == [
        ("assignment-worker", "task-001"),
        ("assignment-worker-2", "task-002"),
    ]
    assert not world.session.open_gates, "what may be ad hoc waits without a further question"


def test_wait_is_asked_once_for_a_role_of_a_session() -> None:
    world = begun(Pool(task(1), task(2), answer="wait"), FLOW).run()
    assert list(world.session.answers)[-1:] == ["assignment-worker"]
    assert not world.session.open_gates
    assert not any(each.attempt.role == WORKER for each in events(world, AttemptIntended))


def test_a_slot_that_becomes_free_withdraws_the_question() -> None:
    pool = Pool(task(1))
    world = begun(pool, FLOW).run()
    pool.wait = None
    world.run()
    (withdrawn,) = events(world, GateWithdrawn)
    assert withdrawn.gate == "assignment-worker"
    assert world.session.outcome == "completed"
    assert not world.session.awaited


def test_a_question_about_a_task_that_is_dropped_is_withdrawn() -> None:
    world = begun(Pool(task(1)), FLOW).run()
    world.send(lambda _session: [TaskMoved(task="task-001", cause=Cause.DROP)], at=0.0)
    world.run()
    assert [each.reason for each in events(world, GateWithdrawn)] == ["nothing waits for worker any more"]
    assert events(world, SlotAwaited)[-1].wait is None
    assert not world.session.awaited


@pytest.mark.parametrize(
    ("wait", "topics"),
    [
        (replace(FULL, is_late=False, may_spawn=False, ahead=1), []),
        (replace(FULL, may_spawn=False), ["parked"]),
    ],
)
def test_who_cannot_be_helped_waits_and_people_are_informed_of_a_long_wait(wait: SlotWait, topics: list[str]) -> None:
    world = begun(Pool(task(1), wait=wait), FLOW).run()
    assert not world.session.open_gates
    (awaited,) = [each for each in world.journal if isinstance(each.event, SlotAwaited)]
    assert [each.topic for each in build_notifications(world.session, [awaited])] == topics
    assert describe_event(awaited).details == (
        f"task-001 waits for a worker agent of the house: {wait.queue}. 1 of 1 worker agents work (pool.roles)"
    )


def test_a_planner_is_planned_as_soon_as_it_has_a_slot_though_the_question_is_open() -> None:
    pool = Pool(task(1), role=PLANNER)
    world = begun(pool, FLOW).run()
    assert list(world.session.open_gates) == ["assignment-planner"]
    pool.wait = None
    assert world.run().session.outcome == "completed"


def test_tasks_of_other_roles_do_not_wait_for_the_role_that_has_no_slot() -> None:
    making = Stage(name="qa", duty=Duty.MAKE, role="qa", key="qa")
    writing = Workflow(name="writing", steps=(making, FLOW.steps[-1]), barrier=False)
    limits = Limits(task_workflows={"writing": writing}, makers=("worker", "qa"))
    world = begun(Pool(task(1), replace(task(2), workflow="writing"), answer="wait"), FLOW, limits).run()
    made = [each.attempt for each in events(world, AttemptIntended) if each.attempt.duty is Duty.MAKE]
    assert [(each.subject, each.role) for each in made] == [("task-002", "qa")]


def test_at_every_crash_the_question_and_its_answer_survive() -> None:
    for choice in ("wait", "spawn"):
        whole = begun(Pool(task(1), answer=choice), FLOW).run()
        for cut in whole.transactions:
            again = Simulation(Pool(task(1), answer=choice), whole.journal[:cut]).run()
            assert count_assignments(again.journal) == (1, 1)
            attempts = [each.attempt.ad_hoc for each in events(again, AttemptIntended) if each.attempt.role == WORKER]
            assert attempts == ([True] if choice == "spawn" else [])
            assert replay(again.journal).awaited == again.session.awaited


def count_assignments(journal: list[JournalEntry]) -> tuple[int, int]:
    opened = [each.event for each in journal if isinstance(each.event, GateOpened)]
    answered = [each.event for each in journal if isinstance(each.event, GateAnswered)]
    return (
        sum(each.gate.kind.value == "assignment" for each in opened),
        sum(each.gate.startswith("assignment") for each in answered),
    )
