from __future__ import annotations

import pytest

from blueflame.model.attempt import WORKER
from blueflame.model.task import TaskCommit, TaskState
from blueflame.model.workflow import Workflow
from blueflame.session.foundations import are_foundations_valid, find_foundations
from support.session_examples import BARRIER, FLOW, Outcomes, begun, reported, task


def built_on(outcomes: Outcomes, name: str, workflow: Workflow = BARRIER) -> list[tuple[TaskCommit, ...]]:
    """Of each go of a worker at a task."""
    attempts = [record.attempt for record in reported(outcomes, workflow).session.attempts.values()]
    return [attempt.built_on for attempt in attempts if (attempt.subject, attempt.role) == (name, WORKER)]


def test_a_dependant_starts_from_its_dependencies_commits() -> None:
    """T24: the dependant's worktree contains the dependency's commit (D-14)."""
    assert built_on(Outcomes(task(1), task(2), task(3, 1, 2)), "task-003") == [
        (TaskCommit("task-001", "task-001@1"), TaskCommit("task-002", "task-002@1"))
    ]


def test_the_later_of_two_with_overlapping_locks_starts_from_the_earlier() -> None:
    """T23: the seed's own pair, a directory and one below it."""
    pair = Outcomes(task(1, locks=("pkg/middleware/",)), task(2, locks=("pkg/middleware/ratelimit/",)))
    assert built_on(pair, "task-002") == [(TaskCommit("task-001", "task-001@1"),)]


@pytest.mark.parametrize(
    ("longer", "earlier", "later"), [("task-001", "task-004", "task-003"), ("task-002", "task-003", "task-004")]
)
def test_of_two_with_overlapping_locks_the_first_that_is_ready_goes_first(
    longer: str, earlier: str, later: str
) -> None:
    """Only the duration of what they depend on differs (0158)."""
    shared = ("src/shared/",)
    tasks = (task(1), task(2), task(3, 1, locks=shared), task(4, 2, locks=shared))
    outcomes = Outcomes(*tasks, minutes={f"{longer}.worker.1": 1.5})
    found = {name: [below.task for below in built_on(outcomes, name, FLOW)[-1]] for name in (earlier, later)}
    assert earlier in found[later]
    assert later not in found[earlier]


def test_strangers_start_from_the_base() -> None:
    assert built_on(Outcomes(task(1), task(2)), "task-002") == [()]


def test_what_has_landed_needs_no_mention() -> None:
    """The second go of task 2 comes after task 1 has landed."""
    outcomes = Outcomes(task(1, group="a"), task(2, 1, group="b"), refused={"task-002.validator.1"})
    assert built_on(outcomes, "task-002", FLOW) == [(TaskCommit("task-001", "task-001@1"),), ()]


def test_a_foundation_is_valid_while_its_task_has_that_commit() -> None:
    world = begun(Outcomes(task(1), task(2, 1)))
    while world.session.list_in_state(TaskState.DONE) != ("task-001", "task-002"):
        assert world.step()
    session = world.session
    mine = (TaskCommit("task-001", "task-001@1"),)
    assert are_foundations_valid(session, mine)
    assert not are_foundations_valid(session, (TaskCommit("task-001", "another"),))
    assert are_foundations_valid(session, ())
    world.run()
    assert session.tasks["task-001"].state is TaskState.MERGED
    assert are_foundations_valid(session, mine)


def test_no_task_is_built_on_itself() -> None:
    world = reported(Outcomes(task(1), task(2)))
    assert find_foundations(world.session, task(1)) == ()
