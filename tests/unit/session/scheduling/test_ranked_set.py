from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.session.scheduling.ranked_set import RankedSet

names = st.sampled_from("abcde")
steps = st.lists(st.tuples(st.booleans(), names, st.integers(0, 3)))


@given(steps, st.integers(0, 6))
def test_a_line_is_a_sorted_dictionary(story: list[tuple[bool, str, int]], count: int) -> None:
    line, model = RankedSet(), dict[str, tuple[int]]()
    for joins, name, rank in story:
        if joins:
            line.add(name, (rank,))
            model[name] = (rank,)
        else:
            line.discard(name)
            model.pop(name, None)
        ordered = sorted(model, key=lambda one: (model[one], one))
        assert line.list_first(count) == tuple(ordered[:count])
        assert list(line) == ordered
        assert len(line) == len(model)
        assert bool(line) is bool(model)
        assert all((one in line) == (one in model) for one in "abcde")


def test_who_leaves_and_comes_back_is_there_once() -> None:
    line = RankedSet()
    for _ in range(3):
        line.add("a", (1,))
        line.discard("a")
    line.add("a", (1,))
    line.add("b", (2,))
    assert line.list_first(5) == ("a", "b")


def test_asking_does_not_make_the_line_grow() -> None:
    line = RankedSet()
    for n in range(50):
        line.add("a", (n,))
        line.list_first(1)
    assert len(line._heap) <= 2
