"""Limits of a session, compiled from the settings and journalled with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from math import isfinite

from blueflame.lazy_dataclass import dataclass
from blueflame.model.seat import ContextBudget
from blueflame.model.spend import NO_SPEND, UNLIMITED, Budget, Spend
from blueflame.model.task import Assignment, Task
from blueflame.model.workflow import Workflow

PASSED, REVIEWED = "passed", "reviewed"
"""When the dependents of a task may start: with a result that passed the postcheck, or that was also reviewed."""


MAX_WORKERS = 8
"""How many workers may run at once in one repository."""


class Hook(StrEnum):
    POST_PLAN = "post_plan"  # the plan was approved, nothing has started
    PRE_VALIDATION = "pre_validation"  # work is done and not reviewed yet: may veto
    POST_MERGE = "post_merge"  # a changeset landed
    ON_FAILURE = "on_failure"  # a task failed and has no retries left


@dataclass(frozen=True, slots=True)
class AttemptCostRange:
    """What one attempt of a role costs, in dollars."""

    low: float
    high: float
    attempts: int = 0  # how many recorded ones they are learned from; 0 for reference figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    workers: int = 4
    validators: int = 2
    max_retries: int = 2
    ladder: tuple[Assignment, ...] = ()  # who tries a task after its retries, one after the other
    max_attempts: int = 0  # that may fail or be sent back, of one task in the whole session; 0: any number
    on_exhausted: str = "fail"  # fail | ask: when a task has no retry left; settings have `ask`
    retry_wait: float = 0.0  # seconds before the first retry of a task, doubled for each further one
    validator_retries: int = 1
    max_cycles: int = 5
    max_replans: int = 3
    max_history: int = 10
    session_budget: Budget = UNLIMITED
    task_budget: Budget = UNLIMITED  # all attempts at one task, its reviews included
    day_budget: Budget = UNLIMITED  # all sessions of the repository, from midnight to midnight
    role_budgets: Mapping[str, Budget] = field(default_factory=dict)
    warn_threshold: float = 0.8
    role_timeouts: Mapping[str, float] = field(default_factory=dict)
    role_models: Mapping[str, str] = field(default_factory=dict)
    role_runtimes: Mapping[str, str] = field(default_factory=dict)
    makers: tuple[str, ...] = ()  # the roles with the duty to make
    group_validator_models: Mapping[str, str] = field(default_factory=dict)
    on_stall: str = "warn"  # warn | ask | kill
    on_rate_limit: str = "wait"  # wait | ask
    on_overlap: str = "warn"  # warn | ask | off
    max_questions: int = 0  # that the agents of one task may ask; older sessions had none
    question_wait: float = 0.0  # seconds; then the agent continues with its best guess. 0: without limit
    rate_limit_wait: float = 6 * 3600.0  # seconds; for a longer wait a person is asked in any case
    interactive_planning: bool = False
    on_validation_failed: str = "ask"  # ask | requeue | drop
    review_threshold: float | None = None  # the confidence that an agent's verdict needs to pass
    on_conflict: str = "merger"  # merger | requeue
    remote: str = ""  # that changesets are pushed to; "" where we land them, and in earlier journals
    retry_from: str = "scratch"  # scratch | continue; settings have `continue`, older sessions did not
    dependents: str = PASSED  # passed | reviewed
    hooks: tuple[str, ...] = ()  # the user hooks that are configured
    checks: tuple[str, ...] = ()  # the diagnostic commands
    allowed_paths: tuple[str, ...] = ()
    context_budget: ContextBudget | None = None  # of a seat's conversation; None: each task begins without one
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # configured: name -> patterns of its paths
    blocked_paths: tuple[str, ...] = ()
    task_models: tuple[str, ...] | None = None  # what a plan may choose; None: any, as in earlier versions
    task_workflows: Mapping[str, Workflow] = field(default_factory=dict)  # the same; a session keeps them
    unguarded: Mapping[str, str] = field(default_factory=dict)  # by runtime: which wall its agents do not have
    figures: Mapping[str, AttemptCostRange] = field(
        default_factory=dict
    )  # by role, as learned when the session was opened

    def find_task_workflow(self, task: Task, usual: Workflow) -> Workflow:
        """Return what the plan chose for a task, else the usual one."""
        return self.task_workflows.get(task.workflow or "", usual)

    def get_budget(self, role: str) -> Budget:
        return self.role_budgets.get(role, UNLIMITED)

    def get_timeout(self, role: str) -> float:
        return self.role_timeouts.get(role, 300.0)

    def get_model(self, role: str) -> str:
        return self.role_models.get(role, "")

    def get_runtime(self, role: str) -> str:
        return self.role_runtimes.get(role, "scripted")

    def find_task_limits(self, task: Task) -> Limits:
        """Return the limits with the retries of the workflow that the plan chose for a task, if it did."""
        chosen = self.task_workflows.get(task.workflow or "")
        if chosen is None:
            return self
        retries = self.max_retries if chosen.max_retries is None else chosen.max_retries
        return replace(self, max_retries=retries, retry_wait=chosen.retry_wait, ladder=chosen.ladder)

    @property
    def ladders(self) -> tuple[Assignment, ...]:
        """All rungs, those of workflows that a plan may choose included."""
        return (*self.ladder, *(rung for flow in self.task_workflows.values() for rung in flow.ladder))

    @property
    def most_retries(self) -> int:
        """Retries in a row, those on the ladder included."""
        return self.max_retries + len(self.ladder)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWait:
    """An agent that gets no slot of the pool now."""

    subject: str  # what it would work on
    reason: str
    project: str = ""
    ahead: int = 0  # how many wait before it
    seconds: float | None = None  # about how long; None if that is not known
    occupants: tuple[str, ...] = ()  # who has the slots that it waits for
    is_late: bool = False  # so many wait before it that people should know
    may_spawn: bool = False  # an ad hoc agent could start now, beside those of its role
    ad_hoc: bool = False  # it may be one
    for_money: bool = False  # it waits for the budget of the day

    @property
    def queue(self) -> str:
        """`about 15 min, 1 task ahead`"""
        tasks = "1 task" if self.ahead == 1 else f"{self.ahead} tasks"
        is_known = self.seconds is not None and isfinite(self.seconds)
        about = f"about {max(1, round((self.seconds or 0.0) / 60))} min" if is_known else ""
        return ", ".join(part for part in (about, f"{tasks} ahead" if self.ahead else "next in the queue") if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many agents the machine can run now; the configured concurrency is the other limit."""

    agents: int
    reason: str = ""
    day: str = ""  # the machine's local date
    locked: tuple[str, ...] = ()  # paths that people hold: no task begins there
    day_spend: Spend = NO_SPEND  # of all sessions of the repository since midnight, the present one's included
    waiting: Mapping[str, SlotWait] = field(default_factory=dict)  # role -> why its agents get no slot of the pool
