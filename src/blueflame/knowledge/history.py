"""How often the subject of a lesson has changed since it was learned, from the commits of the base branch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from blueflame.lazy_dataclass import dataclass
from blueflame.model.memory import Lesson
from blueflame.paths.locks import BadLock, parse_lock


@dataclass(frozen=True, slots=True)
class PastCommit:
    sha: str
    at: float
    files: tuple[str, ...]


def count_changes(lessons: Iterable[Lesson], commits: Sequence[PastCommit]) -> Mapping[str, int]:
    """By key. `commits` are newest first. A lesson without files is left out: nothing says that it is out of date."""
    positions = {commit.sha: n for n, commit in enumerate(commits)}
    touched = _index_paths(commits)
    return {
        each.key: _count(each, commits, positions, touched) for each in lessons if each.origin.files and each.is_active
    }


def _index_paths(commits: Sequence[PastCommit]) -> Mapping[str, set[int]]:
    """The commits that changed each file, and each folder with something below it."""
    found: dict[str, set[int]] = {"": set(range(len(commits)))}
    for position, commit in enumerate(commits):
        for path in commit.files:
            parts = path.split("/")
            for depth in range(1, len(parts) + 1):
                found.setdefault("/".join(parts[:depth]), set()).add(position)
    return found


def _count(
    lesson: Lesson, commits: Sequence[PastCommit], positions: Mapping[str, int], touched: Mapping[str, set[int]]
) -> int:
    """Since its commit, or if that is not on the branch, since its time."""
    changed = set[int]().union(*(touched.get(_find_locked(path), ()) for path in lesson.origin.files))
    since = positions.get(lesson.origin.commit)
    if since is not None:
        return sum(position < since for position in changed)
    return sum(commits[position].at > lesson.origin.at for position in changed)


def _find_locked(path: str) -> str:
    """The file or folder of a lock; what is not a path matches nothing."""
    try:
        return "/".join(parse_lock(path))
    except BadLock:
        return path or "/"
