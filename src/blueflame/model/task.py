"""A task: what the plan asks for (Task), and its state (TaskRecord)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.verdict import StageVerdict

DEFAULT_GROUP = "main"  # of a journal without groups; a plan gives a task without one its own


class TaskState(StrEnum):
    PENDING = "pending"  # waits for dependencies, locks or a slot
    CLAIMED = "claimed"  # an attempt is under way
    PARTIAL = "partial"  # made in part: it is judged, or waits for its next making stage
    DONE = "done"  # an attempt ended well and its result passed the postcheck
    VALIDATED = "validated"  # checks and reviewer passed it: it may be put into a changeset
    MERGED = "merged"  # landed on the base branch
    FAILED = "failed"  # retries are used up
    BLOCKED = "blocked"  # a dependency failed or was dropped
    REQUEUED = "requeued"  # sent back with notes; starts again with the next cycle
    DEFERRED = "deferred"  # verified work that waits: skipped, or its foundation was rejected
    DROPPED = "dropped"  # a person took it out of the session


class Cause(StrEnum):
    """Why a task moves; `session/task_states.MOVES` says from where to where."""

    CLAIM = "claim"
    COMPLETE = "complete"
    HAND_OVER = "hand_over"  # it has passed a stage, and the next one has it
    FAIL = "fail"
    RELEASE = "release"  # unclaimed without blame: spawn failed, cancelled, lost
    RETRY = "retry"
    VALIDATE = "validate"
    LAND = "land"
    REQUEUE = "requeue"
    DEFER = "defer"
    PRESENT = "present"
    BLOCK = "block"
    UNBLOCK = "unblock"
    RENEW = "renew"  # a new cycle takes requeued tasks up again
    DROP = "drop"


VERIFIED = frozenset({TaskState.DONE, TaskState.VALIDATED, TaskState.MERGED})
"""A dependency in one of these has a commit that passed the postcheck: work can start from it."""

VERIFIED_NOT_LANDED = frozenset({TaskState.DONE, TaskState.VALIDATED})
"""Verified and not landed: others may build on it."""

FINISHED = frozenset({TaskState.MERGED, TaskState.DROPPED})
"""Nothing is left to do for a task in one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the plan asks for. Never changes; an edit makes a new one."""

    id: str
    title: str
    description: str
    priority: int = 3
    cohesion_group: str = DEFAULT_GROUP
    dependencies: tuple[str, ...] = ()
    file_locks: tuple[str, ...] = ()
    model: str | None = None  # overrides the model of its role
    validator_model: str | None = None
    estimate_minutes: float | None = None
    workflow: str | None = None  # None: that of the session


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """Another task's commit that a result was built on."""

    task: str
    sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The pinned outcome of a task: what was checked is what is validated is what lands."""

    sha: str
    base: str
    built_on: tuple[TaskCommit, ...] = ()
    attempt: str = ""
    subject: str = ""  # of its last commit


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWork:
    """Work of this or an earlier session in which a person found a fault."""

    session: str
    tasks: tuple[str, ...]
    title: str = ""
    changeset: str = ""  # that it landed with
    commit: str = ""  # as which it landed; "" while it has not
    seats: tuple[str, ...] = ()  # that made it


def dump_task(task: Task) -> dict[str, Any]:
    """Return what a plan says about it, as JSON: for hooks and `--json`."""
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "priority": task.priority,
        "cohesion_group": task.cohesion_group,
        "dependencies": list(task.dependencies),
        "file_locks": list(task.file_locks),
        "workflow": task.workflow,
        "model": task.model,
        "validator_model": task.validator_model,
    }


class HistoryResult(StrEnum):
    FAILED = "failed"
    REJECTED = "rejected"
    VALIDATION_FAILED = "validation_failed"
    CONFLICT = "conflict"
    STALE = "stale"  # a result that it was built on was redone


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    attempt: int
    agent_id: str
    at: float
    result: HistoryResult
    notes: str = ""
    rejection_reason: str = ""
    cost_usd: float = 0.0
    tokens_used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who makes a task, where it is not the role, the model or the runtime of its stage ("")."""

    role: str = ""
    model: str = ""
    runtime: str = ""

    def __str__(self) -> str:
        """`codex gpt-5.5`"""
        return " ".join(word for word in (self.role, self.runtime, self.model) if word)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """The state of a task. Replaced, never changed, as events are applied."""

    task: Task
    state: TaskState = TaskState.PENDING
    attempts: int = 0
    retries: int = 0
    validator_failures: int = 0  # of the validator itself, on the present result
    result: Result | None = None
    history: tuple[HistoryEntry, ...] = ()
    reason: str = ""
    agent_id: str | None = None
    branch: str | None = None
    worktree: str | None = None
    verdict: str | None = None
    verdict_notes: str = ""
    verdicts: tuple[StageVerdict, ...] = ()  # of all stages and commits, the newest last
    stage: int = 0  # the position in `Workflow.task_stages`
    start: Result | None = None  # what its earlier making stages made: the present one starts from it
    scratch: bool = False  # the next attempt starts from the base
    failures: int = 0  # attempts that failed or whose work was sent back, in the whole session
    granted: int = 0  # failures up to which people let it go on, where that is above the ceiling
    assigned: Assignment | None = None  # by a person, for the present stage
    until: float = 0.0  # it is not tried again before this moment; 0: at once

    @property
    def standing_verdicts(self) -> tuple[StageVerdict, ...]:
        """The newest verdict of each stage, in the order of stages."""
        return tuple({each.stage: each for each in self.verdicts}.values())
