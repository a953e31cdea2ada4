from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.paths.locks import BadLock, LockTree, covers, do_locks_overlap, fold_path, parse_lock, parse_locks

NAMES = st.sampled_from(["a", "b", "A", "src", "мир", "с пробелом", "x" * 300])
LOCKS = st.lists(NAMES, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("lock", "path"),
    [
        ("./a//b/", ("a", "b")),
        ("a/b", ("a", "b")),
        ("a/./b/.", ("a", "b")),
        (".", ()),
        ("", ()),
        ("./", ()),
        ("src/**", ("src",)),
        ("src/*.py", ("src",)),
        ("src/[ab]/c", ("src",)),
        ("*", ()),
        ("src/foo~", ("src", "foo~")),
        ("src/..hidden", ("src", "..hidden")),
        ("каталог/с пробелом.txt", ("каталог", "с пробелом.txt")),
    ],
)
def test_a_lock_is_read_as_path_components(lock: str, path: tuple[str, ...]) -> None:
    assert parse_lock(lock) == path


@pytest.mark.parametrize(
    "lock", ["/etc", "../x", "a/../../x", "a/..", "a\x00b", "a\nb", "a\x1b[0m", "a\\b", "~", "~/x", "~root/x", "\udcff"]
)
def test_a_lock_outside_the_repository_is_refused(lock: str) -> None:
    with pytest.raises(BadLock, match="the lock"):
        parse_lock(lock)


@pytest.mark.verification(7)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("pkg/middleware/", "pkg/middleware/ratelimit/"),  # the seed's own task-001 and task-004
        ("pkg/middleware", "pkg/middleware/"),
        ("pkg/middleware/", "./pkg//middleware"),
        ("SRC/App.py", "src/app.py"),
        ("STRASSE", "straße"),
        (normalize("NFC", "é/x"), normalize("NFD", "É")),
        (".", "anything/at/all"),
        ("src/*.py", "src/deep/down.go"),
        ("n" * 300, "n" * 300 + "/below"),
    ],
)
def test_locks_overlap(a: str, b: str) -> None:
    assert do_locks_overlap(a, b)
    assert do_locks_overlap(b, a)


@pytest.mark.verification(7)
@pytest.mark.parametrize(
    ("a", "b"),
    [("pkg/a", "pkg/ab"), ("pkg__middleware__", "pkg/middleware/"), ("n" * 300, "n" * 299), ("src/app", "src/app.py")],
)
def test_locks_with_nothing_in_common_do_not_overlap(a: str, b: str) -> None:
    assert not do_locks_overlap(a, b)
    assert not do_locks_overlap(b, a)


def test_no_locks_are_the_whole_repository() -> None:
    assert parse_locks(()) == ((),)


def test_a_lock_below_another_of_the_same_task_adds_nothing() -> None:
    assert parse_locks(["src/a/b", "SRC/a", "docs", "src/a/c", "src/ab"]) == (("docs",), ("src", "a"), ("src", "ab"))


@given(LOCKS, LOCKS)
def test_overlap_means_that_one_lock_covers_the_other(a: str, b: str) -> None:
    one, other = fold_path(parse_lock(a)), fold_path(parse_lock(b))
    assert do_locks_overlap(a, b) == do_locks_overlap(b, a) == (covers(one, other) or covers(other, one))
    assert do_locks_overlap(a, a)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.one_of(st.none(), st.lists(LOCKS, min_size=1, max_size=3))), max_size=30),
    LOCKS,
)
def test_the_tree_finds_the_smallest_owner_in_the_way(moves: list[tuple[int, list[str] | None]], asked: str) -> None:
    tree: LockTree[str] = LockTree()
    held: dict[str, list[str]] = {}
    for number, locks in moves:
        owner = f"task-{number:03}"
        if locks is None:
            tree.release(owner)
            held.pop(owner, None)
        else:
            tree.hold(owner, parse_locks(locks))
            held[owner] = locks
    rivals = [owner for owner, locks in held.items() if any(do_locks_overlap(asked, lock) for lock in locks)]
    assert tree.conflict(parse_locks([asked])) == min(rivals, default=None)


def test_releasing_twice_is_releasing_once() -> None:
    tree: LockTree[str] = LockTree()
    tree.hold("task-001", parse_locks(["src"]))
    tree.hold("task-002", parse_locks(["src/a"]))
    tree.release("task-001")
    tree.release("task-001")
    assert tree.conflict(parse_locks(["src"])) == "task-002"
    tree.release("task-002")
    assert tree.conflict(parse_locks(["."])) is None


def test_holding_again_replaces_what_was_held() -> None:
    tree: LockTree[str] = LockTree()
    tree.hold("task-001", parse_locks(["a", "b"]))
    tree.hold("task-001", parse_locks(["c"]))
    assert tree.conflict(parse_locks(["a"])) is None
    assert tree.conflict(parse_locks(["c/d"])) == "task-001"
