from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blueflame.model.attempt import Ending
from blueflame.model.event import (
    EditDismissed,
    EditRefused,
    Event,
    GateAnswered,
    GateOpened,
    TaskMoved,
    TasksImported,
)
from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.model.task import Cause, Task
from blueflame.session.requests.task_file import compare_tasks
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation
from support.session_examples import Outcomes, begun, events, moves, states, task

LIMITS = Limits(allowed_paths=("src/**",))
PLAN = (task(1), task(2), task(3, 2))


def at_the_gate(*plan: Task, answers: dict[str, str | Answer | None] | None = None) -> Simulation:
    """task-001 has landed, the rest failed or is blocked; the question whether to go on is open."""
    endings = {f"task-002.worker.{n}": Ending.CRASHED for n in (1, 2, 3)}
    return begun(
        Outcomes(*(plan or PLAN), endings=endings, answers={"session": None, **(answers or {})}), limits=LIMITS
    )


def waiting() -> Session:
    session = at_the_gate().run().session
    assert [gate.kind.value for gate in session.open_gates.values()] == ["session"]
    return session


def test_an_edit_lists_new_changed_and_dropped_tasks() -> None:
    session = waiting()
    changed = replace(PLAN[1], description="Another way.")
    edit = compare_tasks(session, (PLAN[0], changed, task(4)))
    assert (edit.added, edit.edited, edit.dropped, edit.problems) == ((task(4),), (changed,), ("task-003",), ())
    assert not compare_tasks(session, PLAN).changes
    assert not compare_tasks(session, PLAN[1:]).changes, "what has landed may be left out"


def test_an_edit_is_judged_as_a_plan_is() -> None:
    session = waiting()

    def wrong(*tasks: Task) -> str:
        return "; ".join(compare_tasks(session, tasks).problems)

    assert "task-001 has landed" in wrong(replace(PLAN[0], title="x"), *PLAN[1:])
    assert "task-002" in wrong(PLAN[0], PLAN[2]), "task-003 needs what was left out"
    assert "task-009" in wrong(*PLAN, task(5, 9))
    assert wrong(PLAN[0], replace(PLAN[1], dependencies=("task-003",)), PLAN[2])
    assert wrong(*PLAN, task(6, locks=("/etc/passwd",)))
    assert wrong(*PLAN, task(6, locks=("docs/a.md",)))
    assert wrong(*PLAN, task(4), task(4))
    assert "no task left to do" in wrong(PLAN[0])


def test_no_task_may_come_to_depend_on_a_dropped_one() -> None:
    made = at_the_gate()
    made.run()
    made.send(lambda _session: [TaskMoved(task="task-002", cause=Cause.DROP)], at=made.now)
    made.run()
    blocked = replace(PLAN[2], title="another title")
    assert compare_tasks(made.session, (*PLAN[:2], blocked)).problems == (), "it depended on it before"
    wrong = compare_tasks(made.session, (*PLAN, task(4, 2))).problems
    assert wrong == ("task-004 depends on task-002, which was dropped: it could never start",)
    assert compare_tasks(made.session, (*PLAN[:2], replace(PLAN[2], dependencies=()), task(4))).problems == ()


def played(made: Simulation, tasks: Sequence[Task], choice: str = "continue") -> Simulation:
    """The file is imported as the boundary does it, just before the next cycle."""

    def letter(session: Session) -> Sequence[Event]:
        (gate,) = session.open_gates
        return [GateAnswered(gate=gate, answer=Answer(choice=choice, by="test"))]

    def bring_in(session: Session) -> Sequence[Event]:
        edit = compare_tasks(session, tasks)
        assert edit.problems == ()
        return [TasksImported(digest="d", added=edit.added, edited=edit.edited, dropped=edit.dropped)]

    made.run()
    made.send(lambda session: [*bring_in(session)], at=made.now)
    made.send(letter, at=made.now + 1)
    return made.run()


def test_new_changed_and_left_out_tasks_are_taken_up() -> None:
    made = played(at_the_gate(), (replace(PLAN[1], title="easier"), task(4)))
    assert made.session.tasks["task-002"].task.title == "easier"
    assert states(made)["task-003"] == "dropped"
    assert moves(made, "task-003")[-1] == "drop"
    assert states(made)["task-004"] == "merged"
    assert "d" in made.session.edits_seen


def test_the_result_of_a_changed_task_is_redone_with_everything_built_on_it() -> None:
    skip = {"changeset": Answer(choice="skip", note="later")}
    made = at_the_gate(task(1), task(4, 1), answers={**skip, "session": None})
    made.run()
    assert states(made) == {"task-001": "deferred", "task-004": "deferred"}
    session = made.session
    edit = compare_tasks(session, (replace(task(1), description="Differently."), task(4, 1)))
    made.send(lambda _session: [TasksImported(digest="d", edited=edit.edited)], at=made.now)
    made.run()
    assert moves(made, "task-001")[-2:] == ["requeue", "renew"]
    assert moves(made, "task-004")[-2:] == ["requeue", "renew"]
    assert "changed by a person" in made.session.tasks["task-001"].history[-1].notes
    assert made.session.tasks["task-001"].result is None


def test_another_priority_costs_no_result() -> None:
    skip = {"changeset": Answer(choice="skip", note="later")}
    made = at_the_gate(task(1), answers={**skip, "session": None})
    made.run()
    made.send(lambda _s: [TasksImported(digest="d", edited=(replace(task(1), priority=1),))], at=made.now)
    made.run()
    assert states(made) == {"task-001": "deferred"}
    assert made.session.tasks["task-001"].task.priority == 1


def test_a_blocked_task_that_no_longer_needs_the_failed_one_is_free() -> None:
    made = at_the_gate().run()
    assert states(made)["task-003"] == "blocked"
    edit = compare_tasks(made.session, (*PLAN[:2], replace(PLAN[2], dependencies=())))
    made.send(lambda _s: [TasksImported(digest="d", edited=edit.edited)], at=made.now)
    made.run()
    assert states(made)["task-003"] == "pending"


def test_a_refused_edit_is_asked_about_and_holds_the_next_cycle_up() -> None:
    made = at_the_gate(answers={"session": "continue", "tasks": None})
    made.send(lambda _s: [EditRefused(digest="d", problems=("tasks.yaml:3: no",))], at=0.5)
    made.run()
    (gate,) = [event.gate for event in events(made, GateOpened) if event.gate.kind.value == "tasks"]
    assert gate.evidence == {"problems": ["tasks.yaml:3: no"], "digest": "d"}
    assert made.session.cycle == 0
    kept = at_the_gate(answers={"session": None, "tasks": "keep"})
    kept.send(lambda _s: [EditRefused(digest="d", problems=("no",))], at=0.5)
    kept.run()
    assert events(kept, EditDismissed) == [EditDismissed(digest="d")]
    assert kept.session.cycle == 1
