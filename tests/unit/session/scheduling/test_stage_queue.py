from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.session.scheduling.stage_queue import StageQueue

moves = st.tuples(st.sampled_from("abcdef"), st.none() | st.tuples(st.integers(0, 2), st.integers(0, 5)))


@given(st.lists(moves, max_size=30))
def test_tasks_are_listed_by_rank_at_their_stage_and_in_all(story: list[tuple[str, tuple[int, int] | None]]) -> None:
    queue, model = StageQueue(), dict[str, tuple[int, int]]()
    for task, place in story:
        if place is None:
            queue.remove(task)
            model.pop(task, None)
        else:
            queue.add(task, place[0], (place[1],))
            model[task] = place
    ranked = sorted(model, key=lambda task: (model[task][1], task))
    assert list(queue.list_all()) == ranked
    assert len(queue) == len(model)
    for stage in range(3):
        assert list(queue.list_at(stage)) == [task for task in ranked if model[task][0] == stage]
        assert queue.has_any_at(stage) == any(at == stage for at, _ in model.values())
    assert [task in queue for task in "abcdef"] == [task in model for task in "abcdef"]
