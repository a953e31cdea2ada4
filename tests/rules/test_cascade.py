from __future__ import annotations

from blueflame.model.task import Foundation, Result, Task, TaskRecord, TaskState
from blueflame.rules.cascade import dependants, to_block, to_defer


def task(name: str, *needs: str) -> Task:
    return Task(id=name, title=name, description="", dependencies=needs)


def record(name: str, state: TaskState, *needs: str, built_on: tuple[str, ...] = ()) -> TaskRecord:
    foundations = tuple(Foundation(one, "f" * 40) for one in built_on)
    return TaskRecord(
        task=task(name, *needs), state=state, result=Result(sha="a" * 40, base="b" * 40, built_on=foundations)
    )


def book(*records: TaskRecord) -> dict[str, TaskRecord]:
    return {one.task.id: one for one in records}


def test_dependants_are_found_through_others_the_nearest_first() -> None:
    plan = [task("a"), task("d", "a"), task("c", "a"), task("b", "c", "d"), task("e", "b"), task("z")]
    assert dependants({one.id: one for one in plan}, "a") == ("c", "d", "b", "e")
    assert dependants({one.id: one for one in plan}, "z") == ()


def test_a_cycle_ends_the_search() -> None:
    plan = [task("a", "b"), task("b", "a")]
    assert dependants({one.id: one for one in plan}, "a") == ("b",)


def test_a_chain_of_ten_thousand_is_no_recursion() -> None:
    chain = [task(f"{n:05}", f"{n - 1:05}") for n in range(10_000)]
    assert len(dependants({one.id: one for one in chain}, "00000")) == 9_999


def test_only_what_has_not_begun_is_blocked() -> None:
    states = list(TaskState)
    records = book(record("a", TaskState.FAILED), *(record(state.value, state, "a") for state in states))
    assert to_block(records, "a") == ("pending", "requeued")


def test_blocking_reaches_through_work_that_stands_but_not_through_what_landed() -> None:
    records = book(
        record("a", TaskState.FAILED),
        record("b", TaskState.DONE, "a"),
        record("c", TaskState.PENDING, "b"),
        record("d", TaskState.MERGED, "a"),
        record("e", TaskState.PENDING, "d"),
    )
    assert to_block(records, "a") == ("c",)


def test_verified_results_that_hold_the_commit_are_deferred() -> None:
    records = book(
        record("a", TaskState.REQUEUED),
        record("b", TaskState.VALIDATED, built_on=("a",)),
        record("c", TaskState.DONE, built_on=("b",)),
        record("d", TaskState.CLAIMED, built_on=("a",)),
        record("e", TaskState.VALIDATED, "a"),  # depends on it, but an older result of it is on the base already
    )
    assert to_defer(records, "a") == ("b", "c")
