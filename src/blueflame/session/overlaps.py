"""Two agents in one file: how near their changes are, what is news, and what a person's answer brings about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from blueflame.model.event import OverlapSeen
from blueflame.model.task import Task
from blueflame.session.plan_problems import find_plan_problems
from blueflame.session.state import Session

FILE, LINES = "file", "lines"
MAX_COMPARED_LINES = 2_000  # that are compared one by one; a longer change counts as one piece
MAX_SHOWN_PATHS = 5

Span = tuple[int, int]
"""Lines of the base that a change replaces, from the first up to the one after the last; none for an insertion."""


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
    """How many lines they have in common from the beginning."""
    n = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        n += 1
    return n


def classify_overlap(base: str | None, one: str | None, other: str | None) -> str:
    """Whether changes of one file meet: git cannot merge those that touch each other. Unknown texts are only a file."""
    if base is None or one is None or other is None:
        return LINES if base is None and one is not None and other is not None else FILE
    lines = base.splitlines()
    first, second = (find_changed_spans(lines, text.splitlines()) for text in (one, other))
    meet = any(a[0] <= b[1] and b[0] <= a[1] for a in first for b in second)
    return LINES if meet else FILE


def order_by_start(session: Session, attempts: Iterable[str]) -> tuple[str, ...]:
    """Who was there first."""
    return tuple(sorted(attempts, key=lambda name: (session.attempts[name].intended_at, name)))


def list_new_overlaps(session: Session, attempts: tuple[str, str], found: Mapping[str, str]) -> Iterator[OverlapSeen]:
    """What has not been told of this pair; that changes came nearer is told again."""
    told = session.overlaps.get(attempts, {})
    tasks = tuple(session.attempts[name].attempt.subject for name in attempts)
    for kind in (FILE, LINES):
        paths = sorted(path for path, now in found.items() if now == kind and told.get(path) not in (kind, LINES))
        if paths:
            yield OverlapSeen(tasks=(tasks[0], tasks[1]), attempts=attempts, paths=tuple(paths), kind=kind)


def list_current_overlaps(session: Session) -> tuple[OverlapSeen, ...]:
    """The overlaps of agents at work now, one for each two and each nearness."""
    found = []
    for attempts, paths in session.overlaps.items():
        tasks = tuple(session.attempts[name].attempt.subject for name in attempts)
        for kind in (LINES, FILE):
            named = tuple(sorted(path for path, now in paths.items() if now == kind))
            if named:
                found.append(OverlapSeen(tasks=(tasks[0], tasks[1]), attempts=attempts, paths=named, kind=kind))
    return tuple(found)


def describe_overlap(event: OverlapSeen) -> str:
    more = f" and {len(event.paths) - MAX_SHOWN_PATHS} more" if len(event.paths) > MAX_SHOWN_PATHS else ""
    paths = ", ".join(event.paths[:MAX_SHOWN_PATHS]) + more
    where = f"the same lines of {paths}" if event.kind == LINES else paths
    return f"{event.tasks[0]} and {event.tasks[1]} both change {where}"


def add_locks(session: Session, task: Task, paths: Iterable[str]) -> Task:
    """The task with the contested paths among its locks: whoever shares a lock works one after the other."""
    fresh = tuple(path for path in paths if path not in task.file_locks and _can_be_locked(session, task, path))
    return replace(task, file_locks=(*task.file_locks, *fresh)) if task.file_locks else task


def _can_be_locked(session: Session, task: Task, path: str) -> bool:
    """A path that no task may lock stays out: a plan with such a lock could not be approved."""
    alone = replace(task, dependencies=(), file_locks=(path,))
    limits = session.limits
    return not find_plan_problems((alone,), allowed_paths=limits.allowed_paths, blocked_paths=limits.blocked_paths)
