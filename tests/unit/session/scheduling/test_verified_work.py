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
            near.leave(owner)
            model.pop(owner, None)
        else:
            near.settle(owner, theirs)
            model[owner] = theirs
    expected = sorted(o for o, theirs in model.items() if any(do_locks_overlap(a, b) for a in asked for b in theirs))
    assert list(near.overlapping(asked)) == expected


@given(st.lists(st.tuples(locks, st.booleans()), max_size=8), locks)
def test_who_is_hidden_is_below_one_who_is_seen(story: list[tuple[list[str], bool]], asked: list[str]) -> None:
    """As the session uses it: each newcomer is built on all the neighbours it has."""
    near = UnmergedWork()
    held: dict[str, list[str]] = {}
    below: dict[str, set[str]] = {}
    for n, (theirs, leaves) in enumerate(story):
        owner = f"{n:02}"
        built_on = near.overlapping(theirs)
        below[owner] = {owner}.union(*(below[old] for old in built_on))
        near.settle(owner, theirs, built_on)
        held[owner] = theirs
        if leaves:
            near.leave(owner)
            del held[owner]
    seen = near.overlapping(asked)
    reached = set[str]().union(*(below[owner] for owner in seen))
    touching = {o for o, theirs in held.items() if any(do_locks_overlap(a, b) for a in asked for b in theirs)}
    assert touching <= reached
    assert set(seen) <= touching


def test_a_chain_on_one_file_has_one_neighbour() -> None:
    near = UnmergedWork()
    for n in range(1_000):
        near.settle(f"{n:04}", ["src/a.py"], near.overlapping(["src/a.py"]))
    assert near.overlapping(["src/a.py"]) == ("0999",)


def test_when_the_newest_falls_the_one_below_is_seen_again() -> None:
    near = UnmergedWork()
    near.settle("a", ["src/a.py"])
    near.settle("b", ["src/"], ["a"])
    assert near.overlapping(["src/a.py"]) == ("b",)
    near.leave("b")
    assert near.overlapping(["src/a.py"]) == ("a",)


def test_the_narrower_does_not_hide_the_wider() -> None:
    near = UnmergedWork()
    near.settle("a", ["src/"])
    near.settle("b", ["src/a.py"], ["a"])
    assert near.overlapping(["src/a.py"]) == ("a", "b")
    assert near.overlapping(["src/other.py"]) == ("a",)


def test_one_that_was_not_built_on_the_other_does_not_hide_it() -> None:
    near = UnmergedWork()
    near.settle("a", ["src/a.py"])
    near.settle("b", ["src/a.py"])
    assert near.overlapping(["src/a.py"]) == ("a", "b")


def test_no_locks_are_the_whole_repository() -> None:
    near = UnmergedWork()
    near.settle("a", [])
    assert near.overlapping(["docs/x.md"]) == ("a",)
    assert near.overlapping([]) == ("a",)


def test_leaving_twice_or_without_having_come_changes_nothing() -> None:
    near = UnmergedWork()
    near.leave("a")
    near.settle("a", ["x"])
    near.leave("a")
    near.leave("a")
    assert near.overlapping(["."]) == ()
