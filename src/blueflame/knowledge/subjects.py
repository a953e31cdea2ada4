"""What lessons and work are about: paths, and where they meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blueflame.model.memory import Lesson
from blueflame.paths.locks import BadLock, LockPath, covers, fold_path, parse_lock


def parse_subject(files: Iterable[str]) -> tuple[LockPath, ...]:
    """Parse the paths that a lesson or a task names; what is no path, and the whole repository, is no subject."""
    return tuple(path for file in files if (path := _parse_path(file)))


def find_overlap(files: Sequence[str], subject: Sequence[LockPath]) -> dict[str, float]:
    """The files that a subject touches, and how near each is: 1 if it is the same, less for a folder far above."""
    found: dict[str, float] = {}
    for file in files:
        path = _parse_path(file)
        near = [min(len(path), len(other)) / max(len(path), len(other)) for other in subject if _do_meet(path, other)]
        if near:
            found[file] = max(near)
    return found


def find_own_domain(lesson: Lesson) -> str:
    """The domain that a lesson is about as a whole; "" if it names files: then those decide."""
    return "" if parse_subject(lesson.origin.files) else lesson.domain


def _do_meet(one: LockPath, other: LockPath) -> bool:
    return bool(one and other) and (covers(one, other) or covers(other, one))


def _parse_path(file: str) -> LockPath:
    try:
        return fold_path(parse_lock(file))
    except BadLock:
        return ()
