"""One agent's work on one subject: a task, the plan, a review, a merge."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.hand_off import HandOff
from blueflame.model.memory import GivenLesson
from blueflame.model.seat import Allocation
from blueflame.model.spend import NO_SPEND, UNLIMITED, Budget, Ceiling, Spend
from blueflame.model.task import TaskCommit
from blueflame.model.verdict import Violation

TRIAGER, PLANNER, WORKER, VALIDATOR, MERGER = "triager", "planner", "worker", "validator", "merger"
CURATOR = "curator"
SIZE_SUBJECT, PLAN_SUBJECT, CURATION_SUBJECT = "size", "plan", "curation"


class Duty(StrEnum):
    """What a role is for. All that is decided about an attempt follows from it, never from the name of its role."""

    SIZE = "size"  # answers with the size of a request
    PLAN = "plan"  # answers with a plan
    MAKE = "make"  # commits
    JUDGE = "judge"  # answers with a verdict on a commit
    MERGE = "merge"  # resolves a conflict: commits, and answers with a verdict
    CURATE = "curate"  # answers with changes of the knowledge files


USUAL_ROLES: Mapping[Duty, str] = {
    Duty.SIZE: TRIAGER,
    Duty.PLAN: PLANNER,
    Duty.MAKE: WORKER,
    Duty.JUDGE: VALIDATOR,
    Duty.MERGE: MERGER,
    Duty.CURATE: CURATOR,
}
"""The built-in role of each duty."""

COMMITTING = frozenset({Duty.MAKE, Duty.MERGE})
"""Duties whose results are commits; the others only read and answer."""

WITHOUT_TASK = frozenset({Duty.SIZE, Duty.PLAN, Duty.CURATE})
"""Duties that are about the request, before there is a task."""


def find_usual_duty(role: str) -> Duty:
    """Return the duty of a built-in role; other roles make."""
    return next((duty for duty, usual in USUAL_ROLES.items() if usual == role), Duty.MAKE)


class Ending(StrEnum):
    """How an attempt ended, decided by exit code, commits and checks; never by the agent's own claim."""

    PASSED = "passed"
    NOTHING_TO_DO = "nothing_to_do"  # no commit, at a stage that may leave the task to others as it was
    FAILED = "failed"  # non-zero exit
    CRASHED = "crashed"  # ended by a signal of its own doing; a program that is not the agent's own: `environment`
    TIMEOUT = "timeout"
    STALLED = "stalled"
    BUDGET = "budget"
    NO_COMMITS = "no_commits"  # exit 0, but no commit
    BAD_OUTPUT = "bad_output"  # the structured output is missing or breaks its schema
    POSTCHECK = "postcheck"  # the result breaks the policy
    UNWATCHED = "unwatched"  # the watcher was not live, or did not see every tool call
    RESOURCES = "resources"  # more memory, processes or disk than the sandbox allows
    OUTAGE = "outage"  # the model could not be reached: a rate limit, an overload, no network
    ACCOUNT = "account"  # the provider refuses the account: its login, its credit or the model
    SETUP = "setup"  # a setup command failed
    ENVIRONMENT = "environment"  # it could not be started, or its program asked its model nothing, or crashed
    QUESTION = "question"  # it asks a person and has ended: the next attempt gets the answer
    CONFLICT = "conflict"  # what it was to build on cannot be merged: it waits until that has changed
    CANCELLED = "cancelled"  # a person or a stop ended it
    LOST = "lost"  # killed from outside, or its warden was


PASSING = frozenset({Ending.PASSED, Ending.NOTHING_TO_DO})
"""Endings after which a stage is done."""

UNAVAILABLE = frozenset({Ending.OUTAGE, Ending.ACCOUNT})
"""Endings after which the runtime is parked (session/rate_limits)."""

BLAMELESS = frozenset(
    {Ending.CANCELLED, Ending.LOST, Ending.ENVIRONMENT, Ending.CONFLICT, Ending.QUESTION, *UNAVAILABLE}
)
"""Endings that say nothing about the work: the task is tried again and no retry is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The earlier work that an attempt continues: the commits from `base` to `tip`."""

    attempt: str
    base: str
    tip: str
    unfinished: str | None = None  # a commit of ours on `tip`, with what was not committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is intended, journalled before anything is started."""

    id: str
    session: str
    subject: str
    role: str
    n: int
    agent_id: str
    cycle: int = 0
    slot: int = 0  # unique among live attempts: it selects their port block
    branch: str | None = None
    built_on: tuple[TaskCommit, ...] = ()
    model: str = ""
    runtime: str = "scripted"
    budget: Budget = UNLIMITED
    ceilings: tuple[Ceiling, ...] = ()  # what its task, the session and the day leave to it, each in its own unit
    timeout: float = 300.0
    interactive: bool = False  # it talks with the person in their terminal
    continues: Continuation | None = None  # None: it starts from its base
    declared_duty: Duty | None = None  # None in journals of earlier versions, which had only the built-in roles
    stage: int | None = None  # the position in `Workflow.task_stages`; None for a plan or a conflict
    key: str = ""  # of its stage, in names of branches and refs; "" as above
    rung: int = 0  # of the ladder, from 1; 0: a usual attempt
    unguarded: str = ""  # which wall it does not have, in words; "" when all stand, and in earlier journals
    allocation: Allocation | None = None  # who makes it; None for a plan or a conflict, and in earlier journals
    ad_hoc: bool = False  # a person let it start beside the agents of its role that the house's pool has

    @property
    def duty(self) -> Duty:
        return self.declared_duty or find_usual_duty(self.role)

    @property
    def seat(self) -> str:
        """The name of the seat that makes it; "" for none."""
        return self.allocation.seat if self.allocation else ""

    @property
    def label(self) -> str:
        """Its name in ids: that of its stage, or its role."""
        return self.key or self.role


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """How an attempt ended."""

    ending: Ending
    exit_code: int | None = None
    notes: str = ""
    base: str | None = None
    tip: str | None = None
    commits: int = 0
    subject: str = ""  # of the last commit
    violations: tuple[Violation, ...] = ()
    unfinished: str | None = None  # a commit of ours with what it had not committed
    defied: tuple[str, ...] = ()  # calls that the watcher refused and the agent made nevertheless
    put_back: tuple[str, ...] = ()  # files that its commits no longer change: a setup command did, and it may not
    output: Mapping[str, Any] | None = None
    spend: Spend = NO_SPEND
    seconds: float = 0.0  # of work: without those that it waited, except in earlier journals
    waited: float = 0.0  # seconds, for a person's answer or for its model
    cause: str = ""
    """Whose budget was used up: attempt, task, session, day. Or what failed: rate_limit, outage, network, or of the
    account login, credit, model, unsupported. Or unwatched, when calls were not judged and it is lost for that."""
    context_tokens: int = 0  # of its conversation; 0 if that cannot be continued
    hand_off: HandOff | None = None  # to the next stage; None for plans and merges, and in earlier journals

    @property
    def passed(self) -> bool:
        return self.ending in PASSING

    @property
    def remark(self) -> str:
        """What a person should know, also if it passed; empty if there is nothing."""
        defied = f"did what the watcher refused: {'; '.join(self.defied)}" if self.defied else ""
        names = ", ".join(self.put_back)
        reset = f"committed what a setup command had changed, which was put back: {names}" if names else ""
        return "; it ".join(filter(None, (defied, reset)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """What a person wrote to a running agent."""

    text: str
    by: str
    at: float
    delivered_at: float | None = None
    gate: str = ""  # the clarification that it answers; "" for `blueflame say`


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    attempt: Attempt
    intended_at: float
    started_at: float | None = None
    ended_at: float | None = None
    ended: AttemptOutcome | None = None
    stalled_at: float | None = None  # when its present silence was reported, or a person chose to wait
    cancel_reason: str = ""
    cancelled_for_silence: bool = False
    restarts: bool = False  # it was ended so that its task starts again at once
    near_budget: bool = False  # a warning has been given
    messages: tuple[SentMessage, ...] = ()
    questions: int = 0  # that it has asked
    lessons: tuple[GivenLesson, ...] | None = None  # that it is given; None if nothing was recorded
    base: str | None = None
    worktree: str | None = None
    inside: str | None = None  # where the agent sees it, if elsewhere
    warden_pid: int | None = None

    @property
    def live(self) -> bool:
        return self.ended is None

    @property
    def ending_words(self) -> str:
        """How it ended, for people; "waiting" for one that waits to be started."""
        if self.ended is not None:
            return self.ended.ending.value.replace("_", " ")
        return "waiting" if self.started_at is None else "running"
