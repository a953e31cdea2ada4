"""Which files a patch of Codex's own kind touches. Strict: what could be read in two ways is refused.

Its reader is lenient with blanks around headings; here a heading stands at the beginning of its line or nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

BEGIN, END = "*** Begin Patch", "*** End Patch"
END_OF_FILE = "*** End of File"
MOVE = "*** Move to: "
CONTENT = (" ", "+", "-")


class Change(StrEnum):
    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"
    MOVED_HERE = "move"


HEADINGS = {
    "*** Add File: ": Change.ADD,
    "*** Update File: ": Change.UPDATE,
    "*** Delete File: ": Change.DELETE,
}


@dataclass(frozen=True, slots=True)
class Touched:
    change: Change
    path: str  # as it stands in the patch


class BadPatch(ValueError):
    """Nobody can say for sure what it would change."""


def touched_by(patch: str) -> tuple[Touched, ...]:
    """In the patch's order, at least one. Raises BadPatch."""
    lines = patch.rstrip("\n").split("\n")
    if lines[0] != BEGIN or lines[-1] != END or len(lines) < 3:
        raise BadPatch(f"a patch begins with a line {BEGIN!r} and ends with a line {END!r}")
    found: list[Touched] = []
    for n, line in enumerate(lines[1:-1], start=2):
        heading = _heading(line, n, found)
        if heading is not None:
            found.append(heading)
        elif not found:
            raise BadPatch(f"line {n} of the patch stands before the first file")
        else:
            _check_content(line, n, found[-1].change)
    return tuple(found)


def _heading(line: str, n: int, before: list[Touched]) -> Touched | None:
    if not line.strip().startswith("***") or (line == END_OF_FILE and _is_open(before)):
        return None
    if line.startswith(MOVE) and before and before[-1].change is Change.UPDATE:
        return Touched(Change.MOVED_HERE, _path(line.removeprefix(MOVE), n))
    for words, change in HEADINGS.items():
        if line.startswith(words):
            return Touched(change, _path(line.removeprefix(words), n))
    raise BadPatch(f"line {n} of the patch is no heading that is known here: {line[:80]!r}")


def _path(words: str, n: int) -> str:
    path = words.strip()
    if not path or path != words or not path.isprintable():
        raise BadPatch(f"line {n} of the patch does not name a file plainly: {words[:80]!r}")
    return path


def _check_content(line: str, n: int, change: Change) -> None:
    if change is Change.ADD and line.startswith("+"):
        return
    if _updates(change) and (not line or line == END_OF_FILE or line[0] in CONTENT or line.startswith("@@")):
        return
    raise BadPatch(f"line {n} of the patch does not belong to what stands before it: {line[:80]!r}")


def _is_open(before: list[Touched]) -> bool:
    return bool(before) and _updates(before[-1].change)


def _updates(change: Change) -> bool:
    return change in (Change.UPDATE, Change.MOVED_HERE)
