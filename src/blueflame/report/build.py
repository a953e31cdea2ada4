"""The report of a session as data, built from its journal.

One pass over the events finds what the Session does not keep: when a person was asked, which checks ran on which
commit, which incidents there were. Every list is bounded; what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from blueflame.lazy_dataclass import dataclass
from blueflame.model import event as happened
from blueflame.model.attempt import PASSING, AttemptRecord, Ending
from blueflame.model.changeset import ChangesetRecord
from blueflame.model.event import JournalEntry
from blueflame.model.gate import Gate
from blueflame.model.spend import NO_SPEND, Budget, Spend
from blueflame.model.task import TaskState
from blueflame.model.verdict import Check, StageVerdict
from blueflame.report.calibration import CalibrationRow
from blueflame.report.task_columns import TaskColumns, arrange_by_depth
from blueflame.report.timeline import Span, Timeline, lay_out
from blueflame.session.accounts import CostEntry, CostTotal, forecast_cost, sum_costs_by, sum_spend
from blueflame.session.estimate import CostRange
from blueflame.session.hand_offs import StageHandOff, list_hand_offs
from blueflame.session.landed_work import LandedWork, count_landed_work, describe_undoing
from blueflame.session.state import Session
from blueflame.text.event_lines import describe_event
from blueflame.text.seats import describe_seat
from blueflame.views.cost import rank_totals

MAX_INCIDENTS = 300
MAX_CHECKS = 1_000
MAX_DECISIONS = 500
MAX_ATTEMPTS = 2_000
COST_TABLES = ("role", "task", "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    id: str
    title: str
    group: str
    state: TaskState
    reason: str
    dependencies: tuple[str, ...]
    attempts: int
    failures: int
    spend: Spend
    seconds: float  # of agents' work
    changeset: str = ""  # the last one that it was in
    undone: bool = False  # it has landed, and a person took it back


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    id: str
    agent: str
    seat: str  # and why it was chosen
    role: str
    subject: str
    n: int
    runtime: str
    model: str
    began: float
    ended: float | None
    ending: Ending | None  # None while it runs
    seconds: float
    waited: float
    spend: Spend
    commits: int
    reason: str  # why it did not pass

    @property
    def passed(self) -> bool:
        return self.ending in PASSING


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    at: float
    subject: str  # a task, or the changeset that was built
    commit: str
    check: Check


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    at: float
    task: str
    given: StageVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    gate: Gate
    asked: float
    settled: float | None = None  # None: it waits for an answer
    choice: str = ""
    note: str = ""
    by: str = ""
    withdrawn: str = ""  # why no answer is needed any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    at: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    session: str
    project: str
    request: str
    base_branch: str
    base_before: str
    base_now: str
    workflow: str
    outcome: str  # "" while it has not ended
    reason: str
    work: LandedWork
    began: float
    until: float  # when it ended, or the moment of the report
    cycles: int
    spend: Spend
    budget: Budget
    foreseen: CostRange | None
    agent_seconds: float
    tasks: tuple[TaskRow, ...]
    attempts: tuple[AttemptRow, ...]
    checks: tuple[CheckRun, ...]
    verdicts: tuple[VerdictRow, ...]
    hand_offs: tuple[StageHandOff, ...]
    changesets: tuple[ChangesetRecord, ...]
    decisions: tuple[GateDecision, ...]
    incidents: tuple[Incident, ...]
    accounts: Mapping[str, tuple[CostTotal, ...]]
    timeline: Timeline
    columns: TaskColumns
    calibration: tuple[CalibrationRow, ...] = ()  # of all sessions of the repository
    left_out: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        return bool(self.outcome)

    @property
    def seconds(self) -> float:
        return max(self.until - self.began, 0.0)

    @property
    def failures(self) -> tuple[AttemptRow, ...]:
        return tuple(each for each in self.attempts if each.ending is not None and not each.passed)


def build_report(
    events: Sequence[JournalEntry],
    session: Session,
    entries: Sequence[CostEntry],
    *,
    now: float,
    calibration: tuple[CalibrationRow, ...] = (),
) -> Report:
    """`session` is the replay of the events; `entries` are its costs, running agents included."""
    scan = _EventScan()
    for recorded in events:
        scan.add(recorded)
    until = scan.ended_at if session.ended and scan.ended_at is not None else now
    attempts = tuple(_build_attempt_rows(session, {entry.attempt: entry.spend for entry in entries}, until))
    decisions = tuple(scan.decisions.values())
    return Report(
        session=session.id,
        project=session.project,
        request=session.request,
        base_branch=session.base_branch,
        base_before=scan.base_before,
        base_now=session.base_sha,
        workflow=session.workflow.name,
        outcome=session.outcome,
        reason=session.outcome_reason,
        work=count_landed_work(session),
        began=session.opened_at,
        until=until,
        cycles=session.cycle,
        spend=sum_spend(entries),
        budget=session.limits.session_budget,
        foreseen=forecast_cost(events),
        agent_seconds=sum(each.seconds for each in attempts),
        tasks=tuple(_build_task_rows(session, attempts)),
        attempts=attempts[-MAX_ATTEMPTS:],
        checks=tuple(scan.checks[-MAX_CHECKS:]),
        verdicts=tuple(scan.verdicts[-MAX_CHECKS:]),
        hand_offs=list_hand_offs(session, *session.tasks)[-MAX_CHECKS:],
        changesets=tuple(session.changesets.values()),
        decisions=decisions[-MAX_DECISIONS:],
        incidents=tuple(scan.incidents[-MAX_INCIDENTS:]),
        accounts={by: tuple(rank_totals(sum_costs_by(entries, by), by)) for by in COST_TABLES},
        timeline=lay_out(
            tuple(_list_spans(attempts[-MAX_ATTEMPTS:], until)),
            tuple(_list_waits(decisions[-MAX_DECISIONS:], until)),
            scan.landings,
            began=session.opened_at,
            until=until,
        ),
        calibration=calibration,
        columns=arrange_by_depth(tuple(record.task for record in session.tasks.values())),
        left_out=tuple(_list_left_out(scan, len(attempts), len(decisions))),
    )


def _list_left_out(scan: _EventScan, attempts: int, decisions: int) -> Iterator[str]:
    counts = {
        "attempts": (attempts, MAX_ATTEMPTS),
        "checks": (len(scan.checks), MAX_CHECKS),
        "verdicts": (len(scan.verdicts), MAX_CHECKS),
        "decisions": (decisions, MAX_DECISIONS),
        "incidents": (len(scan.incidents), MAX_INCIDENTS),
    }
    for name, (there, most) in counts.items():
        if there > most:
            yield f"the oldest {there - most:,} of {there:,} {name}"


def _build_attempt_rows(session: Session, spends: Mapping[str, Spend], until: float) -> Iterator[AttemptRow]:
    for record in sorted(session.attempts.values(), key=lambda each: (each.intended_at, each.attempt.id)):
        attempt, ended = record.attempt, record.ended
        began = record.started_at if record.started_at is not None else record.intended_at
        end = record.ended_at if record.ended_at is not None else until
        yield AttemptRow(
            id=attempt.id,
            agent=attempt.agent_id,
            seat=describe_seat(attempt),
            role=attempt.role,
            subject=attempt.subject,
            n=attempt.n,
            runtime=attempt.runtime,
            model=attempt.model,
            began=began,
            ended=record.ended_at,
            ending=ended.ending if ended else None,
            seconds=ended.seconds if ended and ended.seconds else max(end - began, 0.0),
            waited=ended.waited if ended else 0.0,
            spend=spends.get(attempt.id, NO_SPEND),
            commits=ended.commits if ended else 0,
            reason=_explain_ending(record),
        )


def _explain_ending(record: AttemptRecord) -> str:
    ended = record.ended
    if ended is None or ended.passed:
        return ended.remark if ended else ""
    broken = "; ".join(str(violation) for violation in ended.violations)
    return "; ".join(part for part in (broken, ended.remark, ended.notes or record.cancel_reason) if part)


def _build_task_rows(session: Session, attempts: Sequence[AttemptRow]) -> Iterator[TaskRow]:
    by_subject: dict[str, list[AttemptRow]] = {}
    for each in attempts:
        by_subject.setdefault(each.subject, []).append(each)
    last = {task: name for name, record in session.changesets.items() for task in record.changeset.tasks}
    for name, record in sorted(session.tasks.items()):
        own, undone = by_subject.get(name, []), describe_undoing(session, record)
        yield TaskRow(
            id=name,
            title=record.task.title,
            group=record.task.cohesion_group,
            state=record.state,
            reason=record.reason or undone,
            dependencies=record.task.dependencies,
            attempts=record.attempts,
            failures=sum(each.ending is not None and not each.passed for each in own),
            spend=sum((each.spend for each in own), NO_SPEND),
            seconds=sum(each.seconds for each in own),
            changeset=last.get(name, ""),
            undone=bool(undone),
        )


def _list_spans(attempts: Sequence[AttemptRow], until: float) -> Iterator[Span]:
    """An attempt that ended while no orchestrator ran is journalled late; its warden measured the seconds."""
    for n, each in enumerate(attempts):
        ended = until if each.ended is None else min(each.ended, each.began + each.seconds + each.waited)
        yield Span(n, each.subject, each.began, ended)


def _list_waits(decisions: Sequence[GateDecision], until: float) -> Iterator[Span]:
    for n, each in enumerate(decisions):
        yield Span(n, "", each.asked, until if each.settled is None else each.settled)


@dataclass(slots=True)
class _EventScan:
    """What one pass over the events of the journal finds."""

    base_before: str = ""
    ended_at: float | None = None
    running: bool = False
    checks: list[CheckRun] = field(default_factory=list)
    verdicts: list[VerdictRow] = field(default_factory=list)
    decisions: dict[str, GateDecision] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    landings: list[tuple[float, str]] = field(default_factory=list)

    def add(self, recorded: JournalEntry) -> None:
        self._collect(recorded.event, recorded.at)
        if kind := _find_incident_kind(recorded.event):
            self.incidents.append(Incident(at=recorded.at, kind=kind, words=describe_event(recorded).details))

    def _collect(self, event: happened.Event, at: float) -> None:
        match event:
            case happened.SessionOpened():
                self.base_before = event.base_sha
            case happened.OrchestratorStarted():
                self._add_start(event, at)
            case happened.OrchestratorStopped():
                self.running = False
            case happened.SessionEnded():
                self.ended_at = at
            case happened.Checked():
                self._add_checks(event.task, event.sha, event.checks, at)
            case happened.ChangesetBuilt():
                self._add_checks(event.changeset, event.build.commit, event.build.checks, at)
            case happened.VerdictGiven():
                given = StageVerdict(stage=event.stage, sha=event.sha, verdict=event.verdict)
                self.verdicts.append(VerdictRow(at=at, task=event.task, given=given))
            case happened.GateOpened():
                self.decisions[event.gate.id] = GateDecision(gate=event.gate, asked=at)
            case happened.GateAnswered(gate=gate, answer=answer):
                self.decisions[gate] = replace(
                    self.decisions[gate], settled=at, choice=answer.choice, note=answer.note, by=answer.by
                )
            case happened.GateWithdrawn(gate=gate, reason=reason):
                self.decisions[gate] = replace(self.decisions[gate], settled=at, withdrawn=reason)
            case happened.Landed():
                self.landings.append((at, event.changeset))

    def _add_start(self, event: happened.OrchestratorStarted, at: float) -> None:
        if self.running:  # it was not stopped: it was killed, or the machine was
            words = f"the orchestrator ended without a stop; resumed by pid {event.pid}"
            self.incidents.append(Incident(at=at, kind="crash", words=words))
        if event.degraded:
            self.incidents.append(Incident(at=at, kind="isolation", words=event.degraded))
        self.running = True

    def _add_checks(self, subject: str, commit: str, checks: Sequence[Check], at: float) -> None:
        self.checks += [CheckRun(at=at, subject=subject, commit=commit, check=check) for check in checks]


INCIDENT_KINDS: Mapping[type, str] = {
    happened.PlanFailed: "plan",
    happened.StopRequested: "stop",
    happened.OrchestratorStopped: "stop",
    happened.ConfigDrifted: "configuration",
    happened.BudgetWarned: "budget",
    happened.BudgetRaised: "budget",
    happened.AttemptNearsBudget: "budget",
    happened.SlotsChanged: "machine",
    happened.SlotAwaited: "pool",
    happened.AttemptStalled: "silence",
    happened.OverlapSeen: "overlap",
    happened.EditRefused: "edit",
    happened.RuntimeParked: "model",
    happened.RuntimeResumed: "model",
    happened.EnvironmentFailed: "environment",
    happened.ChangesetEvicted: "merge",
    happened.ChangesetTrimmed: "merge",
    happened.ChangesetConflicted: "merge",
    happened.BaseMoved: "merge",
    happened.BaseLost: "merge",
    happened.BaseAdopted: "merge",
    happened.LandingUndone: "merge",
    happened.HookRan: "hook",
}
"""The events that a person who was away should see, and their heading."""


def _find_incident_kind(event: happened.Event) -> str:
    match event:
        case happened.SlotsChanged() if event.slots >= event.configured:
            return ""
        case happened.SlotAwaited() if event.wait is None or not event.wait.is_late:
            return ""
        case happened.HookRan() if not event.exit_code and not event.timed_out:
            return ""
        case happened.AttemptIntended() if event.attempt.unguarded:
            return "isolation"
        case happened.AttemptEnded() if event.ended.defied:
            return "refused"
    return INCIDENT_KINDS.get(type(event), "")
