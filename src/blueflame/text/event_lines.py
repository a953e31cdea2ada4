"""What happened, as a person reads it: one line for each event, safe to show in any terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from blueflame.model import event as happened
from blueflame.model.attempt import AttemptOutcome
from blueflame.model.event import JournalEntry
from blueflame.model.ids import build_agent_id
from blueflame.model.spend import Budget
from blueflame.model.task import Cause
from blueflame.model.verdict import Check
from blueflame.session.overlaps import describe_overlap
from blueflame.session.rate_limits import describe_parked
from blueflame.text.format import format_dollars
from blueflame.text.sanitize import clean_line, shorten_line

ORCHESTRATOR = "orchestrator"
MAX_DETAIL_CHARS = 500  # characters of details; the journal has the rest


@dataclass(frozen=True, slots=True)
class EventLine:
    agent: str
    action: str
    details: str


def describe_event(recorded: JournalEntry) -> tuple[EventLine, ...]:
    agent, action, details = SENTENCES[type(recorded.event)](recorded.event)
    return (EventLine(clean_line(agent), action, shorten_line(details, MAX_DETAIL_CHARS)),)


def format_log_lines(recorded: Iterable[JournalEntry]) -> tuple[str, ...]:
    """`[YYYY-MM-DDTHH:MM:SSZ] [AGENT_ID] [ACTION] details`, in UTC."""
    return tuple(
        f"[{datetime.fromtimestamp(entry.at, UTC):%Y-%m-%dT%H:%M:%SZ}] [{line.agent}] [{line.action}] {line.details}"
        for entry in recorded
        for line in describe_event(entry)
    )


Sentence = tuple[str, str, str]


def _ours(action: str, details: str, *more: str) -> Sentence:
    return ORCHESTRATOR, action, ": ".join([details, *(part for part in more if part)])


def _agent(attempt: str) -> str:
    """The role is part of the attempt's id, and with it the agent's."""
    parts = attempt.split(".")
    return build_agent_id(parts[-2], attempt) if len(parts) > 2 else attempt


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _ended(attempt: str, ended: AttemptOutcome) -> Sentence:
    facts = [
        f"attempt {attempt} ended: {ended.ending}",
        f"after {ended.seconds:.1f} s",
        format_dollars(ended.spend.micro_usd, places=4),
    ]
    commits = [_count(ended.commits, "commit")] if ended.commits else []
    broken = [_listed(str(violation) for violation in ended.violations)] if ended.violations else []
    return _agent(attempt), "ATTEMPT_ENDED", ", ".join([*facts, *commits, *broken]) + _because(ended.notes)


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _checks(checks: Iterable[Check]) -> str:
    return _listed(f"{check.name} {_how(check)}" for check in checks) or "no checks"


def _how(check: Check) -> str:
    if check.flaky:
        return "is flaky (red, then green on the same tree)"
    return "passed" if check.passed else "failed"


def _whose(event: happened.BudgetRaised | happened.BudgetWarned) -> str:
    return f"the {event.budget}'s" + (f" ({event.day})" if event.day else "")


def _nears_budget(event: happened.AttemptNearsBudget) -> str:
    unit = Budget(event.unit)
    whose = "its budget" if event.budget == "attempt" else f"what the {event.budget}'s budget leaves to it"
    used, limit = unit.format_amount(event.used), unit.format_amount(event.limit)
    return f"attempt {event.attempt} has used {used} of {limit}, {whose}"


def _until(at: float | None) -> str:
    try:
        return f", until {datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}" if at is not None else ""
    except (ValueError, OverflowError, OSError):  # no time that a calendar knows
        return f", until {at}"


MOVED: Mapping[Cause, str] = {
    Cause.CLAIM: "was claimed",
    Cause.COMPLETE: "is done",
    Cause.FAIL: "failed",
    Cause.RELEASE: "was released without blame",
    Cause.RETRY: "is tried again",
    Cause.VALIDATE: "is validated",
    Cause.LAND: "is merged",
    Cause.REQUEUE: "was sent back",
    Cause.DEFER: "is deferred",
    Cause.PRESENT: "is presented again",
    Cause.BLOCK: "is blocked",
    Cause.UNBLOCK: "is no longer blocked",
    Cause.RENEW: "is taken up again",
    Cause.DROP: "was dropped",
}

_H = happened

SENTENCES: Mapping[type, Callable[[Any], Sentence]] = {
    _H.SessionOpened: lambda e: _ours("SESSION_OPENED", f"session {e.session} on {e.base_branch}", e.request),
    _H.OrchestratorStarted: lambda e: _ours("ORCHESTRATOR_STARTED", f"process {e.pid}{_because(e.host)} took over"),
    _H.StopRequested: lambda e: _ours("STOP_REQUESTED", "stop at once" if e.now else "stop in good order", e.reason),
    _H.OrchestratorStopped: lambda e: _ours("ORCHESTRATOR_STOPPED", "stopped; it can be resumed", e.reason),
    _H.PlanProposed: lambda e: _ours(
        "PLAN_PROPOSED",
        f"plan {e.round} by {e.origin} with {_count(len(e.tasks), 'task')} and {_count(len(e.problems), 'problem')}",
        _listed(e.problems),
    ),
    _H.PlanFailed: lambda e: _ours("PLAN_FAILED", f"round {e.round} gave no plan", e.reason),
    _H.PlanApproved: lambda e: _ours("PLAN_APPROVED", f"the plan with {_count(len(e.tasks), 'task')} was approved"),
    _H.ReplanRequested: lambda e: _ours("REPLAN_REQUESTED", "a new plan was asked for", e.notes),
    _H.CycleStarted: lambda e: _ours("CYCLE_STARTED", f"cycle {e.cycle} on {e.base_sha[:12]}"),
    _H.WaveStarted: lambda e: _ours("WAVE_STARTED", f"cycle {e.cycle}, {e.stage}"),
    _H.ProceedRequested: lambda e: (
        e.by,
        "PROCEED_REQUESTED",
        "go on with what is done" + (", end what still runs" if e.kill else ""),
    ),
    _H.ConfigDrifted: lambda e: _ours("CONFIG_DRIFTED", "the configuration changed", _listed(e.changes)),
    _H.ConfigAdopted: lambda e: _ours("CONFIG_ADOPTED", f"going on with configuration {e.digest[:12]}"),
    _H.ConfigKept: lambda e: _ours("CONFIG_KEPT", f"keeping the configuration; {e.digest[:12]} is not used"),
    _H.BudgetRaised: lambda e: (e.by, "BUDGET_RAISED", f"{_whose(e)} limit is now {e.limit:,}"),
    _H.SlotsChanged: lambda e: _ours(
        "SLOTS_CHANGED", f"{e.slots} of {e.configured} workers at once: {e.reason or 'there is room again'}"
    ),
    _H.BudgetWarned: lambda e: _ours("BUDGET_WARNED", f"{e.used:,} of {_whose(e)} {e.limit:,} are used"),
    _H.TaskMoved: lambda e: _ours(f"TASK_{e.cause.upper()}", f"{e.task} {MOVED[e.cause]}", e.reason),
    _H.TaskEdited: lambda e: _ours("TASK_EDITED", f"{e.task.id} was changed", e.task.title),
    _H.TasksImported: lambda e: _ours(
        "TASKS_IMPORTED",
        f"the changed tasks file was taken up: {_count(len(e.added), 'new task')}, "
        f"{len(e.edited)} changed, {len(e.dropped)} left out",
        _listed([*(task.id for task in (*e.added, *e.edited)), *e.dropped]),
    ),
    _H.EditRefused: lambda e: _ours("EDIT_REFUSED", "the changed tasks file cannot be used", "; ".join(e.problems)),
    _H.EditDismissed: lambda e: _ours("EDIT_DISMISSED", f"the tasks stay as they were; {e.digest[:12]} is not used"),
    _H.AttemptIntended: lambda e: (
        e.attempt.agent_id,
        "ATTEMPT_INTENDED",
        f"{e.attempt.role} for {e.attempt.subject}, attempt {e.attempt.n}, by {e.attempt.runtime}",
    ),
    _H.AttemptStarted: lambda e: (
        _agent(e.attempt),
        "ATTEMPT_STARTED",
        f"attempt {e.attempt} runs under warden {e.warden_pid}",
    ),
    _H.AttemptStalled: lambda e: (
        _agent(e.attempt),
        "ATTEMPT_STALLED",
        f"attempt {e.attempt} has said nothing for {e.seconds:.0f} s",
    ),
    _H.AttemptCancelled: lambda e: (_agent(e.attempt), "ATTEMPT_CANCELLED", f"asked to end{_because(e.reason)}"),
    _H.AttemptNearsBudget: lambda e: (_agent(e.attempt), "ATTEMPT_NEARS_BUDGET", _nears_budget(e)),
    _H.OverlapSeen: lambda e: _ours("OVERLAP_SEEN", describe_overlap(e)),
    _H.RuntimeParked: lambda e: _ours("RUNTIME_PARKED", describe_parked(e) + _until(e.until), e.reason),
    _H.RuntimeResumed: lambda e: (
        e.by or ORCHESTRATOR,
        "RUNTIME_RESUMED",
        f"{e.runtime} can be used again{_because(e.reason)}",
    ),
    _H.AttemptEnded: lambda e: _ended(e.attempt, e.ended),
    _H.Checked: lambda e: _ours("CHECKED", f"{e.task} at {e.sha[:12]}", _checks(e.checks)),
    _H.VerdictGiven: lambda e: (
        e.verdict.by or ORCHESTRATOR,
        "VERDICT_GIVEN",
        f"{e.task} at {e.sha[:12]}: {e.verdict.status}{_because(e.verdict.notes)}",
    ),
    _H.ChangesetsFormed: lambda e: _ours(
        "CHANGESETS_FORMED",
        _count(len(e.changesets), "changeset"),
        "; ".join(f"{c.id} ({_listed(c.tasks)})" for c in e.changesets),
    ),
    _H.ChangesetBuilt: lambda e: _ours(
        "CHANGESET_BUILT",
        f"{e.changeset} as {e.build.commit[:12]}, +{e.build.added} -{e.build.deleted} "
        f"in {_count(len(e.build.files), 'file')}",
        _checks(e.build.checks),
        "; ".join(str(loss) for loss in e.build.losses),
    ),
    _H.ChangesetTrimmed: lambda e: _ours(
        "CHANGESET_TRIMMED",
        f"{e.changeset} goes on without {_listed(e.tasks)}" + (f"; {_listed(e.waiting)} wait" if e.waiting else ""),
        e.reason,
    ),
    _H.ChangesetConflicted: lambda e: _ours(
        "CHANGESET_CONFLICTED",
        f"{e.changeset}: {e.conflict.task} does not merge by itself, a merger is asked",
        _listed(e.conflict.paths),
    ),
    _H.ConflictResolved: lambda e: (
        e.resolution.by or ORCHESTRATOR,
        "CONFLICT_RESOLVED",
        f"{e.changeset}: {_listed(e.resolution.paths)}{_because(e.resolution.notes)}",
    ),
    _H.ChangesetEvicted: lambda e: _ours("CHANGESET_EVICTED", f"{e.changeset} cannot land", e.reason, _listed(e.paths)),
    _H.ChangesetJudged: lambda e: _ours("CHANGESET_JUDGED", f"{e.changeset}: {e.choice}", e.note),
    _H.BaseMoved: lambda e: _ours(
        "BASE_MOVED", f"the base moved from {e.expected[:12]} to {e.found[:12]}; {e.changeset} is built again"
    ),
    _H.Landed: lambda e: _ours("LANDED", f"{e.changeset} landed: {e.before[:12]}..{e.after[:12]}", e.checkout),
    _H.PullRequestOpened: lambda e: _ours(
        "PULL_REQUEST_OPENED", f"{e.changeset} was pushed as {e.branch} ({e.commit[:12]})", e.url
    ),
    _H.LandingUndone: lambda e: (
        e.by or ORCHESTRATOR,
        "LANDING_UNDONE",
        f"{e.changeset} was taken back: {e.before[:12]}..{e.after[:12]}",
    ),
    _H.GateOpened: lambda e: _ours("GATE_OPENED", f"{e.gate.id} asks about {e.gate.subject}", e.gate.title),
    _H.GateAnswered: lambda e: (
        e.answer.by,
        "GATE_ANSWERED",
        f"{e.gate}: {e.answer.choice}{_because(e.answer.note)}",
    ),
    _H.GateWithdrawn: lambda e: _ours("GATE_WITHDRAWN", f"{e.gate} needs no answer any more", e.reason),
    _H.HookRan: lambda e: _ours(
        "HOOK_RAN", f"{e.hook} for {e.key} " + ("ran out of time" if e.timed_out else f"exited with {e.exit_code}")
    ),
    _H.CycleEnded: lambda e: _ours("CYCLE_ENDED", f"cycle {e.cycle}"),
    _H.SessionEnded: lambda e: _ours("SESSION_ENDED", e.outcome, e.reason),
}
"""Every event has its sentence; a test holds the table to the list of events."""
