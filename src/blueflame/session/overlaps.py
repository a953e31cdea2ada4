"""Two agents that change the same file: whether they change the same lines, and which overlaps are new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from blueflame.model.event import OverlapSeen
from blueflame.model.task import Task
from blueflame.session.plan_problems import find_plan_problems
from blueflame.session.state import Session

FILE, LINES = "file", "lines"
MAX_COMPARED_LINES = 2_000  # compared line by line; a longer change counts as one span
MAX_SHOWN_PATHS = 5

Span = tuple[int, int]
"""Lines of the base that a change replaces, as a half-open range; empty for an insertion."""


def find_changed_spans(before: Sequence[str], after: Sequence[str]) -> tuple[Span, ...]:
    head = _count_equal_lines(before, after)
    tail = _count_equal_lines(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old and not new:
        return ()
    if len(old) > MAX_COMPARED_LINES or len(new) > MAX_COMPARED_LINES:
        return ((head, head + len(old)),)
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple((head + start, head + end) for tag, start, end, _, _ in steps if tag != "equal")


def _count_equal_lines(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the equal lines at the beginning."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def classify_overlap(base: str | None, one: str | None, other: str | None) -> str:
    """Return LINES when two changes of a file touch, so that git cannot merge them; FILE when not, or unknown."""
    if base is None or one is None or other is None:
        return LINES if base is None and one is not None and other is not None else FILE
    lines = base.splitlines()
    first, second = (find_changed_spans(lines, text.splitlines()) for text in (one, other))
    meet = any(a[0] <= b[1] and b[0] <= a[1] for a in first for b in second)
    return LINES if meet else FILE


def order_by_start(session: Session, attempts: Iterable[str]) -> tuple[str, ...]:
    """Sort attempts by when they were intended."""
    return tuple(sorted(attempts, key=lambda name: (session.attempts[name].intended_at, name)))


def list_new_overlaps(session: Session, attempts: tuple[str, str], found: Mapping[str, str]) -> Iterator[OverlapSeen]:
    """Yield the overlaps of this pair that are not recorded; FILE that became LINES is recorded again."""
    known = session.overlaps.get(attempts, {})
    new = {path: kind for path, kind in found.items() if known.get(path) not in (kind, LINES)}
    return _build_overlaps(session, attempts, new, (FILE, LINES))


def list_current_overlaps(session: Session) -> tuple[OverlapSeen, ...]:
    """Return the overlaps of running agents, one for each pair and kind."""
    pairs = session.overlaps.items()
    return tuple(seen for pair, found in pairs for seen in _build_overlaps(session, pair, found, (LINES, FILE)))


def _build_overlaps(
    session: Session, attempts: tuple[str, str], found: Mapping[str, str], kinds: Iterable[str]
) -> Iterator[OverlapSeen]:
    first, second = (session.attempts[name].attempt.subject for name in attempts)
    for kind in kinds:
        if paths := tuple(sorted(path for path, each in found.items() if each == kind)):
            yield OverlapSeen(tasks=(first, second), attempts=attempts, paths=paths, kind=kind)


def describe_overlap(event: OverlapSeen) -> str:
    more = f" and {len(event.paths) - MAX_SHOWN_PATHS} more" if len(event.paths) > MAX_SHOWN_PATHS else ""
    paths = ", ".join(event.paths[:MAX_SHOWN_PATHS]) + more
    where = f"the same lines of {paths}" if event.kind == LINES else paths
    return f"{event.tasks[0]} and {event.tasks[1]} both change {where}"


def add_locks(session: Session, task: Task, paths: Iterable[str]) -> Task:
    """Return the task with locks on these paths too, so that it and others with such a lock run one at a time."""
    fresh = tuple(path for path in paths if path not in task.file_locks and _can_be_locked(session, task, path))
    return replace(task, file_locks=(*task.file_locks, *fresh)) if task.file_locks else task


def _can_be_locked(session: Session, task: Task, path: str) -> bool:
    """Whether a plan with a lock on this path could be approved."""
    return not find_plan_problems((replace(task, dependencies=(), file_locks=(path,)),), session.limits)
