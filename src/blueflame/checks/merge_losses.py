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

SHOWN = 3  # lines of each loss; the diff has the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A file before and after somebody changed it; None where there was none."""

    name: str  # who: a task, the base
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file that a task changed and that the combined tree has otherwise than the task left it."""

    task: str
    path: str
    own: Version
    combined: bytes | None
    others: tuple[Version, ...] = ()  # who else changed the file


def losses(cases: Sequence[Case]) -> tuple[MergeLoss, ...]:
    """Those that nobody else accounts for come first."""
    found = [loss for case in cases for loss in _losses(case)]
    return tuple(sorted(found, key=lambda loss: (bool(loss.by), loss.path, loss.task, loss.kind)))


def _losses(case: Case) -> Iterator[MergeLoss]:
    if any(_is_binary(data) for data in (case.own.before, case.own.after, case.combined)):
        yield from _binary(case)
        return
    before, after, combined = _lines(case.own.before), _lines(case.own.after), _lines(case.combined)
    others = [(other.name, _lines(other.before), _lines(other.after)) for other in case.others]
    taken = {name: was - now for name, was, now in others}
    given = {name: now - was for name, was, now in others}
    yield from _told(case, LOST, _lost(before, after, combined, taken), taken)
    yield from _told(case, RETURNED, _returned(before, after, combined, given), given)


def _lost(before: Counter[bytes], after: Counter[bytes], combined: Counter[bytes], taken: _Changes) -> Counter[bytes]:
    gone: Counter[bytes] = Counter()
    for line, added in (after - before).items():
        old_copies = min(_sum(taken, line), after[line] - added)
        missing = min(added, after[line] - old_copies - combined[line])
        if missing > 0 and line.strip():
            gone[line] = missing
    return gone


def _returned(
    before: Counter[bytes], after: Counter[bytes], combined: Counter[bytes], given: _Changes
) -> Counter[bytes]:
    """A line that others wrote as well is theirs, unless it says something: then it is told that they did."""
    back: Counter[bytes] = Counter()
    for line, dropped in (before - after).items():
        surplus = combined[line] - after[line]
        if not _says_something(line):
            surplus -= _sum(given, line)
        if min(dropped, surplus) > 0 and line.strip():
            back[line] = min(dropped, surplus)
    return back


_Changes = dict[str, Counter[bytes]]


def _told(case: Case, kind: str, lines: Counter[bytes], changes: _Changes) -> Iterator[MergeLoss]:
    """One entry for each who changed them, and one for those that nobody did."""
    by: dict[str, Counter[bytes]] = {}
    for line, count in lines.items():
        who = next((name for name, changed in changes.items() if changed[line]), "")
        by.setdefault(who, Counter())[line] = count
    for who, theirs in by.items():
        shown = tuple(line.decode("utf-8", "replace") for line in list(theirs)[:SHOWN])
        yield MergeLoss(task=case.task, path=case.path, kind=kind, count=theirs.total(), lines=shown, by=who)


def _binary(case: Case) -> Iterator[MergeLoss]:
    """Of a file that is no text only the whole can be compared."""
    if case.combined != case.own.after:
        by = next((other.name for other in case.others), "")
        yield MergeLoss(task=case.task, path=case.path, kind=LOST if case.own.after is not None else RETURNED, by=by)


def _lines(data: bytes | None) -> Counter[bytes]:
    """Line ends do not count: a file that others changed from one kind to the other has lost nothing."""
    return Counter() if data is None else Counter(line.rstrip(b"\r") for line in data.split(b"\n"))


def _is_binary(data: bytes | None) -> bool:
    return data is not None and b"\0" in data[:8000]


def _says_something(line: bytes) -> bool:
    """Brackets, dashes and the like stand in every file; nobody can tell whose they are."""
    return any(character.isalnum() for character in line.decode("utf-8", "replace"))


def _sum(changes: _Changes, line: bytes) -> int:
    return sum(changed[line] for changed in changes.values())
