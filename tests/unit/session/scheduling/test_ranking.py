from __future__ import annotations

from blueflame.model.task import Task
from blueflame.session.scheduling.ranking import compute_ranks, compute_remaining_paths, count_overlaps


def task(name: str, *needs: str, priority: int = 3, minutes: float | None = None, locks: str = "") -> Task:
    files = tuple(locks.split()) or (name,)
    return Task(
        id=name,
        title=name,
        description="",
        priority=priority,
        dependencies=needs,
        estimate_minutes=minutes,
        file_locks=files,
    )


def in_line(*tasks: Task) -> list[str]:
    order = compute_ranks(tasks)
    return sorted(order, key=order.__getitem__)


def test_a_linear_plan_counts_what_is_left() -> None:
    assert compute_remaining_paths([task("a"), task("b", "a"), task("c", "b")]) == {"a": 3.0, "b": 2.0, "c": 1.0}


def test_a_diamond_takes_the_longer_side() -> None:
    plan = [task("a", minutes=2), task("b", "a", minutes=10), task("c", "a", minutes=1), task("d", "b", "c", minutes=5)]
    assert compute_remaining_paths(plan) == {"a": 17.0, "b": 15.0, "c": 6.0, "d": 5.0}


def test_within_a_priority_the_longest_path_goes_first_and_then_the_smallest_id() -> None:
    assert in_line(task("a"), task("c"), task("b"), task("d", "c")) == ["c", "a", "b", "d"]


def test_of_equal_paths_the_task_whose_locks_overlap_most_goes_first() -> None:
    plan = [
        task("a", locks="docs/a.md"),
        task("b", locks="src/x.py"),
        task("c", locks="src/y.py"),
        task("d", locks="src/"),
        task("e", locks="src/y.py"),
    ]
    assert in_line(*plan) == ["d", "c", "e", "b", "a"]
    assert count_overlaps(plan) == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 3}


def test_the_longest_path_dominates_any_overlap() -> None:
    assert in_line(task("a", locks="src/"), task("b", locks="src/x.py"), task("c", "d"), task("d"))[0] == "d"


def test_priority_dominates_any_path() -> None:
    assert in_line(task("a", minutes=1000), task("b", "a"), task("z", priority=1)) == ["z", "a", "b"]


def test_an_estimate_that_cannot_be_one_counts_as_unknown() -> None:
    plan = [
        task("a", minutes=float("nan")),
        task("b", minutes=-5),
        task("c", minutes=float("inf")),
        task("d", minutes=0),
    ]
    assert set(compute_remaining_paths(plan).values()) == {1.0}


def test_a_dependency_outside_the_plan_and_a_cycle_do_no_harm() -> None:
    assert compute_remaining_paths([task("a", "gone"), task("b", "c"), task("c", "b")]) == {
        "a": 1.0,
        "b": 1.0,
        "c": 1.0,
    }


def test_naming_a_dependency_twice_counts_once() -> None:
    assert compute_remaining_paths([task("a"), task("b", "a", "a")]) == {"a": 2.0, "b": 1.0}


def test_a_chain_of_ten_thousand_is_no_recursion() -> None:
    chain = [task(f"t{n:05}", *([f"t{n - 1:05}"] if n else [])) for n in range(10_000)]
    assert compute_remaining_paths(chain)["t00000"] == 10_000.0
