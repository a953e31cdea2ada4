"""What falls with a task. Sessions are set up by hand: states that a story reaches only with luck count too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.changeset import Changeset, ChangesetRecord
from blueflame.model.event import ChangesetJudged, Event, JournalEntry, PlanApproved, TaskMoved
from blueflame.model.task import Result, Task, TaskCommit, TaskState
from blueflame.session.cascade import (
    block_dependants,
    defer_tasks_built_on,
    find_dependants,
    find_failed_dependency,
    find_reachable,
)
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.testing.simulation import build_opening
from support.session_examples import task


def session(*tasks: Task) -> Session:
    return replay([build_opening(), JournalEntry(2, 0.0, PlanApproved(tasks=tasks))])


def put(session: Session, n: int, state: TaskState, *below: int) -> None:
    name = f"task-{n:03}"
    foundations = tuple(TaskCommit(f"task-{one:03}", "sha") for one in below)
    result = Result(sha="sha", base="base", built_on=foundations)
    session.tasks[name] = replace(session.tasks[name], state=state, result=result)
    for one in foundations:
        session.built_upon.setdefault(one.task, {})[name] = None


def names(events: list[Event]) -> list[str]:
    return [event.task for event in events if isinstance(event, TaskMoved)]


@pytest.mark.verification(10)
def test_only_what_has_not_begun_is_blocked() -> None:
    """T10 with E-05: done, running and landed work is left as it is."""
    ring = session(task(1), *(task(n, 1) for n in range(2, 2 + len(TaskState))))
    for n, state in enumerate(TaskState, start=2):
        put(ring, n, state)
    blocked = names(list(block_dependants(ring, "task-001", "why")))
    assert [ring.tasks[name].state for name in blocked] == [TaskState.PENDING, TaskState.REQUEUED]


@pytest.mark.verification(10)
def test_blocking_reaches_through_others() -> None:
    chain = session(task(1), task(2, 1), task(3, 2), task(4, 3), task(5))
    assert names(list(block_dependants(chain, "task-001", "why"))) == ["task-002", "task-003", "task-004"]


def test_what_has_landed_carries_those_behind_it() -> None:
    chain = session(task(1), task(2, 1), task(3, 2))
    put(chain, 2, TaskState.MERGED)
    assert find_dependants(chain, ["task-001"]) == ()


def test_a_chain_of_ten_thousand_is_no_recursion() -> None:
    chain = session(*(task(n, *([n - 1] if n > 1 else [])) for n in range(1, 10_001)))
    assert len(find_dependants(chain, ["task-001"])) == 9_999


def test_a_ring_ends_the_search() -> None:
    assert find_reachable(["a"], {"a": ["b"], "b": ["c"], "c": ["a"]}.__getitem__) == ("b", "c")


def test_verified_work_on_a_fallen_commit_waits_through_any_number_of_steps() -> None:
    pile = session(*(task(n) for n in range(1, 6)))
    put(pile, 1, TaskState.DONE)
    put(pile, 2, TaskState.VALIDATED, 1)
    put(pile, 3, TaskState.DONE, 2)
    put(pile, 4, TaskState.MERGED, 1)
    put(pile, 5, TaskState.DONE)
    assert names(list(defer_tasks_built_on(pile, ("task-001",), "why"))) == ["task-002", "task-003"]


def test_a_changeset_is_deferred_as_a_whole_with_the_work_built_on_it() -> None:
    """2 is built on 1, 3 would have landed with 2, and 4 in another changeset is built on 3."""
    pile = session(*(task(n) for n in range(1, 6)))
    put(pile, 1, TaskState.DONE)
    put(pile, 2, TaskState.VALIDATED, 1)
    put(pile, 3, TaskState.VALIDATED)
    put(pile, 4, TaskState.VALIDATED, 3)
    put(pile, 5, TaskState.VALIDATED)
    for name, members in {"cs-001": (2, 3), "cs-002": (4,), "cs-003": (5,)}.items():
        tasks = tuple(f"task-{n:03}" for n in members)
        changeset = Changeset(id=name, cycle=1, group=name, title="", tasks=tasks)
        pile.changesets[name] = ChangesetRecord(changeset=changeset)
        pile.changeset_of.update(dict.fromkeys(tasks, name))
    events = list(defer_tasks_built_on(pile, ("task-001",), "why"))
    assert [event.changeset for event in events if isinstance(event, ChangesetJudged)] == ["cs-001", "cs-002"]
    assert names(events) == ["task-002", "task-003", "task-004"]


def test_a_failed_dependency_is_described() -> None:
    plan = session(task(1), task(2), task(3), task(4, 1, 2, 3))
    assert find_failed_dependency(plan, "task-004") == ""
    for state, words in {
        TaskState.FAILED: "dependency task-002 failed",
        TaskState.BLOCKED: "dependency task-002 blocked",
        TaskState.DROPPED: "dependency task-002 was dropped",
        TaskState.REQUEUED: "",
    }.items():
        put(plan, 2, state)
        assert find_failed_dependency(plan, "task-004") == words
