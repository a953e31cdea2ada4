"""Verified attempts that land together: one per cohesion group, joined where groups depend on each other in a ring."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from blueflame.model.verdict import Check


class ChangesetState(StrEnum):
    FORMED = "formed"  # waits to be built on the newest base
    BUILT = "built"  # merged in the object store, checks green: a person may judge it
    APPROVED = "approved"
    LANDED = "landed"
    REJECTED = "rejected"
    SKIPPED = "skipped"
    DEFERRED = "deferred"  # a changeset it builds on was rejected
    EVICTED = "evicted"  # conflict, or checks red on the combined tree


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
class Build:
    """The very commit that would land, and the evidence for it."""

    base: str
    commit: str
    files: tuple[FileChange, ...] = ()
    checks: tuple[Check, ...] = ()

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
    build: Build | None = None
    note: str = ""
    landed_as: str | None = None
