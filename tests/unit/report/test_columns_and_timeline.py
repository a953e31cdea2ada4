"""The pictures of a report, for any session."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.task import Task
from blueflame.report.task_columns import MAX_TASKS, arrange_by_depth
from blueflame.report.timeline import MAX_LANES, Span, lay_out

NIGHT = 8 * 3_600.0


def plan(*needs: tuple[int, ...]) -> tuple[Task, ...]:
    """Task n needs those tasks."""
    return tuple(
        Task(id=f"task-{n:03d}", title="t", description="", dependencies=tuple(f"task-{need:03d}" for need in own))
        for n, own in enumerate(needs)
    )


def test_a_chain_has_one_task_per_column() -> None:
    assert arrange_by_depth(plan((), (0,), (1,))).columns == (("task-000",), ("task-001",), ("task-002",))


def test_a_task_is_right_of_all_it_depends_on() -> None:
    assert arrange_by_depth(plan((), (0,), (0, 1), ())).columns == (
        ("task-000", "task-003"),
        ("task-001",),
        ("task-002",),
    )


def test_a_ring_or_an_unknown_dependency_does_no_harm() -> None:
    columns = arrange_by_depth(plan((1,), (0,), (9,))).columns
    assert sorted(name for column in columns for name in column) == ["task-000", "task-001", "task-002"]


def test_tasks_beyond_the_limit_are_counted() -> None:
    found = arrange_by_depth(plan(*((n - 1,) if n else () for n in range(MAX_TASKS + 7))))
    assert (sum(map(len, found.columns)), found.hidden) == (MAX_TASKS, 7)


@st.composite
def plans(draw: st.DrawFn) -> tuple[Task, ...]:
    size = draw(st.integers(0, 25))
    pick = [draw(st.sets(st.integers(0, n - 1), max_size=4)) if n else set() for n in range(size)]
    return plan(*(tuple(sorted(own)) for own in pick))


@given(plans())
def test_every_task_is_once_in_a_column_right_of_its_dependencies(tasks: tuple[Task, ...]) -> None:
    columns = arrange_by_depth(tasks).columns
    place = {name: n for n, column in enumerate(columns) for name in column}
    assert sorted(name for column in columns for name in column) == sorted(task.id for task in tasks)
    assert all(place[need] < place[task.id] for task in tasks for need in task.dependencies)


def test_a_night_without_work_is_a_short_gap() -> None:
    spans = (Span(0, "task-001", 0.0, 600.0), Span(1, "task-001", 600.0 + NIGHT, 1_200.0 + NIGHT))
    line = lay_out(spans, (), (), began=0.0, until=1_200.0 + NIGHT)
    (gap,) = line.gaps
    assert gap.seconds == NIGHT
    assert gap.width < 10
    assert min(bar.width for bar in line.rows[0].bars) > 40
    assert all(not gap.left < tick.left < gap.left + gap.width for tick in line.ticks)


def test_attempts_at_the_same_time_stand_below_each_other() -> None:
    spans = tuple(Span(n, "task-001", 0.0, 100.0) for n in range(2))
    assert [bar.lane for bar in lay_out(spans, (), (), began=0.0, until=100.0).rows[0].bars] == [0, 1]


def test_a_session_without_any_work_has_a_line_all_the_same() -> None:
    line = lay_out((), (Span(0, "", 5.0, 9.0),), ((7.0, "cs-001"),), began=0.0, until=10.0)
    assert [mark.left for mark in line.landings] == [70.0]
    assert line.waits[0].bars[0].left == 50.0
    assert lay_out((), (), (), began=5.0, until=5.0).rows == ()


TIMES = st.floats(-10, 1e6, allow_nan=False)


@given(st.lists(st.tuples(st.sampled_from("abc"), TIMES, TIMES), max_size=30), st.floats(0, 1e6))
def test_everything_is_on_the_line_in_its_order(found: list[tuple[str, float, float]], until: float) -> None:
    spans = tuple(Span(n, name, min(a, b), max(a, b)) for n, (name, a, b) in enumerate(found))
    line = lay_out(spans, (), (), began=0.0, until=until)
    bars = [bar for row in line.rows for bar in row.bars]
    assert sorted(bar.key for bar in bars) == list(range(len(spans)))
    assert all(bar.left >= 0 and bar.left + bar.width <= 100.01 and bar.width > 0 for bar in bars)
    assert all(row.lanes <= MAX_LANES for row in line.rows)
    left = {bar.key: bar.left for bar in bars}
    inside = [span for span in spans if 0 <= span.began <= until - until / 50]
    ordered = sorted(inside, key=lambda span: span.began)
    assert [left[span.key] for span in ordered] == sorted(left[span.key] for span in ordered)
    assert [tick.left for tick in line.ticks] == sorted(tick.left for tick in line.ticks)
