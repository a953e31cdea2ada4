"""No silent loss: what each task added is in the combined tree, what it took out is not, or it is told.

Lines are counted, file by file. A task's own line is lost when the combined file has it less often than the task left
it. What others took out is first held against the copies that were there before the task; beyond that it is a loss, and
they are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blueflame.model.changeset import LOST, RETURNED, MergeLoss

MAX_SHOWN_LINES = 3  # lines of each loss; the diff has the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersions:
    """A file before and after somebody changed it; None where there was none."""

    name: str  # who: a task, the base
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that a task changed and that the combined tree has otherwise than the task left it."""

    task: str
    path: str
    own: FileVersions
    combined: bytes | None
    others: tuple[FileVersions, ...] = ()  # who else changed the file


def find_losses(cases: Sequence[ChangedFile]) -> tuple[MergeLoss, ...]:
    """Those that nobody else accounts for come first."""
    found = [loss for case in cases for loss in _find_file_losses(case)]
    return tuple(sorted(found, key=lambda loss: (bool(loss.by), loss.path, loss.task, loss.kind)))


def _find_file_losses(case: ChangedFile) -> Iterator[MergeLoss]:
    if any(_is_binary(data) for data in (case.own.before, case.own.after, case.combined)):
        yield from _compare_binary(case)
        return
    before, after, combined = _count_lines(case.own.before), _count_lines(case.own.after), _count_lines(case.combined)
    others = [(other.name, _count_lines(other.before), _count_lines(other.after)) for other in case.others]
    taken = {name: was - now for name, was, now in others}
    given = {name: now - was for name, was, now in others}
    yield from _build_losses(case, LOST, _count_lost(before, after, combined, taken), taken)
    yield from _build_losses(case, RETURNED, _count_returned(before, after, combined, given), given)


def _count_lost(
    before: Counter[bytes], after: Counter[bytes], combined: Counter[bytes], taken: _LineCounts
) -> Counter[bytes]:
    gone: Counter[bytes] = Counter()
    for line, added in (after - before).items():
        old_copies = min(_sum_counts(taken, line), after[line] - added)
        missing = min(added, after[line] - old_copies - combined[line])
        if missing > 0 and line.strip():
            gone[line] = missing
    return gone


def _count_returned(
    before: Counter[bytes], after: Counter[bytes], combined: Counter[bytes], given: _LineCounts
) -> Counter[bytes]:
    """A line that others wrote as well is theirs, unless it says something: then it is told that they did."""
    back: Counter[bytes] = Counter()
    for line, dropped in (before - after).items():
        surplus = combined[line] - after[line]
        if not _has_text(line):
            surplus -= _sum_counts(given, line)
        if min(dropped, surplus) > 0 and line.strip():
            back[line] = min(dropped, surplus)
    return back


_LineCounts = dict[str, Counter[bytes]]


def _build_losses(case: ChangedFile, kind: str, lines: Counter[bytes], changes: _LineCounts) -> Iterator[MergeLoss]:
    """One entry for each who changed them, and one for those that nobody did."""
    by: dict[str, Counter[bytes]] = {}
    for line, count in lines.items():
        who = next((name for name, changed in changes.items() if changed[line]), "")
        by.setdefault(who, Counter())[line] = count
    for who, theirs in by.items():
        shown = tuple(line.decode("utf-8", "replace") for line in list(theirs)[:MAX_SHOWN_LINES])
        yield MergeLoss(task=case.task, path=case.path, kind=kind, count=theirs.total(), lines=shown, by=who)


def _compare_binary(case: ChangedFile) -> Iterator[MergeLoss]:
    """Of a file that is no text only the whole can be compared."""
    if case.combined != case.own.after:
        by = next((other.name for other in case.others), "")
        yield MergeLoss(task=case.task, path=case.path, kind=LOST if case.own.after is not None else RETURNED, by=by)


def _count_lines(data: bytes | None) -> Counter[bytes]:
    """Line ends do not count: a file that others changed from one kind to the other has lost nothing."""
    return Counter() if data is None else Counter(line.rstrip(b"\r") for line in data.split(b"\n"))


def _is_binary(data: bytes | None) -> bool:
    return data is not None and b"\0" in data[:8000]


def _has_text(line: bytes) -> bool:
    """Brackets, dashes and the like stand in every file; nobody can tell whose they are."""
    return any(character.isalnum() for character in line.decode("utf-8", "replace"))


def _sum_counts(changes: _LineCounts, line: bytes) -> int:
    return sum(changed[line] for changed in changes.values())
