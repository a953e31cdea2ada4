"""Find losses in a merge: lines of a task that the combined tree lacks, and leftover conflict markers.

Lines are counted for each file. A line that a task added is lost if the combined file has it fewer times than the
task's file. Lines that others removed are first counted against the copies from before the task; further ones are a
loss, reported with the name of the other task.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from blueflame.lazy_dataclass import dataclass
from blueflame.model.changeset import LOST, RETURNED, MergeLoss
from blueflame.model.verdict import Violation

CONFLICT_MARKERS_LEFT = "conflict_markers_left"
CONFLICT_MARKER = re.compile(rb"(<{7}|>{7}|\|{7})( .*)?\r?|={7}\r?")
CONFLICT_BEGIN, CONFLICT_END = b"<<<<<<<", b">>>>>>>"
CONTEXT_LINES = 3  # shown before and after a conflict
MAX_SHOWN_LINES = 3  # of each loss; the diff has the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersions:
    """A file before and after a change; None where it did not exist."""

    name: str  # of the task, or the base
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that a task changed and that is different in the combined tree."""

    task: str
    path: str
    own: FileVersions
    combined: bytes | None
    others: tuple[FileVersions, ...] = ()  # other changes to the file


def find_losses(cases: Sequence[ChangedFile]) -> tuple[MergeLoss, ...]:
    """Return the losses; those that no other change explains come first."""
    found = [loss for case in cases for loss in _find_file_losses(case)]
    return tuple(sorted(found, key=lambda loss: (bool(loss.by), loss.path, loss.task, loss.kind)))


def _find_file_losses(case: ChangedFile) -> Iterator[MergeLoss]:
    if any(b"\0" in (data or b"")[:8000] for data in (case.own.before, case.own.after, case.combined)):
        if case.combined != case.own.after:  # a binary file is only compared as a whole
            by = next((other.name for other in case.others), "")
            kind = LOST if case.own.after is not None else RETURNED
            yield MergeLoss(task=case.task, path=case.path, kind=kind, by=by)
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
    """Count lines that the task removed and the combined file has again.

    A line without letters or digits, such as a bracket, belongs to the others if they added it; a line with text is
    reported with their name.
    """
    back: Counter[bytes] = Counter()
    for line, dropped in (before - after).items():
        surplus = combined[line] - after[line]
        if not any(character.isalnum() for character in line.decode("utf-8", "replace")):
            surplus -= _sum_counts(given, line)
        if min(dropped, surplus) > 0 and line.strip():
            back[line] = min(dropped, surplus)
    return back


_LineCounts = dict[str, Counter[bytes]]


def _build_losses(case: ChangedFile, kind: str, lines: Counter[bytes], changes: _LineCounts) -> Iterator[MergeLoss]:
    """Yield one loss for each other task that changed the lines, and one for lines that no other task changed."""
    by: dict[str, Counter[bytes]] = {}
    for line, count in lines.items():
        task = next((name for name, changed in changes.items() if changed[line]), "")
        by.setdefault(task, Counter())[line] = count
    for task, theirs in by.items():
        shown = tuple(line.decode("utf-8", "replace") for line in list(theirs)[:MAX_SHOWN_LINES])
        yield MergeLoss(task=case.task, path=case.path, kind=kind, count=theirs.total(), lines=shown, by=task)


def _count_lines(data: bytes | None) -> Counter[bytes]:
    """Count lines without their line ends: converting line ends loses nothing."""
    return Counter() if data is None else Counter(line.rstrip(b"\r") for line in data.split(b"\n"))


def _sum_counts(changes: _LineCounts, line: bytes) -> int:
    return sum(changed[line] for changed in changes.values())


def count_markers(data: bytes | None) -> int:
    """Count lines that look like a conflict marker; a text about merging may have its own."""
    return 0 if data is None else sum(1 for line in data.split(b"\n") if CONFLICT_MARKER.fullmatch(line))


def find_leftover_markers(
    paths: Sequence[str], resolved: Mapping[str, bytes], sides: Sequence[Mapping[str, bytes]]
) -> Iterator[Violation]:
    """Yield files that have more such lines than either side had."""
    for path in paths:
        most = max((count_markers(side.get(path)) for side in sides), default=0)
        if count_markers(resolved.get(path)) > most:
            yield Violation(rule=CONFLICT_MARKERS_LEFT, path=path, detail="the conflict is still in the file")


def format_conflicts(files: Mapping[str, bytes]) -> str:
    """Format the conflicts of each file with a few lines around them."""
    return "\n".join(part for path, data in files.items() for part in _format_file_conflicts(path, data))


def _format_file_conflicts(path: str, data: bytes) -> Iterator[str]:
    lines = data.decode("utf-8", "replace").splitlines()
    yield f"--- {path}"
    for first, last in _find_conflicts(lines):
        yield f"@@ lines {first + 1}-{last + 1}"
        yield from lines[max(0, first - CONTEXT_LINES) : last + 1 + CONTEXT_LINES]


def _find_conflicts(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    begun: int | None = None
    for n, line in enumerate(lines):
        if line.startswith(CONFLICT_BEGIN.decode()) and begun is None:
            begun = n
        elif line.startswith(CONFLICT_END.decode()) and begun is not None:
            yield begun, n
            begun = None
