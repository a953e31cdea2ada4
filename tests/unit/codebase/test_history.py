from __future__ import annotations

from blueflame.codebase.history import FilePair, Owner, find_owners, find_pairs
from blueflame.codebase.survey import PastCommit


def commits(*changed: str, author: str = "Ada") -> tuple[PastCommit, ...]:
    return tuple(PastCommit(f"{n}", author, tuple(each.split())) for n, each in enumerate(changed))


def test_files_that_change_together_are_pairs_and_files_that_once_did_are_not() -> None:
    history = commits("a b c", "a b", "b a", "c", "c", "c a")
    assert find_pairs(history, "abc") == (FilePair("a", "b", 3, 3),)


def test_a_file_that_always_changes_is_not_the_partner_of_all() -> None:
    history = commits("log a", "log a", "log a", *["a"] * 4, *["log"] * 9)
    assert find_pairs(history, ("log", "a")) == ()


def test_a_file_that_is_gone_is_in_no_pair() -> None:
    assert find_pairs(commits("a b", "a b", "a b"), ("a",)) == ()


def test_the_owner_of_a_folder_changes_it_most_often() -> None:
    history = (*commits("x/a", "x/b", "y/c"), *commits("x/a", author="Bob"), *commits("y/c", "y/c", author="Bob"))
    assert find_owners(history, ("x/a", "x/b", "y/c"), 1) == (Owner("x/", "Ada", 2, 3), Owner("y/", "Bob", 2, 3))
