from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from blueflame.session.scheduling.settled_groups import SettledGroups

NAMES = "abcdefh"
groups = st.sampled_from(NAMES)
needs = st.sets(groups, max_size=3)
steps = st.lists(st.tuples(groups, st.booleans(), needs, st.booleans()), max_size=30)


def really_at_rest(moving: dict[str, bool], needed: dict[str, set[str]]) -> set[str]:
    """The largest set of groups that do not move and need only each other."""
    found = {group for group in moving if not moving[group]}
    while loose := {group for group in found if not needed[group] <= found}:
        found -= loose
    return found


@settings(max_examples=200, deadline=None)
@given(steps)
@example([("a", False, set(), False), ("c", False, {"a"}, True), ("a", False, {"b", "a"}, True)])
@example([("c", False, {"b"}, False), ("b", False, {"a"}, True), ("b", False, {"c"}, False)])
@example([("h", False, {"b"}, False), ("c", False, {"h"}, True), ("h", False, set(), True)])
def test_groups_at_rest_are_found_whenever_one_asks(story: list[tuple[str, bool, set[str], bool]]) -> None:
    resting = SettledGroups()
    moving = dict.fromkeys(NAMES, True)
    needed: dict[str, set[str]] = {name: set() for name in NAMES}
    for group in NAMES:
        resting.mark_changed(group)
    for group, moves, wanted, asks in [*story, ("a", True, set(), True)]:
        moving[group], needed[group] = moves, wanted
        resting.mark_changed(group)
        if asks:
            assert set(resting.list_groups(moving.__getitem__, needed.__getitem__)) == really_at_rest(moving, needed)


def test_groups_built_on_each_other_come_to_rest_together() -> None:
    resting = SettledGroups()
    moving = {"a": False, "b": True}
    needed = {"a": ["b"], "b": ["a"]}
    resting.mark_changed("a")
    resting.mark_changed("b")
    assert resting.list_groups(moving.__getitem__, needed.__getitem__) == ()
    moving["b"] = False
    resting.mark_changed("b")
    assert sorted(resting.list_groups(moving.__getitem__, needed.__getitem__)) == ["a", "b"]


def test_who_waits_is_not_looked_at_again_before_the_other_has_come_to_a_stop() -> None:
    resting = SettledGroups()
    looked: list[str] = []

    def needs(group: str) -> list[str]:
        looked.append(group)
        return ["busy"]

    moving = {"busy": True} | {f"{n}": False for n in range(100)}
    for group in moving:
        resting.mark_changed(group)
    resting.list_groups(moving.__getitem__, needs)
    looked.clear()
    for _ in range(50):
        resting.mark_changed("busy")
        assert resting.list_groups(moving.__getitem__, needs) == ()
    assert looked == []
