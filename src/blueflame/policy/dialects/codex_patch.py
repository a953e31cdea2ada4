"""List the files that a Codex patch changes. Strict: what could be read in two ways is refused.

Codex tolerates blanks around headings; here a heading starts its line.
"""

from __future__ import annotations

from enum import StrEnum

from blueflame.lazy_dataclass import dataclass

BEGIN, END = "*** Begin Patch", "*** End Patch"
END_OF_FILE = "*** End of File"
MOVE = "*** Move to: "
CONTENT = (" ", "+", "-")


class PatchAction(StrEnum):
    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"
    MOVED_HERE = "move"


HEADINGS = {
    "*** Add File: ": PatchAction.ADD,
    "*** Update File: ": PatchAction.UPDATE,
    "*** Delete File: ": PatchAction.DELETE,
}


@dataclass(frozen=True, slots=True)
class PatchedFile:
    change: PatchAction
    path: str  # as written in the patch


class BadPatch(ValueError):
    """A patch whose effect is unclear."""


def parse_patch(patch: str) -> tuple[PatchedFile, ...]:
    """Return the changed files in order, at least one. Raises BadPatch."""
    lines = patch.rstrip("\n").split("\n")
    if lines[0] != BEGIN or lines[-1] != END or len(lines) < 3:
        raise BadPatch(f"a patch begins with a line {BEGIN!r} and ends with a line {END!r}")
    found: list[PatchedFile] = []
    for n, line in enumerate(lines[1:-1], start=2):
        heading = _parse_heading(line, n, found)
        if heading is not None:
            found.append(heading)
        elif not found:
            raise BadPatch(f"line {n} of the patch comes before the first file")
        else:
            _check_content(line, n, found[-1].change)
    return tuple(found)


def _parse_heading(line: str, n: int, before: list[PatchedFile]) -> PatchedFile | None:
    if not line.strip().startswith("***") or (line == END_OF_FILE and before and _is_update(before[-1].change)):
        return None
    if line.startswith(MOVE) and before and before[-1].change is PatchAction.UPDATE:
        return PatchedFile(PatchAction.MOVED_HERE, _parse_path(line.removeprefix(MOVE), n))
    for words, change in HEADINGS.items():
        if line.startswith(words):
            return PatchedFile(change, _parse_path(line.removeprefix(words), n))
    raise BadPatch(f"line {n} of the patch is not a known heading: {line[:80]!r}")


def _parse_path(words: str, n: int) -> str:
    path = words.strip()
    if not path or path != words or not path.isprintable():
        raise BadPatch(f"line {n} of the patch is not a plain file name: {words[:80]!r}")
    return path


def _check_content(line: str, n: int, change: PatchAction) -> None:
    if change is PatchAction.ADD and line.startswith("+"):
        return
    if _is_update(change) and (not line or line == END_OF_FILE or line[0] in CONTENT or line.startswith("@@")):
        return
    raise BadPatch(f"line {n} of the patch does not fit the file before it: {line[:80]!r}")


def _is_update(change: PatchAction) -> bool:
    return change in (PatchAction.UPDATE, PatchAction.MOVED_HERE)
