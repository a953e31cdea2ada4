"""The Session: the one projection of the journal, with the indexes that keep a decision cheap.

Only `session/replay.apply_event` changes it; everything else reads it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt, AttemptRecord, Duty, find_usual_duty
from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.event import (
    ConfigDrifted,
    CurationProposed,
    EnvironmentFailed,
    FixRequested,
    LessonsGiven,
    PlanProposed,
    RuntimeParked,
    VerdictGiven,
)
from blueflame.model.exit_codes import ExitCode, choose_exit_code
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.limits import REVIEWED, Limits, SlotWait
from blueflame.model.seat import Seat
from blueflame.model.sizing import Triage
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.model.task import FINISHED, Assignment, Task, TaskCommit, TaskRecord, TaskState
from blueflame.model.verdict import Check
from blueflame.model.workflow import Stage, Workflow
from blueflame.session.next_try import choose_assignment
from blueflame.session.scheduling.ready_queue import ReadyQueue
from blueflame.session.scheduling.settled_groups import SettledGroups
from blueflame.session.scheduling.stage_queue import StageQueue
from blueflame.session.scheduling.verified_work import UnmergedWork


class Phase(StrEnum):
    PLANNING = "planning"
    WORKING = "working"
    ENDED = "ended"


ACTIVE_STATES = frozenset(
    {ChangesetState.FORMED, ChangesetState.CONFLICTED, ChangesetState.BUILT, ChangesetState.APPROVED}
)
POSTPONED = frozenset({ChangesetState.SKIPPED, ChangesetState.DEFERRED})


@dataclass(frozen=True, slots=True)
class HookDue:
    name: str
    key: str
    subject: str = ""


@dataclass(slots=True, kw_only=True)
class Session:
    id: str
    request: str
    project: str
    base_branch: str
    base_sha: str
    workflow: Workflow
    limits: Limits
    config_digest: str
    opened_at: float
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings of the command line, by their keys
    filters: tuple[str, ...] | None = None  # of the person's git, when it was opened
    seq: int = 0
    last_at: float = 0.0
    phase: Phase = Phase.PLANNING
    outcome: str = ""
    outcome_reason: str = ""
    stopping: str = ""
    stop_now: bool = False

    halted: dict[str, None] = field(default_factory=dict)  # attempts that end because the session was stopped

    triage: Triage | None = None  # None in journals of earlier versions, and where triage is off
    one_agent: Workflow | None = None  # what a person can choose instead of a plan
    direct: Workflow | None = None  # what an agent that sizes the request can choose for an obvious change

    plan: PlanProposed | None = None
    rejected_plan: tuple[Task, ...] = ()
    plan_before: tuple[Task, ...] = ()  # the plan that was shown before the present one: edited or rejected
    plan_round: int = 0
    plan_failures: tuple[str, ...] = ()
    replan_notes: tuple[str, ...] = ()
    plan_approved_at: float | None = None

    cycle: int = 0
    cycle_open: bool = False
    wave: str = ""
    position: int = -1  # of the wave, in `Workflow.task_stages`; -1 before the first
    proceeding: bool = False
    proceeded: bool = False  # a person asked for it in this cycle: no further tasks are started in it
    work_waves: int = 0  # waves of this cycle in which agents made something
    redoing: bool = False  # commits of tasks are gone: with a barrier, work comes again in this cycle

    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    states: dict[TaskState, dict[str, None]] = field(default_factory=lambda: {state: {} for state in TaskState})
    fixes: dict[str, FixRequested] = field(default_factory=dict)  # urgent tasks -> what they fix
    task_ranks: dict[str, tuple[bool, int]] = field(default_factory=dict)
    """For reviews: fixes first, each task after what it depends on."""
    queue: ReadyQueue = field(default_factory=lambda: ReadyQueue(()))
    unmerged: UnmergedWork = field(default_factory=UnmergedWork)  # verified work that has not landed, by its locks
    built_upon: dict[str, dict[str, None]] = field(default_factory=dict)  # task -> tasks built on its commit
    dependants: dict[str, tuple[str, ...]] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # cohesion group -> its tasks
    settled: SettledGroups = field(default_factory=lambda: SettledGroups({}))

    attempts: dict[str, AttemptRecord] = field(default_factory=dict)
    live: dict[str, Attempt] = field(default_factory=dict)
    live_by_duty: dict[Duty, int] = field(default_factory=dict)
    seats: dict[str, Seat] = field(default_factory=dict)  # the team: those of earlier sessions, then new ones
    split_folders: frozenset[str] = frozenset()  # that hold several domains
    seat_of: dict[tuple[str, str], str] = field(default_factory=dict)  # (task, role) -> who had it last
    last_of_seat: dict[str, str] = field(default_factory=dict)  # seat -> its newest attempt that makes
    attempts_on: dict[tuple[str, str], int] = field(default_factory=dict)  # (subject, stage or role) -> how many so far
    last_work: dict[str, str] = field(default_factory=dict)  # task -> the newest attempt that makes it
    losses: dict[tuple[str, Duty], int] = field(default_factory=dict)  # (subject, duty) -> how many in a row
    reserved: Spend = NO_SPEND
    curation: CurationProposed | None = None
    shared: LessonsGiven | None = None  # what of earlier sessions all attempts are given, as chosen for the first one

    checks: dict[str, tuple[Check, ...]] = field(default_factory=dict)  # task -> diagnostics of its present result
    to_check: StageQueue = field(default_factory=StageQueue)
    to_review: StageQueue = field(default_factory=StageQueue)
    to_continue: StageQueue = field(default_factory=StageQueue)  # made in part, and to be made further

    changesets: dict[str, ChangesetRecord] = field(default_factory=dict)
    merging: dict[str, int] = field(default_factory=dict)  # changesets not yet judged and landed -> their place
    conflicted: dict[str, None] = field(default_factory=dict)  # those of them that wait for a merger
    approved: dict[str, None] = field(default_factory=dict)
    postponements: dict[str, int] = field(default_factory=dict)  # task -> skipped or deferred changesets it was in
    changeset_of: dict[str, str] = field(default_factory=dict)
    landings: tuple[str, ...] = ()
    proposed: dict[str, None] = field(default_factory=dict)  # tasks in pull requests: done, but not on the base
    taken_off: frozenset[str] = frozenset()  # tasks that had landed, until a person replaced the base

    gates: dict[str, Gate] = field(default_factory=dict)
    open_gates: dict[str, Gate] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    withdrawn: dict[str, str] = field(default_factory=dict)  # gate -> why it needs no answer any more
    gate_counts: dict[tuple[GateKind, str], int] = field(default_factory=dict)
    gate_subjects: dict[tuple[GateKind, str], str] = field(default_factory=dict)  # open gates by what they ask about
    gate_kinds: dict[GateKind, int] = field(default_factory=dict)  # how many of each are open

    hooks_due: dict[str, HookDue] = field(default_factory=dict)
    hooks_ran: dict[str, int] = field(default_factory=dict)

    spend: Spend = NO_SPEND
    spend_by_role: dict[str, Spend] = field(default_factory=dict)
    spend_by_subject: dict[str, Spend] = field(default_factory=dict)
    spent_by: list[tuple[float, Spend]] = field(default_factory=list)  # after each ending: the time and the sum so far
    budget_warned: bool = False
    day_raised: tuple[str, int] | None = None  # the day whose limit was raised, and the limit
    day_warned: tuple[str, int] | None = None  # the day and the limit of the last warning
    parked: dict[str, RuntimeParked] = field(default_factory=dict)  # runtime -> why no agent is started with it
    tried_at: dict[str, float] = field(default_factory=dict)  # runtime -> when a person last asked to try again
    outages: dict[str, int] = field(default_factory=dict)  # runtime -> how many in a row
    problems: dict[str, EnvironmentFailed] = field(default_factory=dict)  # act -> why we could not do it
    retrying: dict[str, str] = field(default_factory=dict)  # those of them that are being tried again: who asked for it
    waiting: dict[str, float] = field(default_factory=dict)  # task -> when it may be tried again
    unbuildable: dict[str, tuple[TaskCommit, ...]] = field(default_factory=dict)  # task -> foundations that conflict
    overlaps: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)  # two live attempts -> path -> kind
    edits_seen: frozenset[str] = frozenset()  # versions of the tasks file that were imported or dismissed
    slots: int | None = None  # workers at once, when the machine can run fewer than configured
    awaited: dict[str, SlotWait] = field(default_factory=dict)  # role -> why its agents get no slot of the house's pool

    drift: ConfigDrifted | None = None
    drift_kept: frozenset[str] = frozenset()

    def list_in_state(self, *states: TaskState) -> tuple[str, ...]:
        """Return the ids of the tasks in any of these states, in id order."""
        return tuple(sorted(name for state in states for name in self.states[state]))

    def count_in_state(self, *states: TaskState) -> int:
        return sum(len(self.states[state]) for state in states)

    def count_running(self, duty: Duty) -> int:
        return self.live_by_duty.get(duty, 0)

    def is_asking(self, kind: GateKind, subject: str | None = None) -> bool:
        """Whether a gate of this kind (and about this subject) is open."""
        if subject is not None:
            return (kind, subject) in self.gate_subjects
        return self.gate_kinds.get(kind, 0) > 0

    @property
    def unfinished(self) -> tuple[str, ...]:
        return tuple(name for name, record in sorted(self.tasks.items()) if record.state not in FINISHED)

    @property
    def all_finished(self) -> bool:
        return self.count_in_state(*FINISHED) == len(self.tasks)

    @property
    def ended(self) -> bool:
        return self.phase is Phase.ENDED

    @property
    def exit_code(self) -> ExitCode:
        """Of its process. A session without a plan has landed nothing, although it has no unfinished task; a curation
        has no tasks, and has failed if its agent has proposed nothing of use."""
        curated = self.workflow.curates and not (self.curation and self.curation.problem)
        all_landed = self.all_finished if self.tasks else curated
        hindered = bool(self.problems or self.parked)
        return choose_exit_code(self.outcome or None, all_landed=all_landed, hindered=hindered)

    def count_lost(self, attempt: Attempt) -> int:
        """Count the last attempts of the same duty at the same subject that were lost, one after the other."""
        return self.losses.get((attempt.subject, attempt.duty), 0)

    def sum_spend_since(self, at: float) -> Spend:
        """Sum what attempts that have ended since then cost."""
        n = bisect_left(self.spent_by, at, key=lambda entry: entry[0])
        return self.spend - self.spent_by[n - 1][1] if n else self.spend

    def find_next_try(self, subject: str, key: str) -> int:
        return self.attempts_on.get((subject, key), 0) + 1

    def find_workflow(self, task: Task) -> Workflow:
        """Return the workflow of a task: what the plan chose for it, else that of the session."""
        return self.limits.find_task_workflow(task, self.workflow)

    def find_review_threshold(self, task: Task) -> float | None:
        """Return the confidence that an agent's verdict on the task needs to pass."""
        chosen = self.limits.task_workflows.get(task.workflow or "")
        return self.limits.review_threshold if chosen is None else chosen.review_threshold

    def list_used_settings(self) -> Mapping[str, frozenset[str]]:
        """Return the roles that can have an attempt in this session, and its workflows, by their section."""
        found = (self.workflow, self.one_agent, self.direct, *self.limits.task_workflows.values())
        workflows = [workflow for workflow in found if workflow is not None]
        roles = frozenset(stage.role for workflow in workflows for stage in workflow.steps)
        return {"roles": roles, "workflows": frozenset(workflow.name for workflow in workflows)}

    def find_duty(self, role: str) -> Duty:
        """Return the duty of a role in the workflows of the session."""
        workflows = (self.workflow, *self.limits.task_workflows.values())
        found = (stage.duty for workflow in workflows for stage in workflow.steps if stage.role == role)
        return next(found, find_usual_duty(role))

    def find_stage(self, task: str) -> Stage:
        """Return the stage that a task is in, or waits for."""
        record = self.tasks[task]
        return self.find_workflow(record.task).task_stages[record.stage]

    def is_parked(self, task: str) -> bool:
        """Whether the model is unavailable for the next attempt at a task; it does not hold up others."""
        return self.choose_agent(self.find_stage(task), task).runtime in self.parked

    def choose_agent(self, stage: Stage, subject: str) -> Assignment:
        """Choose the role, the model and the runtime of the next attempt at a subject."""
        if stage.duty is Duty.MAKE:
            return choose_assignment(self.limits, stage.role, self.tasks[subject])
        limits, role = self.limits, stage.role
        return Assignment(role=role, model=limits.get_model(role), runtime=limits.get_runtime(role))

    def is_stage_open(self, position: int) -> bool:
        """Whether tasks may enter the stage: with a barrier one stage at a time is open, without it all of them."""
        return self.cycle_open and (self.position == position or not self.workflow.barrier)

    def list_open(self, queue: StageQueue) -> Iterator[str]:
        """List the tasks of a queue whose stage is open, in rank order."""
        if not self.cycle_open:
            return iter(())
        return queue.list_at(self.position) if self.workflow.barrier else queue.list_all()

    def is_merge_open(self) -> bool:
        stages = self.workflow.task_stages
        return stages[-1].duty is Duty.MERGE and self.is_stage_open(len(stages) - 1)

    def find_live_attempt(self, subject: str, duty: Duty = Duty.MAKE) -> Attempt | None:
        return next((a for a in self.live.values() if a.subject == subject and a.duty is duty), None)

    def list_waiting_for_answer(self) -> tuple[str, ...]:
        """Return the tasks whose agent has ended with a question that is open; they keep their locks."""
        if not self.gate_kinds.get(GateKind.CLARIFICATION, 0):
            return ()
        at_work = {attempt.subject for attempt in self.live.values() if attempt.duty is Duty.MAKE}
        return tuple(name for name in self.states[TaskState.CLAIMED] if name not in at_work)

    def find_last_work(self, task: str) -> AttemptRecord | None:
        """Return the newest attempt that makes the task."""
        name = self.last_work.get(task)
        return None if name is None else self.attempts[name]


def is_judged(session: Session, record: TaskRecord) -> bool:
    """Whether the task is in a judging stage."""
    begun = record.state in (TaskState.DONE, TaskState.PARTIAL)
    return begun and session.find_workflow(record.task).task_stages[record.stage].duty is Duty.JUDGE


def may_be_left_as_it_was(session: Session, record: TaskRecord) -> bool:
    """Whether others make something of a task at whose stage nothing is made. Otherwise that stage has failed."""
    made_before = record.start is not None and record.start.sha != record.start.base
    return made_before or not session.find_workflow(record.task).is_made(record.stage)


def is_workflow_changed(record: TaskRecord, task: Task) -> bool:
    """Whether an edit gives a task that has begun another workflow: its position is one in its own."""
    return record.attempts > 0 and task.workflow != record.task.workflow


def find_making_stage(session: Session, record: TaskRecord) -> int:
    """Return where a task is made that is now judged."""
    return session.find_workflow(record.task).find_making_stage(record.stage)


def is_about_result(session: Session, event: VerdictGiven) -> bool:
    """Whether a verdict is about the present result of a task, in its present stage."""
    record = session.tasks[event.task]
    same = record.result is not None and record.result.sha == event.sha
    return same and is_judged(session, record) and event.stage in ("", session.find_stage(event.task).key)


def list_judged(session: Session) -> tuple[str, ...]:
    """Return the tasks in a judging stage, in id order."""
    names = session.list_in_state(TaskState.DONE, TaskState.PARTIAL)
    return tuple(name for name in names if is_judged(session, session.tasks[name]))


def list_stages_ahead(session: Session) -> Sequence[int]:
    """Return the positions after the current wave; all of them before the first wave.

    Where dependents wait for a verdict, it can let more tasks start: work comes again after the last verdicts. So it
    does where a task is made in several stages: others waited for its locks until the last of them. It also comes
    again when work is gone.
    """
    stages = session.workflow.task_stages
    every = range(len(stages))
    if session.position < 0:
        return every
    ahead = every[session.workflow.find_next_position(session.position) :]
    waits = session.limits.dependents == REVIEWED and stages[session.position].duty is Duty.JUDGE
    several = not session.workflow.is_made(0)
    is_last = all(stages[n].duty is Duty.MERGE for n in ahead)
    again = session.redoing or (is_last and (waits or several))
    return every if again and not session.proceeded else ahead


def build_validation_key(session: Session) -> str:
    """The key of the pre_validation hook in a workflow with a barrier: one for each time that results are validated."""
    return f"pre_validation:{session.cycle}" + (f":{session.work_waves}" if session.work_waves > 1 else "")
