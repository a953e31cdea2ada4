from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.task import Task
from blueflame.session.changesets.groups import LandingGroup, order_groups


def task(name: str, group: str, *needs: str, priority: int = 3) -> Task:
    return Task(id=name, title=name, description="", priority=priority, cohesion_group=group, dependencies=needs)


def test_a_group_lands_before_those_that_depend_on_it() -> None:
    plan = [task("t1", "web", "t2", priority=1), task("t2", "api"), task("t3", "docs", priority=2)]
    assert order_groups(plan) == (
        LandingGroup(names=("docs",), tasks=("t3",)),
        LandingGroup(names=("api",), tasks=("t2",)),
        LandingGroup(names=("web",), tasks=("t1",), after=("api",)),
    )


def test_what_was_built_on_another_lands_after_it() -> None:
    plan = [task("t1", "a"), task("t2", "b")]
    (first, second) = order_groups(plan, [("t1", "t2")])
    assert (first.names, second.names, second.after) == (("b",), ("a",), ("b",))


def test_groups_in_a_ring_are_joined_and_their_tasks_stay_in_order() -> None:
    plan = [task("a1", "A", "b1"), task("b1", "B"), task("a2", "A"), task("b2", "B", "a2"), task("c1", "C", "a1")]
    joined, last = order_groups(plan)
    assert joined.names == ("A", "B")
    assert joined.name == "A + B"
    assert joined.tasks == ("a2", "b1", "a1", "b2")
    assert last == LandingGroup(names=("C",), tasks=("c1",), after=("A", "B"))


def test_within_a_group_dependency_order_then_priority_then_id() -> None:
    plan = [task("t4", "g", priority=1), task("t1", "g", "t3"), task("t3", "g"), task("t2", "g")]
    assert order_groups(plan)[0].tasks == ("t4", "t2", "t3", "t1")


def test_dependencies_outside_of_what_lands_are_left_out() -> None:
    assert order_groups([task("t1", "g", "gone")], [("t1", "lost"), ("lost", "t1")]) == (
        LandingGroup(names=("g",), tasks=("t1",)),
    )


def test_nothing_has_no_groups() -> None:
    assert order_groups(()) == ()


@given(st.lists(st.tuples(st.sampled_from("ABCD"), st.lists(st.integers(0, 11), max_size=3)), max_size=12), st.data())
def test_a_group_lands_after_everything_it_needs(drawn: list[tuple[str, list[int]]], data: st.DataObject) -> None:
    plan = [
        task(f"t{n:02}", group, *(f"t{need:02}" for need in sorted(set(needs)) if need < n))
        for n, (group, needs) in enumerate(drawn)
    ]
    groups = order_groups(plan)
    landed = [name for group in groups for name in group.tasks]
    assert sorted(landed) == [one.id for one in plan]
    for one in plan:
        assert all(landed.index(need) < landed.index(one.id) for need in one.dependencies)
    names = [name for group in groups for name in group.names]
    assert len(names) == len(set(names)) == len({one.cohesion_group for one in plan})
    for place, group in enumerate(groups):
        assert set(group.after) <= {name for earlier in groups[:place] for name in earlier.names}
    assert order_groups(data.draw(st.permutations(plan))) == groups
