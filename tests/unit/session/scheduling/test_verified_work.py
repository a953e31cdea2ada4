from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.paths.locks import do_locks_overlap
from blueflame.session.scheduling.verified_work import UnmergedWork

PATHS = (".", "src/", "src/a.py", "src/A.py", "src/ядро/", "src/ядро/b c.py", "docs/d.md")
locks = st.lists(st.sampled_from(PATHS), min_size=1, max_size=2, unique=True)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | locks), max_size=12), locks)
def test_without_stand_ins_neighbours_are_those_whose_locks_overlap(
    story: list[tuple[str, list[str] | None]], asked: list[str]
) -> None:
    near, model = UnmergedWork(), dict[str, list[str]]()
    for owner, theirs in story:
        if theirs is None:
            near.remove(owner)
            model.pop(owner, None)
        else:
            near.add(owner, theirs)
            model[owner] = theirs
    expected = sorted(o for o, theirs in model.items() if any(do_locks_overlap(a, b) for a in asked for b in theirs))
    assert list(near.find_overlapping(asked)) == expected


@given(st.lists(st.tuples(locks, st.booleans()), max_size=8), locks)
def test_a_replaced_result_is_contained_in_a_visible_one(story: list[tuple[list[str], bool]], asked: list[str]) -> None:
    """As the session uses it: each newcomer is built on all the neighbours it has."""
    near = UnmergedWork()
    held: dict[str, list[str]] = {}
    below: dict[str, set[str]] = {}
    for n, (theirs, leaves) in enumerate(story):
        owner = f"{n:02}"
        built_on = near.find_overlapping(theirs)
        below[owner] = {owner}.union(*(below[old] for old in built_on))
        near.add(owner, theirs, built_on)
        held[owner] = theirs
        if leaves:
            near.remove(owner)
            del held[owner]
    seen = near.find_overlapping(asked)
    reached = set[str]().union(*(below[owner] for owner in seen))
    touching = {o for o, theirs in held.items() if any(do_locks_overlap(a, b) for a in asked for b in theirs)}
    assert touching <= reached
    assert set(seen) <= touching


def test_a_chain_on_one_file_has_one_neighbour() -> None:
    near = UnmergedWork()
    for n in range(1_000):
        near.add(f"{n:04}", ["src/a.py"], near.find_overlapping(["src/a.py"]))
    assert near.find_overlapping(["src/a.py"]) == ("0999",)


def test_when_the_newest_falls_the_one_below_is_seen_again() -> None:
    near = UnmergedWork()
    near.add("a", ["src/a.py"])
    near.add("b", ["src/"], ["a"])
    assert near.find_overlapping(["src/a.py"]) == ("b",)
    near.remove("b")
    assert near.find_overlapping(["src/a.py"]) == ("a",)


def test_the_narrower_does_not_hide_the_wider() -> None:
    near = UnmergedWork()
    near.add("a", ["src/"])
    near.add("b", ["src/a.py"], ["a"])
    assert near.find_overlapping(["src/a.py"]) == ("a", "b")
    assert near.find_overlapping(["src/other.py"]) == ("a",)


def test_one_that_was_not_built_on_the_other_does_not_hide_it() -> None:
    near = UnmergedWork()
    near.add("a", ["src/a.py"])
    near.add("b", ["src/a.py"])
    assert near.find_overlapping(["src/a.py"]) == ("a", "b")


def test_no_locks_are_the_whole_repository() -> None:
    near = UnmergedWork()
    near.add("a", [])
    assert near.find_overlapping(["docs/x.md"]) == ("a",)
    assert near.find_overlapping([]) == ("a",)


def test_leaving_twice_or_without_having_come_changes_nothing() -> None:
    near = UnmergedWork()
    near.remove("a")
    near.add("a", ["x"])
    near.remove("a")
    near.remove("a")
    assert near.find_overlapping(["."]) == ()
