from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.task import TaskState
from blueflame.session.scheduling.settled_groups import SettledGroups
from support.settled_tasks import find_settled_tasks

GROUPS = {f"{group}{n}": group for group in "abcd" for n in (1, 2)}
STATES = (TaskState.PENDING, TaskState.DONE, TaskState.VALIDATED, TaskState.MERGED, TaskState.DEFERRED)
moves = st.tuples(
    st.sampled_from(sorted(GROUPS)), st.sampled_from(STATES), st.frozensets(st.sampled_from(sorted(GROUPS)), max_size=2)
)


@given(st.lists(moves, max_size=40))
def test_after_every_move_the_settled_groups_are_those_that_a_full_search_finds(
    story: list[tuple[str, TaskState, frozenset[str]]],
) -> None:
    """Also where groups build on each other in rings, and where what has landed moves again."""
    settled = SettledGroups(GROUPS)
    states, foundations = dict.fromkeys(GROUPS, TaskState.PENDING), dict[str, frozenset[str]]()
    for task, state, below in story:
        if states[task] is not state:
            foundations[task] = below - {task}
        states[task] = state
        settled.set_state(task, state, sorted(foundations.get(task, ())))
        assert sorted(settled.list_tasks()) == find_settled_tasks(GROUPS, states, foundations)


def test_a_group_waits_for_a_moving_one_through_others_and_is_settled_when_that_stops() -> None:
    settled = SettledGroups({"a": "a", "b": "b", "c": "c"})
    settled.set_state("c", TaskState.VALIDATED, ["b"])
    settled.set_state("b", TaskState.VALIDATED, ["a"])
    assert settled.list_tasks() == ()
    settled.set_state("a", TaskState.VALIDATED)
    assert sorted(settled.list_tasks()) == ["a", "b", "c"]


def test_groups_in_a_ring_are_settled_together() -> None:
    settled = SettledGroups({"a1": "a", "b1": "b", "b2": "b", "c": "c"})
    settled.set_state("a1", TaskState.VALIDATED, ["b1"])
    settled.set_state("b1", TaskState.VALIDATED)
    settled.set_state("b2", TaskState.VALIDATED, ["a1", "c"])
    assert settled.list_tasks() == ()
    settled.set_state("c", TaskState.VALIDATED)
    assert sorted(settled.list_tasks()) == ["a1", "b1", "b2", "c"]


def test_what_moves_again_holds_up_all_that_builds_on_it() -> None:
    settled = SettledGroups({"a": "a", "b": "b"})
    settled.set_state("a", TaskState.VALIDATED)
    settled.set_state("b", TaskState.VALIDATED, ["a"])
    settled.set_state("a", TaskState.PENDING)
    assert settled.list_tasks() == ()
