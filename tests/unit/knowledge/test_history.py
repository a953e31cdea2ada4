from __future__ import annotations

from dataclasses import replace

from blueflame.knowledge.history import PastCommit, count_changes
from support.lessons import DAY, learned

COMMITS = (
    PastCommit("c3", 30.0 * DAY, ("src/a.py", "src/b.py")),
    PastCommit("c2", 20.0 * DAY, ("src/deep/c.py",)),
    PastCommit("c1", 10.0 * DAY, ("src/a.py",)),
)


def count(commit: str, *files: str, day: int = 1) -> int | None:
    lesson = learned("k", "x", files=files, day=day)
    return count_changes([replace(lesson, origin=replace(lesson.origin, commit=commit))], COMMITS).get("k")


def test_commits_after_that_of_the_lesson_count() -> None:
    assert count("c1", "src/a.py") == 1
    assert count("c3", "src/a.py") == 0


def test_a_folder_and_a_pattern_cover_what_is_below() -> None:
    assert count("c1", "src") == 2
    assert count("c1", "src/**") == 2
    assert count("c1", "src/deep/") == 1
    assert count("c1", ".") == 2


def test_a_commit_with_two_files_of_the_subject_counts_once() -> None:
    assert count("c1", "src/a.py", "src/b.py") == 1


def test_without_its_commit_its_time_counts() -> None:
    assert count("gone", "src/a.py", day=5) == 2
    assert count("gone", "src/a.py", day=15) == 1


def test_a_lesson_about_nothing_in_particular_is_not_counted() -> None:
    assert count("c1") is None
    assert count("c1", "/etc/passwd") == 0
