"""The report of a session: all that a person wants to see of it afterwards, gathered from its journal.

One walk over the events gives what the Session forgets: when somebody was asked, which checks ran on which commit, what
went wrong on the way. What was left out because there is too much of it is counted, never silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blueflame.model import event as happened
from blueflame.model.attempt import AttemptRecord, Ending
from blueflame.model.changeset import ChangesetRecord
from blueflame.model.event import JournalEntry
from blueflame.model.gate import Gate
from blueflame.model.spend import NO_SPEND, Budget, Spend
from blueflame.model.task import TaskState
from blueflame.model.verdict import Check, Verdict
from blueflame.report.task_columns import TaskColumns, arrange_by_depth
from blueflame.report.timeline import Span, Timeline, Wait, lay_out
from blueflame.session.accounts import CostEntry, CostTotal, forecast_cost, sum_costs_by, sum_spend
from blueflame.session.estimate import CostRange
from blueflame.session.state import Session
from blueflame.text.event_lines import describe_event

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    id: str
    agent: str
    role: str
    subject: str
    n: int
    runtime: str
    model: str
    began: float
    ended: float | None
    ending: Ending | None  # None while it is at work
    seconds: float
    spend: Spend
    commits: int
    reason: str  # why it did not pass

    @property
    def passed(self) -> bool:
        return self.ending is Ending.PASSED


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
    commit: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    gate: Gate
    asked: float
    settled: float | None = None  # None: it waits for an answer
    choice: str = ""
    note: str = ""
    by: str = ""
    withdrawn: str = ""  # why nobody needs to answer any more


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
    changesets: tuple[ChangesetRecord, ...]
    decisions: tuple[GateDecision, ...]
    incidents: tuple[Incident, ...]
    accounts: Mapping[str, tuple[CostTotal, ...]]
    timeline: Timeline
    columns: TaskColumns
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

    def in_state(self, *states: TaskState) -> int:
        return sum(task.state in states for task in self.tasks)


def build_report(
    events: Sequence[JournalEntry], session: Session, entries: Sequence[CostEntry], *, now: float
) -> Report:
    """`session` is what the events replay to; `entries` is its account, live meters included."""
    walk = _EventScan()
    for recorded in events:
        walk.take(recorded)
    until = walk.ended_at if session.ended and walk.ended_at is not None else now
    attempts = tuple(_build_attempt_rows(session, {entry.attempt: entry.spend for entry in entries}, until))
    decisions = tuple(walk.decisions.values())
    return Report(
        session=session.id,
        project=session.project,
        request=session.request,
        base_branch=session.base_branch,
        base_before=walk.base_before,
        base_now=session.base_sha,
        workflow=session.workflow.name,
        outcome=session.outcome,
        reason=session.outcome_reason,
        began=session.opened_at,
        until=until,
        cycles=session.cycle,
        spend=sum_spend(entries),
        budget=session.limits.session_budget,
        foreseen=forecast_cost(events),
        agent_seconds=sum(each.seconds for each in attempts),
        tasks=tuple(_build_task_rows(session, attempts)),
        attempts=attempts[-MAX_ATTEMPTS:],
        checks=tuple(walk.checks[-MAX_CHECKS:]),
        verdicts=tuple(walk.verdicts[-MAX_CHECKS:]),
        changesets=tuple(session.changesets.values()),
        decisions=decisions[-MAX_DECISIONS:],
        incidents=tuple(walk.incidents[-MAX_INCIDENTS:]),
        accounts={by: _rank_totals(sum_costs_by(entries, by), by) for by in COST_TABLES},
        timeline=lay_out(
            _spans(attempts[-MAX_ATTEMPTS:], until),
            _waits(decisions[-MAX_DECISIONS:], until),
            tuple(walk.landings),
            began=session.opened_at,
            until=until,
        ),
        columns=arrange_by_depth(tuple(record.task for record in session.tasks.values())),
        left_out=tuple(_list_left_out(walk, len(attempts), len(decisions))),
    )


def _list_left_out(walk: _EventScan, attempts: int, decisions: int) -> Iterator[str]:
    counts = {
        "attempts": (attempts, MAX_ATTEMPTS),
        "checks": (len(walk.checks), MAX_CHECKS),
        "verdicts": (len(walk.verdicts), MAX_CHECKS),
        "decisions": (decisions, MAX_DECISIONS),
        "incidents": (len(walk.incidents), MAX_INCIDENTS),
    }
    for name, (there, most) in counts.items():
        if there > most:
            yield f"the oldest {there - most:,} of {there:,} {name}"


def _rank_totals(found: Sequence[CostTotal], by: str) -> tuple[CostTotal, ...]:
    if by == "role":
        return tuple(found)
    return tuple(sorted(found, key=lambda total: (-total.spend.micro_usd, -total.spend.tokens, total.name)))


def _build_attempt_rows(session: Session, spends: Mapping[str, Spend], until: float) -> Iterator[AttemptRow]:
    for record in sorted(session.attempts.values(), key=lambda each: (each.intended_at, each.attempt.id)):
        attempt, ended = record.attempt, record.ended
        began = record.started_at if record.started_at is not None else record.intended_at
        end = record.ended_at if record.ended_at is not None else until
        yield AttemptRow(
            id=attempt.id,
            agent=attempt.agent_id,
            role=attempt.role,
            subject=attempt.subject,
            n=attempt.n,
            runtime=attempt.runtime,
            model=attempt.model,
            began=began,
            ended=record.ended_at,
            ending=ended.ending if ended else None,
            seconds=ended.seconds if ended and ended.seconds else max(end - began, 0.0),
            spend=spends.get(attempt.id, NO_SPEND),
            commits=ended.commits if ended else 0,
            reason=_explain_ending(record),
        )


def _explain_ending(record: AttemptRecord) -> str:
    ended = record.ended
    if ended is None or ended.ending is Ending.PASSED:
        return ""
    broken = "; ".join(str(violation) for violation in ended.violations)
    return "; ".join(part for part in (broken, ended.notes or record.cancel_reason) if part)


def _build_task_rows(session: Session, attempts: Sequence[AttemptRow]) -> Iterator[TaskRow]:
    by_subject: dict[str, list[AttemptRow]] = {}
    for each in attempts:
        by_subject.setdefault(each.subject, []).append(each)
    last = {task: name for name, record in session.changesets.items() for task in record.changeset.tasks}
    for name, record in sorted(session.tasks.items()):
        own = by_subject.get(name, [])
        yield TaskRow(
            id=name,
            title=record.task.title,
            group=record.task.cohesion_group,
            state=record.state,
            reason=record.reason,
            dependencies=record.task.dependencies,
            attempts=record.attempts,
            failures=sum(each.ending is not None and not each.passed for each in own),
            spend=sum((each.spend for each in own), NO_SPEND),
            seconds=sum(each.seconds for each in own),
            changeset=last.get(name, ""),
        )


def _spans(attempts: Sequence[AttemptRow], until: float) -> tuple[Span, ...]:
    return tuple(Span(n, each.subject, each.began, _end(each, until)) for n, each in enumerate(attempts))


def _end(each: AttemptRow, until: float) -> float:
    """What ended while no orchestrator was there is journalled late; its warden knows how long it took."""
    return min(each.ended, each.began + each.seconds) if each.ended is not None else until


def _waits(decisions: Sequence[GateDecision], until: float) -> tuple[Wait, ...]:
    return tuple(
        Wait(n, each.asked, each.settled if each.settled is not None else until) for n, each in enumerate(decisions)
    )


@dataclass(slots=True)
class _EventScan:
    """What one walk over the journal finds."""

    base_before: str = ""
    ended_at: float | None = None
    running: bool = False
    checks: list[CheckRun] = field(default_factory=list)
    verdicts: list[VerdictRow] = field(default_factory=list)
    decisions: dict[str, GateDecision] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    landings: list[tuple[float, str]] = field(default_factory=list)

    def take(self, recorded: JournalEntry) -> None:
        note = SCANNERS.get(type(recorded.event))
        if note is not None:
            note(self, recorded.event, recorded.at)
        kind = INCIDENT_KINDS.get(type(recorded.event), lambda _event: "")(recorded.event)
        if kind:
            self.incidents.append(Incident(at=recorded.at, kind=kind, words=describe_event(recorded).details))

    def opened(self, event: happened.SessionOpened, _at: float) -> None:
        self.base_before = event.base_sha

    def started(self, event: happened.OrchestratorStarted, at: float) -> None:
        if self.running:  # nobody had put it down: it was killed, or the machine was
            words = f"the orchestrator was gone without a word; taken up again by pid {event.pid}"
            self.incidents.append(Incident(at=at, kind="crash", words=words))
        self.running = True

    def stopped(self, _event: happened.OrchestratorStopped, _at: float) -> None:
        self.running = False

    def ended(self, _event: happened.SessionEnded, at: float) -> None:
        self.ended_at = at

    def checked(self, event: happened.Checked, at: float) -> None:
        self.checks += [CheckRun(at=at, subject=event.task, commit=event.sha, check=check) for check in event.checks]

    def built(self, event: happened.ChangesetBuilt, at: float) -> None:
        build = event.build
        self.checks += [
            CheckRun(at=at, subject=event.changeset, commit=build.commit, check=check) for check in build.checks
        ]

    def judged(self, event: happened.VerdictGiven, at: float) -> None:
        self.verdicts.append(VerdictRow(at=at, task=event.task, commit=event.sha, verdict=event.verdict))

    def asked(self, event: happened.GateOpened, at: float) -> None:
        self.decisions[event.gate.id] = GateDecision(gate=event.gate, asked=at)

    def answered(self, event: happened.GateAnswered, at: float) -> None:
        asked, answer = self.decisions[event.gate], event.answer
        self.decisions[event.gate] = GateDecision(
            gate=asked.gate, asked=asked.asked, settled=at, choice=answer.choice, note=answer.note, by=answer.by
        )

    def withdrawn(self, event: happened.GateWithdrawn, at: float) -> None:
        asked = self.decisions[event.gate]
        self.decisions[event.gate] = GateDecision(
            gate=asked.gate, asked=asked.asked, settled=at, withdrawn=event.reason
        )

    def landed(self, event: happened.Landed, at: float) -> None:
        self.landings.append((at, event.changeset))


SCANNERS: Mapping[type, Callable[[_EventScan, Any, float], None]] = {
    happened.SessionOpened: _EventScan.opened,
    happened.OrchestratorStarted: _EventScan.started,
    happened.OrchestratorStopped: _EventScan.stopped,
    happened.SessionEnded: _EventScan.ended,
    happened.Checked: _EventScan.checked,
    happened.ChangesetBuilt: _EventScan.built,
    happened.VerdictGiven: _EventScan.judged,
    happened.GateOpened: _EventScan.asked,
    happened.GateAnswered: _EventScan.answered,
    happened.GateWithdrawn: _EventScan.withdrawn,
    happened.Landed: _EventScan.landed,
}


def _constant(kind: str) -> Callable[[Any], str]:
    return lambda _event: kind


INCIDENT_KINDS: Mapping[type, Callable[[Any], str]] = {
    happened.PlanFailed: _constant("plan"),
    happened.StopRequested: _constant("stop"),
    happened.OrchestratorStopped: _constant("stop"),
    happened.ConfigDrifted: _constant("configuration"),
    happened.BudgetWarned: _constant("budget"),
    happened.BudgetRaised: _constant("budget"),
    happened.AttemptNearsBudget: _constant("budget"),
    happened.SlotsChanged: lambda event: "machine" if event.slots < event.configured else "",
    happened.AttemptStalled: _constant("silence"),
    happened.OverlapSeen: _constant("overlap"),
    happened.EditRefused: _constant("edit"),
    happened.RuntimeParked: _constant("model"),
    happened.RuntimeResumed: _constant("model"),
    happened.ChangesetEvicted: _constant("merge"),
    happened.ChangesetTrimmed: _constant("merge"),
    happened.ChangesetConflicted: _constant("merge"),
    happened.BaseMoved: _constant("merge"),
    happened.LandingUndone: _constant("merge"),
    happened.HookRan: lambda event: "hook" if event.exit_code or event.timed_out else "",
}
"""What a person who was away wants to be told of, and under which heading; "" for what is as it should be."""
