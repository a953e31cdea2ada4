"""What happened. The journal is a list of events; every other view is derived from it.

Names are facts in the past tense. An event holds what is needed to apply it and nothing that can be derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt, AttemptOutcome
from blueflame.model.changeset import Build, Changeset, Conflict, Resolution
from blueflame.model.gate import Answer, Gate
from blueflame.model.limits import Limits, SlotWait
from blueflame.model.memory import GivenLesson, KnowledgeEdit
from blueflame.model.question import Question
from blueflame.model.seat import NEW_TEAM, Team
from blueflame.model.sizing import Triage
from blueflame.model.spend import Unit
from blueflame.model.task import Assignment, Cause, FixedWork, HistoryEntry, Result, Task
from blueflame.model.verdict import Check, Verdict
from blueflame.model.workflow import Workflow

# --- the session and its orchestrator


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
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings of the command line, by their keys
    team: Team = NEW_TEAM  # that earlier sessions left
    request_id: str = ""  # of the house that started it; a request has at most one session
    filters: tuple[str, ...] | None = None  # of the person's git; None: a session of a version that recorded none


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStarted:
    """A process began to run the session: the first time, or after a stop or a crash."""

    pid: int
    host: str = ""
    version: str = ""
    missing: tuple[str, ...] = ()  # tasks and changesets whose commits are no longer in the repository
    degraded: str = ""  # what does not hold agents on this machine; empty when everything does
    lost: str = ""  # what the journal has lost; empty for nothing
    client: str = ""  # which MCP client asked for it, for whom; empty for a command that a person gave
    answered: tuple[str, ...] = ()  # gates whose answers were sent while no process ran, and are taken next


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    reason: str
    now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStopped:
    """Stopped cleanly; the session can be resumed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    outcome: str  # completed | stopped | plan_rejected | max_cycles | planning_failed | abandoned
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSized:
    """How much machinery the request needs: decided when the session was opened, by an agent, or at the gate."""

    triage: Triage
    workflow: Workflow | None = None  # the session continues with this one; None: that of SessionOpened
    one_agent: Workflow | None = None  # what a person can choose instead of a plan
    direct: Workflow | None = None  # what an agent that sizes can choose for an obvious change


# --- cycles and waves


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleStarted:
    cycle: int
    base_sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveStarted:
    cycle: int
    stage: str
    position: int | None = None  # in `Workflow.task_stages`; None in journals of earlier versions: by the name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProceedRequested:
    """A person asked to continue with what is done."""

    by: str
    kill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnded:
    cycle: int


# --- the plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProposed:
    round: int
    tasks: tuple[Task, ...]
    origin: str  # planner | file | edit | fix
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFailed:
    """The planner's output is not a plan."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApproved:
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationProposed:
    """How an agent would change the knowledge files; nothing is changed before a person agrees."""

    attempt: str
    edits: tuple[KnowledgeEdit, ...] = ()
    refused: tuple[str, ...] = ()  # changes that may not be made, each with the reason
    problem: str = ""  # why there is no proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeCurated:
    """What the rules of curation did to the knowledge files since the process started; recorded when it ends, after
    the end of the session if that has ended."""

    steps: tuple[str, ...]  # the first of them
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRequested:
    notes: str


# --- configuration, budgets and slots


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDrifted:
    """The configuration on disk differs from the one the session runs with."""

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
    """The machine can run fewer workers than configured, or all of them again."""

    slots: int
    configured: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAwaited:
    """An agent of a role waits for a slot of the house's pool; None: it does not need one any more."""

    role: str
    wait: SlotWait | None


# --- tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMoved:
    task: str
    cause: Cause
    reason: str = ""
    result: Result | None = None
    history: HistoryEntry | None = None
    scratch: bool = False  # the next attempt starts from the base, without the earlier work
    stage: int | None = None  # the position it goes to; None: sent back to the first, handed over to the next
    keeps_retries: bool = False  # a new cycle gives it another attempt, but not all of its retries again
    counts: bool = False  # as a retry: it starts again because its work did not pass
    assigned: Assignment | None = None  # who makes it from now on
    until: float = 0.0  # of a retry: it does not begin before this moment; 0: at once
    granted: bool = False  # a person asked for one more attempt at this task: it may begin above the ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffEnded:
    """The wait before a retry is over: the task may be tried again."""

    task: str
    by: str = ""  # who asked for it; empty when its time had come


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEdited:
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksImported:
    """A person changed the tasks: between two cycles in the exported file, or added some from another terminal."""

    digest: str  # of the file; "" without one
    added: tuple[Task, ...] = ()
    edited: tuple[Task, ...] = ()
    dropped: tuple[str, ...] = ()
    by: str = ""  # who added them; "" for the file


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRequested:
    """A person found a fault in work that is running or has landed. The task that fixes it goes before all others."""

    task: str  # recorded before the task itself
    work: FixedWork
    wrong: str
    by: str = ""


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
    attempt: str = ""  # of the agent that judged; "" for checks, hooks and people
    stage: str = ""  # where; "" in journals of earlier versions


# --- attempts and their runtimes


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptIntended:
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonsGiven:
    """What of earlier sessions an attempt is given, recorded before it starts: by keys, so that what a person makes us
    forget is gone."""

    attempt: str  # "": all attempts of the session
    lessons: tuple[GivenLesson, ...]
    nonce: str = ""  # of the delimiters around what all attempts are given


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    attempt: str
    base: str | None
    worktree: str | None
    warden_pid: int
    inside: str | None = None  # where the agent sees its checkout; None in journals of earlier versions


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStalled:
    """No output for longer than limits.stall_timeout; recorded once for each silence."""

    attempt: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNearsBudget:
    """It has used the share of its budget at which a warning is due; recorded once."""

    attempt: str
    used: int
    limit: int
    unit: Unit = Unit.USD
    budget: str = "attempt"  # attempt | task | session | day: whose budget it is


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """An agent asked a person: it waits for the answer, or has ended and the next attempt gets it."""

    attempt: str
    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSent:
    """A person wrote to a running agent. The messages of an attempt are counted from 1."""

    attempt: str
    text: str
    by: str
    gate: str = ""  # the clarification that it answers


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelivered:
    """The agent was given the message."""

    attempt: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUndelivered:
    """The agent ended before it could be given the message."""

    attempt: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCancelled:
    """The attempt is to end; AttemptEnded says that it did."""

    attempt: str
    reason: str
    stalled: bool = False  # ended because it was silent: counts as a failure, which may be retried
    restarts: bool = False  # its task starts again in the same cycle, as soon as its locks are free


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    attempt: str
    ended: AttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapSeen:
    """Two running attempts change the same file, or the same lines; recorded once for each pair, path and kind."""

    tasks: tuple[str, str]
    attempts: tuple[str, str]
    paths: tuple[str, ...]
    kind: str  # file | lines


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeParked:
    """The model is unavailable: agents of this runtime wait, and no new one is started. Recorded once for all."""

    runtime: str
    kind: str  # rate_limit | outage | network, or of the account: login | credit | model | unsupported
    reason: str
    until: float | None = None  # when the provider says that it ends; None when unknown
    agents: int = 0  # how many of them wait
    outages: int = 0  # how many times in a row agents have given up; 0 when none has


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeResumed:
    runtime: str
    reason: str = ""
    by: str = ""  # who asked to try again now; empty when it ended by itself


# --- the environment: what we could not do ourselves


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFailed:
    """An act of our own failed (git, disk, sandbox, a lock): no task's fault. It is held, and tried again later."""

    act: str  # "worker of task-001", "landing of cs-002"
    cause: str  # see session/environment.CAUSE_WORDS
    reason: str
    until: float = 0.0  # when it is tried again
    times: int = 1  # in a row


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRetried:
    """The act is tried again."""

    act: str
    by: str = ""  # who asked for it; empty when its time had come


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecovered:
    """The act succeeded, or is not needed any more."""

    act: str


# --- changesets and landing


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetsFormed:
    changesets: tuple[Changeset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanDelayed:
    """The search of a changeset for secrets takes long, or has ended after that."""

    changeset: str
    seconds: float
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetBuilt:
    changeset: str
    build: Build


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetEvicted:
    """It cannot land: a conflict, or checks that fail on the combined tree."""

    changeset: str
    reason: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetTrimmed:
    """Some of its tasks cannot land with the others: they go back, the rest is built and checked again."""

    changeset: str
    tasks: tuple[str, ...]  # the culprits
    waiting: tuple[str, ...]  # members that are built on a culprit: they wait, and no retry is counted
    reason: str
    paths: tuple[str, ...] = ()  # of a conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetConflicted:
    """Git cannot merge it, and a merger agent is to try."""

    changeset: str
    conflict: Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictResolved:
    """A merger resolved the conflict; the changeset is built and checked again."""

    changeset: str
    resolution: Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetJudged:
    changeset: str
    choice: str  # approve | reject | skip | defer
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseMoved:
    """The base branch was moved between building and landing, or by a landing that changes a conflict: build again."""

    changeset: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLost:
    """The base branch was deleted or renamed (`found` is empty), or no longer contains what was built on."""

    branch: str
    expected: str
    found: str = ""
    related: bool = False  # what was found shares history with what was expected, so work can be merged onto it
    without: tuple[str, ...] = ()  # changesets that had landed, and whose changes are not in what was found
    gone: tuple[str, ...] = ()  # those of them whose commits are not even in the repository: it is an older copy


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseAdopted:
    """A person chose to go on from a replaced base branch."""

    sha: str
    without: tuple[str, ...] = ()  # changesets that had landed, and have not any more
    gone: tuple[str, ...] = ()  # those of them that nothing can be built on: their commits are gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    changeset: str
    before: str
    after: str
    checkout: str = ""  # what was done with the person's checkout of the base branch


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestOpened:
    """The changeset was pushed and proposed; the base branch was not moved."""

    changeset: str
    commit: str
    branch: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingUndone:
    """A person undid a landing: a new commit on the base branch reverts it."""

    changeset: str
    before: str
    after: str
    by: str = ""


# --- gates and hooks


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOpened:
    gate: Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAnswered:
    gate: str
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class GateWithdrawn:
    """The question no longer matters: an answer would come too late."""

    gate: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRan:
    hook: str
    key: str
    exit_code: int
    output: str = ""
    timed_out: bool = False


Event: TypeAlias = (
    # the session and its orchestrator
    SessionOpened
    | OrchestratorStarted
    | StopRequested
    | OrchestratorStopped
    | SessionEnded
    | RequestSized
    # cycles and waves
    | CycleStarted
    | WaveStarted
    | ProceedRequested
    | CycleEnded
    # the plan
    | PlanProposed
    | PlanFailed
    | PlanApproved
    | ReplanRequested
    # configuration, budgets and slots
    | ConfigDrifted
    | ConfigAdopted
    | ConfigKept
    | BudgetRaised
    | BudgetWarned
    | SlotsChanged
    | SlotAwaited
    # tasks
    | TaskMoved
    | BackoffEnded
    | TaskEdited
    | TasksImported
    | FixRequested
    | EditRefused
    | EditDismissed
    | Checked
    | VerdictGiven
    # attempts and their runtimes
    | AttemptIntended
    | LessonsGiven
    | CurationProposed
    | KnowledgeCurated
    | AttemptStarted
    | AttemptStalled
    | AttemptNearsBudget
    | QuestionAsked
    | MessageSent
    | MessageDelivered
    | MessageUndelivered
    | AttemptCancelled
    | AttemptEnded
    | OverlapSeen
    | RuntimeParked
    | RuntimeResumed
    # the environment
    | EnvironmentFailed
    | EnvironmentRetried
    | EnvironmentRecovered
    # changesets and landing
    | ChangesetsFormed
    | ScanDelayed
    | ChangesetBuilt
    | ChangesetEvicted
    | ChangesetTrimmed
    | ChangesetConflicted
    | ConflictResolved
    | ChangesetJudged
    | BaseMoved
    | BaseLost
    | BaseAdopted
    | Landed
    | PullRequestOpened
    | LandingUndone
    # gates and hooks
    | GateOpened
    | GateAnswered
    | GateWithdrawn
    | HookRan
)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An event as the journal holds it."""

    seq: int
    at: float
    event: Event
