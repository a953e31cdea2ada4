"""Judge what an agent left uncommitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from blueflame.checks.postcheck import BLOCKED_PATH, is_blocked
from blueflame.lazy_dataclass import dataclass
from blueflame.model.verdict import Violation

VALIDATOR_CHANGED_TREE: Final = "validator_changed_tree"
UNCOMMITTED = "left uncommitted: "
MAX_SHOWN_PATHS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Files from git status, sorted, without ignored files."""

    changed: tuple[str, ...] = ()  # tracked files that differ from the last commit, staged or not; both names of a move
    untracked: tuple[str, ...] = ()  # a folder of which nothing is tracked ends in a slash

    def __bool__(self) -> bool:
        return bool(self.changed or self.untracked)

    def subtract(self, earlier: Leftovers) -> Leftovers:
        """Remove what was there before the agent started: setup commands may leave files, too."""
        return Leftovers(
            changed=tuple(path for path in self.changed if path not in earlier.changed),
            untracked=tuple(path for path in self.untracked if path not in earlier.untracked),
        )


def describe_leftovers(left: Leftovers) -> str:
    """Describe them for the attempt's notes: part of the work may be missing from its commits."""
    parts = [_format_paths(left.changed, "changed"), _format_paths(left.untracked, "untracked")]
    return f"{UNCOMMITTED}{'; '.join(part for part in parts if part)}" if left else ""


def find_leftover_note(notes: str) -> str:
    """Find what `describe_leftovers` wrote, the last line of an attempt's notes; empty if nothing was left."""
    last = notes.splitlines()[-1:]
    return last[0].removeprefix(UNCOMMITTED) if last and last[0].startswith(UNCOMMITTED) else ""


def find_leftover_violations(left: Leftovers, blocked_paths: Sequence[str]) -> tuple[Violation, ...]:
    """Return violations for blocked paths only: other uncommitted work does not land, so it breaks no rule."""
    return tuple(
        Violation(rule=BLOCKED_PATH, path=path, detail="changed and left uncommitted")
        for path in sorted({*left.changed, *left.untracked})
        if is_blocked(path.rstrip("/"), blocked_paths)
    )


def find_validator_changes(left: Leftovers, *, head: str | None, expected: str) -> tuple[Violation, ...]:
    """Return violations for changed tracked files and a moved HEAD. New files of diagnostics are ignored."""
    moved = f"HEAD is {head or 'missing'}, and it was {expected} before"
    return (
        *((Violation(rule=VALIDATOR_CHANGED_TREE, path="HEAD", detail=moved),) if head != expected else ()),
        *(
            Violation(rule=VALIDATOR_CHANGED_TREE, path=path, detail="changed by the validator")
            for path in sorted(left.changed)
        ),
    )


def _format_paths(paths: Sequence[str], what: str) -> str:
    if not paths:
        return ""
    more = f" and {len(paths) - MAX_SHOWN_PATHS} more" if len(paths) > MAX_SHOWN_PATHS else ""
    return f"{len(paths)} {what} ({', '.join(paths[:MAX_SHOWN_PATHS])}{more})"
