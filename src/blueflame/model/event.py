"""What happened. The journal is a list of these; every other view is made from it.

Names are facts in the past tense. An event holds what is needed to apply it and nothing that can be derived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from blueflame.model.attempt import Attempt, AttemptOutcome
from blueflame.model.changeset import Build, Changeset, Conflict, Resolution
from blueflame.model.gate import Answer, Gate
from blueflame.model.limits import Limits, Workflow
from blueflame.model.spend import Unit
from blueflame.model.task import Cause, HistoryEntry, Result, Task
from blueflame.model.verdict import Check, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened:
    session: str
    request: str
    project: str
    base_branch: str
    base_sha: str
    workflow: Workflow
    limits: Limits
    config_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStarted:
    """A process took the session up: the first time, or after a stop or a crash."""

    pid: int
    host: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    reason: str
    now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStopped:
    """Put down in good order; the session can be resumed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProposed:
    round: int
    tasks: tuple[Task, ...]
    origin: str  # planner | file | edit
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFailed:
    """The planner gave nothing that can be read as a plan."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApproved:
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRequested:
    notes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleStarted:
    cycle: int
    base_sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveStarted:
    cycle: int
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProceedRequested:
    """A person said: go on with what is done."""

    by: str
    kill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDrifted:
    """The configuration on disk is no longer the one the session runs with."""

    digest: str
    changes: tuple[str, ...]
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAdopted:
    digest: str
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKept:
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRaised:
    limit: int
    by: str
    budget: str = "session"  # session | day
    day: str = ""  # the day for which the limit of a day is raised; the next one begins with the old limit


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWarned:
    used: int
    limit: int
    budget: str = "session"  # session | day
    day: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsChanged:
    """The machine bears fewer workers than configured, or all of them again."""

    slots: int
    configured: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMoved:
    task: str
    cause: Cause
    reason: str = ""
    result: Result | None = None
    history: HistoryEntry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEdited:
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksImported:
    """A person changed the exported tasks file between two cycles, and it passed the checks of a plan."""

    digest: str  # of the file
    added: tuple[Task, ...] = ()
    edited: tuple[Task, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRefused:
    """A person changed the exported tasks file, and it cannot be used: nothing is taken from it."""

    digest: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditDismissed:
    """The tasks stay as they were; that version of the file is not asked about again."""

    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptIntended:
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    attempt: str
    base: str | None
    worktree: str | None
    warden_pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStalled:
    """It has been silent for longer than limits.stall_timeout; told once for each silence."""

    attempt: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCancelled:
    """The wish that it end; AttemptEnded says that it did."""

    attempt: str
    reason: str
    stalled: bool = False  # it is ended because it was silent: a failure of its own, which may be tried again
    restarts: bool = False  # its task is taken up again in the same cycle, as soon as its locks are free


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapSeen:
    """Two running attempts change the same file, or the same lines of it; told once for each pair, path and kind."""

    tasks: tuple[str, str]
    attempts: tuple[str, str]
    paths: tuple[str, ...]
    kind: str  # file | lines


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNearsBudget:
    """It has used the part of its budget at which a warning is due; told once."""

    attempt: str
    used: int
    limit: int
    unit: Unit = Unit.USD
    budget: str = "attempt"  # attempt | task | session | day: whose budget it is


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeParked:
    """The model cannot be had for now: agents of this runtime wait, and no new one is started. Told once for all."""

    runtime: str
    kind: str  # rate_limit | outage | network
    reason: str
    until: float | None = None  # when the provider says that it is over; None when nobody knows
    agents: int = 0  # how many of them wait
    outages: int = 0  # how many times in a row agents have given up; 0 when none has: they wait by themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeResumed:
    runtime: str
    reason: str = ""
    by: str = ""  # who said to try again now; empty when it is over by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    attempt: str
    ended: AttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The diagnostics ran on a task's pinned commit."""

    task: str
    sha: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictGiven:
    task: str
    sha: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetsFormed:
    changesets: tuple[Changeset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetBuilt:
    changeset: str
    build: Build


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetEvicted:
    """It cannot land as it is: a conflict, or checks that are red on the combined tree."""

    changeset: str
    reason: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetTrimmed:
    """Some of its tasks cannot land with the others; these go back, the rest is built and checked again."""

    changeset: str
    tasks: tuple[str, ...]  # the culprits
    waiting: tuple[str, ...]  # members that are built on a culprit: they wait, without blame
    reason: str
    paths: tuple[str, ...] = ()  # of a conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetConflicted:
    """Git cannot merge it by itself, and a merger agent is to try."""

    changeset: str
    conflict: Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictResolved:
    """A merger brought both sides together; the changeset is built and checked again with that."""

    changeset: str
    resolution: Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetJudged:
    changeset: str
    choice: str  # approve | reject | skip | defer
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseMoved:
    """Somebody else moved the base branch between building and landing: build again."""

    changeset: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    changeset: str
    before: str
    after: str
    checkout: str = ""  # what became of the person's checkout of the base branch


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestOpened:
    """The changeset was pushed and proposed; the base branch was not moved by us."""

    changeset: str
    commit: str
    branch: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingUndone:
    """A person took a landing back: a new commit on the base branch reverts it."""

    changeset: str
    before: str
    after: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOpened:
    gate: Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAnswered:
    gate: str
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class GateWithdrawn:
    """What it asked about has settled itself: an answer would come too late."""

    gate: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRan:
    hook: str
    key: str
    exit_code: int
    output: str = ""
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnded:
    cycle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    outcome: str  # completed | stopped | plan_rejected | max_cycles | planning_failed | abandoned
    reason: str = ""


Event: TypeAlias = (
    SessionOpened
    | OrchestratorStarted
    | StopRequested
    | OrchestratorStopped
    | PlanProposed
    | PlanFailed
    | PlanApproved
    | ReplanRequested
    | CycleStarted
    | WaveStarted
    | ProceedRequested
    | ConfigDrifted
    | ConfigAdopted
    | ConfigKept
    | BudgetRaised
    | BudgetWarned
    | SlotsChanged
    | TaskMoved
    | TaskEdited
    | TasksImported
    | EditRefused
    | EditDismissed
    | AttemptIntended
    | AttemptStarted
    | AttemptStalled
    | AttemptCancelled
    | AttemptNearsBudget
    | OverlapSeen
    | RuntimeParked
    | RuntimeResumed
    | AttemptEnded
    | Checked
    | VerdictGiven
    | ChangesetsFormed
    | ChangesetBuilt
    | ChangesetEvicted
    | ChangesetTrimmed
    | ChangesetConflicted
    | ConflictResolved
    | ChangesetJudged
    | BaseMoved
    | Landed
    | PullRequestOpened
    | LandingUndone
    | GateOpened
    | GateAnswered
    | GateWithdrawn
    | HookRan
    | CycleEnded
    | SessionEnded
)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An event as the journal holds it."""

    seq: int
    at: float
    event: Event
