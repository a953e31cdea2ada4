from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.paths.locks import BadLock, HeldLocks, covers, do_locks_overlap, fold_path, parse_lock, parse_locks

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


@given(st.lists(LOCKS, max_size=6), st.lists(LOCKS, min_size=1, max_size=3))
def test_locks_are_free_when_they_overlap_none_that_is_held(held: list[str], asked: list[str]) -> None:
    taken = any(do_locks_overlap(one, other) for one in held for other in asked)
    locks = HeldLocks(fold_path(parse_lock(lock)) for lock in held)
    assert locks.are_free(parse_locks(asked)) is not taken


def test_nothing_is_free_where_the_whole_repository_is_held() -> None:
    locks = HeldLocks()
    assert locks.are_free(parse_locks(["src"]))
    locks.add(parse_locks(()))
    assert not locks.are_free(parse_locks(["src"]))
