"""Verified attempts that land together: one per cohesion group, joined where groups depend on each other in a ring."""

from __future__ import annotations

from enum import StrEnum

from blueflame.lazy_dataclass import dataclass
from blueflame.model.changes import Risk, Weakening
from blueflame.model.verdict import Check


class ChangesetState(StrEnum):
    FORMED = "formed"  # waits to be built on the newest base
    CONFLICTED = "conflicted"  # git cannot merge it: a merger agent is to resolve it
    BUILT = "built"  # merged in the object store, checks passed: a person may judge it
    APPROVED = "approved"
    LANDED = "landed"
    PROPOSED = "proposed"  # pushed, and a pull request is open: others merge it
    UNDONE = "undone"  # it had landed, and a person undid it
    REJECTED = "rejected"
    SKIPPED = "skipped"
    DEFERRED = "deferred"  # a changeset it builds on was rejected
    EVICTED = "evicted"  # conflict, or checks failed on the combined tree


LOST, RETURNED = "lost", "returned"
"""A line that a task added is not in the result; a line that it took out is there again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changeset:
    id: str
    cycle: int
    group: str
    title: str
    tasks: tuple[str, ...]  # in the order in which they are merged
    after: tuple[str, ...] = ()  # groups whose changesets go first
    missing: tuple[str, ...] = ()  # tasks of the group that are not in it


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    path: str
    added: int
    deleted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLoss:
    """Lines of one task in one file that the combined tree does not have as the task left them."""

    task: str
    path: str
    kind: str = LOST  # lost | returned
    count: int = 0  # how many lines; 0 for a binary file
    lines: tuple[str, ...] = ()  # the first of them
    by: str = ""  # who changed them after the task: another task, the base; empty when unknown

    def __str__(self) -> str:
        what = f"{self.count} line{'' if self.count == 1 else 's'}" if self.count else "the content"
        verb = "is" if self.count <= 1 else "are"
        fate = f"{verb} not in the result" if self.kind == LOST else f"{verb} in the result again"
        subject = f"{what} of {self.task} in" if self.kind == LOST else f"{what} that {self.task} took out of"
        return f"{subject} {self.path} {fate}{f' (changed by {self.by})' if self.by else ''}" + self._format_lines()

    def _format_lines(self) -> str:
        if not self.lines:
            return ""
        more = f" (and {self.count - len(self.lines)} more)" if self.count > len(self.lines) else ""
        return ": " + " | ".join(line.strip()[:MAX_LINE_LENGTH] for line in self.lines) + more


MAX_LINE_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """What git could not merge: the work so far, the result that conflicts, and where."""

    ours: str  # a commit: the base with what was merged before
    theirs: str  # the tip of the task that conflicts
    task: str
    paths: tuple[str, ...]
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """How a conflict was resolved: for these trees, and for others where what changed since merges with it."""

    ours: str  # a tree
    theirs: str  # a commit
    commit: str  # whose tree is the resolution
    by: str = ""
    notes: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """The exact commit that would land, and the evidence for it."""

    base: str
    commit: str
    files: tuple[FileChange, ...] = ()
    checks: tuple[Check, ...] = ()
    losses: tuple[MergeLoss, ...] = ()  # lines of the tasks that the combined tree changed
    risks: tuple[Risk, ...] = ()  # what a reviewer should look at
    weakened: tuple[Weakening, ...] = ()  # tests that check less than before

    @property
    def flaky(self) -> tuple[str, ...]:
        """Checks that failed and then passed on the same tree."""
        return tuple(check.name for check in self.checks if check.flaky)

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def deleted(self) -> int:
        return sum(file.deleted for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetRecord:
    changeset: Changeset
    state: ChangesetState = ChangesetState.FORMED
    formed_at: float = 0.0
    judged_at: float = 0.0
    scanned_since: float | None = None  # while its search for secrets takes long
    build: Build | None = None
    note: str = ""
    landed_as: str | None = None
    conflict: Conflict | None = None  # the one that waits for a merger
    resolutions: tuple[Resolution, ...] = ()
    place: str = ""  # of a pull request: its address, or the branch that was pushed
