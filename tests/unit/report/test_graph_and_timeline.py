"""The pictures of a report: where things stand, for any session."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.task import Task
from blueflame.report.graph import HEIGHT, MOST_TASKS, WIDTH, draw
from blueflame.report.timeline import MOST_LANES, Span, Wait, lay_out

NIGHT = 8 * 3_600.0


def plan(*needs: tuple[int, ...]) -> tuple[Task, ...]:
    """Task n needs those tasks."""
    return tuple(
        Task(id=f"task-{n:03d}", title="t", description="", dependencies=tuple(f"task-{need:03d}" for need in own))
        for n, own in enumerate(needs)
    )


def test_a_chain_goes_straight_from_left_to_right() -> None:
    nodes = {node.task: node for node in draw(plan((), (0,), (1,))).nodes}
    assert nodes["task-000"].x < nodes["task-001"].x < nodes["task-002"].x
    assert len({node.y for node in nodes.values()}) == 1


def test_an_arrow_that_follows_from_others_is_left_out_and_counted() -> None:
    graph = draw(plan((), (0,), (0, 1)))
    assert [(arrow.start, arrow.end) for arrow in graph.arrows] == [("task-000", "task-001"), ("task-001", "task-002")]
    assert graph.implied == 1


def test_tasks_that_stand_alone_stand_apart() -> None:
    graph = draw(plan((), (0,), (), ()))
    nodes = {node.task: node for node in graph.nodes}
    assert {nodes["task-002"].y, nodes["task-003"].y} == {max(node.y for node in graph.nodes)}


def test_a_ring_or_a_need_that_is_nowhere_does_no_harm() -> None:
    graph = draw(plan((1,), (0,), (9,)))
    assert len(graph.nodes) == 3


def test_more_tasks_than_can_be_drawn_are_counted() -> None:
    graph = draw(plan(*((n - 1,) if n else () for n in range(MOST_TASKS + 7))))
    assert (len(graph.nodes), graph.hidden) == (MOST_TASKS, 7)


@st.composite
def plans(draw_: st.DrawFn) -> tuple[Task, ...]:
    size = draw_(st.integers(0, 25))
    pick = [draw_(st.sets(st.integers(0, n - 1), max_size=4)) if n else set() for n in range(size)]
    return plan(*(tuple(sorted(own)) for own in pick))


@given(plans())
def test_no_box_covers_another_and_every_arrow_leads_on(tasks: tuple[Task, ...]) -> None:
    graph = draw(tasks)
    assert graph == draw(tasks)
    assert {node.task for node in graph.nodes} == {task.id for task in tasks}
    boxes = [(node.x, node.y) for node in graph.nodes]
    assert all(abs(x - a) >= WIDTH or abs(y - b) >= HEIGHT for n, (x, y) in enumerate(boxes) for a, b in boxes[:n])
    assert all(0 <= x <= graph.width - WIDTH and 0 <= y <= graph.height - HEIGHT for x, y in boxes)
    for arrow in graph.arrows:
        across = [x for x, _ in arrow.points]
        assert across == sorted(across)


def test_a_night_in_which_nobody_worked_is_a_short_gap() -> None:
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
    line = lay_out((), (Wait(0, 5.0, 9.0),), ((7.0, "cs-001"),), began=0.0, until=10.0)
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
    assert all(row.lanes <= MOST_LANES for row in line.rows)
    left = {bar.key: bar.left for bar in bars}
    inside = [span for span in spans if 0 <= span.began <= until - until / 50]
    ordered = sorted(inside, key=lambda span: span.began)
    assert [left[span.key] for span in ordered] == sorted(left[span.key] for span in ordered)
    assert [tick.left for tick in line.ticks] == sorted(tick.left for tick in line.ticks)
