from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.limits import Limits
from blueflame.model.task import Task
from blueflame.model.workflow import Workflow
from blueflame.session.plan_problems import find_plan_problems, find_plan_warnings

ALLOWED, BLOCKED = ("src/**", "tests/**"), (".env*", "*.key", "src/secret/**")


def task(name: str, *locks: str, needs: tuple[str, ...] = (), priority: int = 3, group: str = "main") -> Task:
    return Task(
        id=name,
        title="Do it",
        description="",
        priority=priority,
        dependencies=needs,
        file_locks=locks,
        cohesion_group=group,
    )


def found(*tasks: Task, allowed: tuple[str, ...] = ALLOWED) -> tuple[str, ...]:
    return find_plan_problems(tasks, Limits(allowed_paths=allowed, blocked_paths=BLOCKED))


def test_a_good_plan_has_no_problems() -> None:
    assert found(task("task-001", "src/a/", "tests/test_a.py"), task("task-002", "src/b", needs=("task-001",))) == ()


def test_an_empty_plan_is_a_problem() -> None:
    (problem,) = found()
    assert "no tasks" in problem


def test_all_problems_are_reported_at_once_in_plan_order() -> None:
    plan = (
        task("task-002", "../out", needs=("task-002", "task-404"), priority=0),
        task("task-001", "/abs", "docs/x"),
        Task(id="task-001", title=" \t", description="", file_locks=("src",), cohesion_group=""),
    )
    said = found(*plan)
    assert [problem.split(":")[0] for problem in said] == [*["task-002"] * 4, *["task-001"] * 5]
    assert found(*plan) == said
    for word in ("itself", "task-404", "priority 0", "..", "absolute", "allowed_paths", "title", "cohesion", "2 times"):
        assert any(word in problem for problem in said), word


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "task-001/../../x", "", "TASK-001", "task-", "task-1\n", "-rf", "а"]
)
def test_an_id_that_is_not_one_is_refused_and_quoted(name: str) -> None:
    (problem,) = found(task(name, "src"))
    assert problem == f"{name!r}: the id is not of the form task-001; it names branches and directories"


@pytest.mark.verification(9)
def test_a_cycle_is_named_from_its_smallest_member() -> None:
    plan = (
        task("task-003", "src/c", needs=("task-002",)),
        task("task-001", "src/a", needs=("task-003",)),
        task("task-002", "src/b", needs=("task-001",)),
        task("task-009", "src/d", needs=("task-001",)),
    )
    (problem,) = found(*plan)
    assert problem.startswith("task-001 -> task-003 -> task-002 -> task-001: ")


@pytest.mark.verification(9)
def test_every_knot_is_named_once_with_its_shortest_cycle() -> None:
    plan = (
        task("task-001", "src/a", needs=("task-002", "task-003")),
        task("task-002", "src/b", needs=("task-003",)),
        task("task-003", "src/c", needs=("task-001",)),
        task("task-007", "src/d", needs=("task-008",)),
        task("task-008", "src/e", needs=("task-007",)),
    )
    first, second = found(*plan)
    assert first.startswith("task-001 -> task-003 -> task-001: ")
    assert second.startswith("task-007 -> task-008 -> task-007: ")


@pytest.mark.parametrize(
    ("lock", "why"),
    [
        ("docs/", "outside of allowed_paths"),
        (".", "outside of allowed_paths"),
        ("src*", "outside of allowed_paths"),
        (".env.local", "inside blocked_paths"),
        ("src/.ENV", "inside blocked_paths"),
        ("src/secret/", "inside blocked_paths"),
        ("src/tls.key", "inside blocked_paths"),
        (".git/hooks", "belongs to git"),
        ("src/vendored/.GIT", "belongs to git"),
        (".blueflame/tasks.yaml", "belongs to git or to Blue Flame"),
        ("src/\x00", "control character"),
        ("src\\a", "backslash"),
        ("~/.ssh", '"~"'),
    ],
)
def test_a_lock_that_cannot_be_worked_under_is_refused(lock: str, why: str) -> None:
    (problem,) = found(task("task-001", lock))
    assert why in problem
    assert problem.startswith("task-001: ")


def test_a_lock_longer_than_any_file_name_is_shown_shortened() -> None:
    (problem,) = found(task("task-001", "docs/" + "x" * 5000))
    assert len(problem) < 300
    assert found(task("task-001", "src/" + "x" * 300)) == ()


def test_the_seeds_own_sample_plan_is_refused_by_its_own_paths() -> None:
    said = found(task("task-001", "pkg/middleware/"), task("task-002", "internal/"), allowed=("src/**", "docs/**"))
    assert len(said) == 2


def test_a_task_without_locks_needs_leave_to_write_everywhere() -> None:
    (problem,) = found(task("task-001"))
    assert "whole repository" in problem
    assert found(task("task-001"), allowed=("**",)) == ()


def test_no_allowed_paths_allow_nothing() -> None:
    (problem,) = found(task("task-001", "src"), allowed=())
    assert "allowed_paths is empty" in problem


def test_a_bad_pattern_of_the_configuration_is_reported_as_such() -> None:
    (problem,) = found(task("task-001", "src"), allowed=("!src",))
    assert "configuration" in problem


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_an_estimate_must_be_a_length_of_time(minutes: float) -> None:
    (problem,) = found(Task(id="task-001", title="x", description="", file_locks=("src",), estimate_minutes=minutes))
    assert "minutes" in problem


def test_a_plan_of_ten_thousand_tasks_in_a_ring_is_judged_without_recursion() -> None:
    ring = [task(f"task-{n:05}", f"src/d{n}", needs=(f"task-{(n + 1) % 10_000:05}",)) for n in range(10_000)]
    (problem,) = found(*ring)
    assert "(9991 more)" in problem


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=16))
def test_a_plan_is_sound_exactly_when_it_can_be_put_in_order(edges: list[tuple[int, int]]) -> None:
    needs = {n: sorted({b for a, b in edges if a == n}) for n in range(8)}
    plan = [task(f"task-{n}", f"src/{n}", needs=tuple(f"task-{need}" for need in needs[n])) for n in range(8)]
    left = dict(needs)
    while removable := [n for n, wanted in left.items() if not set(wanted) & left.keys()]:
        left = {n: wanted for n, wanted in left.items() if n not in removable}
    assert bool(found(*plan)) == bool(left)


def test_it_warns_of_what_a_person_should_know() -> None:
    plan = (
        task("task-001", "src/App.py", group="api"),
        task("task-002", "src/app.py", needs=("task-001",), group="web"),
        task("task-003", "src", needs=("task-002",), group="api"),
    )
    said = "\n".join(find_plan_warnings(plan))
    assert "src/App.py and src/app.py differ only in case" in said
    assert "groups api, web need each other" in said
    assert "src is locked by task-003: 3 of 3 tasks" in said
    assert "one after the other" in said


def test_it_does_not_warn_of_a_plan_that_runs_in_parallel() -> None:
    assert find_plan_warnings([task("task-001", "src/a"), task("task-002", "src/b"), task("task-003", "tests")]) == ()


def test_a_plan_that_cannot_be_read_has_problems_and_no_warnings() -> None:
    assert find_plan_warnings([task("task-001", "../x"), task("task-002", "../x")]) == ()
    assert find_plan_warnings([]) == ()


def test_a_plan_chooses_only_what_the_configuration_allows() -> None:
    limits = Limits(
        allowed_paths=("**",), task_models=("opus",), task_workflows={"backend_only": Workflow(name="backend_only")}
    )
    task = Task(id="task-001", title="t", description="d", file_locks=("src/",))
    allowed = replace(task, model="opus", validator_model="opus", workflow="backend_only")
    assert find_plan_problems([allowed], limits) == ()
    wrong = find_plan_problems([replace(task, model="haiku", validator_model="haiku", workflow="waves")], limits)
    assert wrong == (
        "task-001: names the model 'haiku', which planning.models does not allow; use opus, or leave it out",
        "task-001: names the workflow 'waves', which planning.workflows does not allow here; use backend_only, or "
        "leave it out",
    )


def test_nothing_may_be_chosen_unless_it_is_allowed_and_earlier_sessions_may_choose_any_model() -> None:
    task = Task(id="task-001", title="t", description="d", file_locks=("src/",), model="opus")
    (wrong,) = find_plan_problems([task], Limits(allowed_paths=("**",), task_models=()))
    assert wrong.endswith("which planning.models does not allow; leave it out")
    assert find_plan_problems([task], Limits(allowed_paths=("**",))) == ()
