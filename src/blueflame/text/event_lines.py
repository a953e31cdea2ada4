"""One sentence per event: long for the activity log, short for the screen. Safe in any terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from blueflame.model import event as happened
from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.event import JournalEntry
from blueflame.model.hand_off import HandOff
from blueflame.model.ids import build_agent_id
from blueflame.model.spend import Budget
from blueflame.model.task import Cause
from blueflame.model.verdict import Check
from blueflame.session.environment import describe_problem
from blueflame.session.gates.questions import describe_curation
from blueflame.session.overlaps import describe_overlap
from blueflame.session.rate_limits import describe_parked
from blueflame.text.fixed_work import name_fixed_work
from blueflame.text.format import (
    format_attempt,
    format_count,
    format_dollars,
    format_duration,
    format_moment,
    format_time,
    format_until,
)
from blueflame.text.hand_offs import describe_words
from blueflame.text.marks import BAD, DOT, NOTE, OK
from blueflame.text.outcomes import describe_check, describe_checks
from blueflame.text.sanitize import clean_line, shorten_line
from blueflame.text.seats import describe_seat

ORCHESTRATOR = "orchestrator"
AGAIN = "→"
QUESTION = "?"
MAX_DETAIL_CHARS = 500  # the journal has the rest


class EventLine(NamedTuple):
    agent: str
    action: str
    details: str


def describe_event(recorded: JournalEntry) -> EventLine:
    event = recorded.event
    agent = ACTORS[type(event)](event) if type(event) in ACTORS else ORCHESTRATOR
    name = f"Task_{event.cause}" if isinstance(event, happened.TaskMoved) else type(event).__name__
    action = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return EventLine(clean_line(agent), action, shorten_line(LONG_FORMS[type(event)](event), MAX_DETAIL_CHARS))


def describe_event_briefly(recorded: JournalEntry) -> ShortLine | None:
    """Return the short line of an event; None for an event that is not shown."""
    describe = SHORT_FORMS.get(type(recorded.event))
    return ShortLine(DOT, describe_event(recorded).details) if describe is None else describe(recorded.event)


def format_log_lines(recorded: Iterable[JournalEntry]) -> tuple[str, ...]:
    """`[YYYY-MM-DDTHH:MM:SSZ] [AGENT_ID] [ACTION] details`, in UTC: a line for each event, and for what it implies."""
    lines = ((datetime.fromtimestamp(entry.at, UTC), line) for entry in recorded for line in _list_lines(entry))
    return tuple(f"[{at:%Y-%m-%dT%H:%M:%SZ}] [{line.agent}] [{line.action}] {line.details}" for at, line in lines)


def _list_lines(recorded: JournalEntry) -> Iterator[EventLine]:
    yield describe_event(recorded)
    implied = IMPLIED.get(type(recorded.event))
    for agent, action, details in implied(recorded.event) if implied else ():
        yield EventLine(clean_line(agent), action, shorten_line(details, MAX_DETAIL_CHARS))


def _list_seat_lines(event: happened.AttemptIntended) -> Iterator[EventLine]:
    given = event.attempt.allocation
    if given is not None and given.is_new:
        yield EventLine(given.seat, "DOMAIN_SET", f"{given.domain}, by {event.attempt.subject}")
    if given is not None and given.reset:
        yield EventLine(
            given.seat, "CONTEXT_RESET", f"{event.attempt.subject} begins without its conversation: {given.reset}"
        )


def _list_learning_lines(event: happened.AttemptEnded) -> Iterator[EventLine]:
    learnings = event.ended.hand_off.learnings if event.ended.hand_off else ()
    if learnings:
        count = format_count(len(learnings), "learning")
        yield EventLine(_find_agent(event), "KNOWLEDGE_DISTILLED", f"{count}: {'; '.join(learnings)}")


IMPLIED: Mapping[type, Callable[[Any], Iterator[EventLine]]] = {
    happened.AttemptIntended: _list_seat_lines,
    happened.AttemptEnded: _list_learning_lines,
}
"""Lines of the activity log about what an event implies."""


def _join_parts(details: str, *more: str) -> str:
    return ": ".join([details, *(part for part in more if part)])


def _format_overrides(overrides: Mapping[str, object]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in overrides.items())


def _find_agent(event: happened.AttemptStarted | happened.AttemptEnded) -> str:
    """Derive the agent's id from the attempt's, which contains the role."""
    parts = event.attempt.split(".")
    return build_agent_id(parts[-2], event.attempt) if len(parts) > 2 else event.attempt


_join_names = ", ".join


def _describe_attempt_ended(attempt: str, ended: AttemptOutcome) -> str:
    facts = [
        f"attempt {attempt} ended: {ended.ending}",
        f"after {ended.seconds:.1f} s{_format_waited(ended)}",
        format_dollars(ended.spend.micro_usd, places=4),
    ]
    commits = [format_count(ended.commits, "commit")] if ended.commits else []
    broken = [_join_names(str(violation) for violation in ended.violations)] if ended.violations else []
    remark = [ended.remark] if ended.remark else []
    left = _describe_hand_off(ended.hand_off) if ended.hand_off else []
    return ", ".join([*facts, *commits, *broken, *remark, *left]) + _format_note(ended.notes)


def _format_maker(attempt: Attempt) -> str:
    rung = f", rung {attempt.rung} of its ladder" if attempt.rung else ""
    level = f", {attempt.unguarded}" if attempt.unguarded else ""
    beside = ", ad hoc" if attempt.ad_hoc else ""
    return f"{attempt.runtime}{f' {attempt.model}' if attempt.model else ''}{rung}{level}{beside}"


def _format_waited(ended: AttemptOutcome) -> str:
    return f" and {format_duration(ended.waited)} of waiting" if ended.waited >= 1 else ""


def _describe_hand_off(left: HandOff) -> list[str]:
    cut = f"of its hand-off: {'; '.join(left.problems)}" if left.problems else ""
    return [part for part in (describe_words(left), cut) if part]


def _format_note(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _format_checks(checks: Iterable[Check]) -> str:
    return _join_names(f"{check.name} {describe_check(check)}" for check in checks) or "no checks"


def _describe_budget(event: happened.BudgetRaised | happened.BudgetWarned) -> str:
    return f"the {event.budget}'s" + (f" ({event.day})" if event.day else "")


def _describe_lessons(event: happened.LessonsGiven) -> str:
    given = sum(each.left_out is None for each in event.lessons)
    left_out = len(event.lessons) - given
    who = "gets" if event.attempt else "every agent gets"
    return f"{who} {format_count(given, 'lesson')} of earlier sessions" + (f", {left_out} left out" if left_out else "")


def _describe_near_limit(event: happened.AttemptNearsBudget) -> str:
    unit = Budget(event.unit)
    whose = "its budget" if event.budget == "attempt" else f"what the {event.budget}'s budget leaves to it"
    used, limit = unit.format_amount(event.used), unit.format_amount(event.limit)
    return f"attempt {event.attempt} has used {used} of {limit}, {whose}"


def _format_utc_wait(until: float) -> str:
    return f"{_format_utc_until(until).replace(', until', ', not before')}" if until else ""


def _format_utc_until(at: float | None) -> str:
    return f", until {format_time(at, '%Y-%m-%dT%H:%M:%SZ', str(at), zone=UTC)}" if at is not None else ""


def _describe_slot(event: happened.SlotAwaited) -> str:
    wait = event.wait
    if wait is None:
        return f"no agent of {event.role} waits for a slot any more"
    return f"{wait.subject} waits for a {event.role} agent of the house: {wait.queue}. {wait.reason}"


MOVED: Mapping[Cause, str] = {
    Cause.CLAIM: "was claimed",
    Cause.COMPLETE: "is done",
    Cause.HAND_OVER: "has passed a stage",
    Cause.FAIL: "failed",
    Cause.RELEASE: "was released, no retry counted",
    Cause.RETRY: "is tried again",
    Cause.VALIDATE: "is validated",
    Cause.LAND: "is merged",
    Cause.REQUEUE: "was sent back",
    Cause.DEFER: "is deferred",
    Cause.PRESENT: "is presented again",
    Cause.BLOCK: "is blocked",
    Cause.UNBLOCK: "is no longer blocked",
    Cause.RENEW: "starts again",
    Cause.DROP: "was dropped",
}

_H = happened

ACTORS: Mapping[type, Callable[[Any], str]] = {
    _H.ProceedRequested: lambda e: e.by,
    _H.BudgetRaised: lambda e: e.by,
    _H.AttemptIntended: lambda e: e.attempt.agent_id,
    _H.LessonsGiven: lambda e: _find_agent(e) if e.attempt else ORCHESTRATOR,
    _H.CurationProposed: _find_agent,
    _H.AttemptStarted: _find_agent,
    _H.AttemptStalled: _find_agent,
    _H.AttemptCancelled: _find_agent,
    _H.QuestionAsked: _find_agent,
    _H.MessageSent: lambda e: e.by,
    _H.MessageDelivered: _find_agent,
    _H.MessageUndelivered: _find_agent,
    _H.AttemptNearsBudget: _find_agent,
    _H.AttemptEnded: _find_agent,
    _H.RuntimeResumed: lambda e: e.by or ORCHESTRATOR,
    _H.VerdictGiven: lambda e: e.verdict.by or ORCHESTRATOR,
    _H.ConflictResolved: lambda e: e.resolution.by or ORCHESTRATOR,
    _H.LandingUndone: lambda e: e.by or ORCHESTRATOR,
    _H.FixRequested: lambda e: e.by or ORCHESTRATOR,
    _H.GateAnswered: lambda e: e.answer.by,
}
"""The agent or person that an event is about; the orchestrator for any other event."""

LONG_FORMS: Mapping[type, Callable[[Any], str]] = {
    _H.SessionOpened: lambda e: _join_parts(
        f"session {e.session} on {e.base_branch}{_format_note(_format_overrides(e.overrides))}", e.request
    ),
    _H.OrchestratorStarted: lambda e: _join_parts(
        f"process {e.pid}{_format_note(e.host)} runs the session{f', started by {e.client}' if e.client else ''}",
        e.lost,
        f"commits are no longer in the repository: {_join_names(e.missing)}" if e.missing else "",
    ),
    _H.StopRequested: lambda e: _join_parts("stop now" if e.now else "stop when running agents have ended", e.reason),
    _H.OrchestratorStopped: lambda e: _join_parts("stopped; it can be resumed", e.reason),
    _H.RequestSized: lambda e: _join_parts(
        f"tier {e.triage.tier.value}, workflow {e.triage.workflow}, chosen by {e.triage.chosen_by.value}",
        "; ".join(e.triage.sizing.reasons),
    ),
    _H.PlanProposed: lambda e: _join_parts(
        f"plan {e.round} by {e.origin} with {format_count(len(e.tasks), 'task')} "
        f"and {format_count(len(e.problems), 'problem')}",
        _join_names((*e.problems, *e.warnings)),
    ),
    _H.PlanFailed: lambda e: _join_parts(f"round {e.round} gave no plan", e.reason),
    _H.PlanApproved: lambda e: f"the plan with {format_count(len(e.tasks), 'task')} was approved",
    _H.ReplanRequested: lambda e: _join_parts("a new plan was requested", e.notes),
    _H.CycleStarted: lambda e: f"cycle {e.cycle} on {e.base_sha[:12]}",
    _H.WaveStarted: lambda e: f"cycle {e.cycle}, {e.stage}",
    _H.ProceedRequested: lambda e: "continue with what is done" + (", end what still runs" if e.kill else ""),
    _H.ConfigDrifted: lambda e: _join_parts("the configuration changed", _join_names(e.changes)),
    _H.ConfigAdopted: lambda e: f"continuing with configuration {e.digest[:12]}",
    _H.ConfigKept: lambda e: f"keeping the configuration; {e.digest[:12]} is not used",
    _H.BudgetRaised: lambda e: f"{_describe_budget(e)} limit is now {e.limit:,}",
    _H.SlotsChanged: lambda e: (
        f"{e.slots} of {e.configured} workers at once: {e.reason or 'the machine can run all of them again'}"
    ),
    _H.SlotAwaited: _describe_slot,
    _H.BudgetWarned: lambda e: f"{e.used:,} of {_describe_budget(e)} {e.limit:,} are used",
    _H.TaskMoved: lambda e: _join_parts(f"{e.task} {MOVED[e.cause]}{_format_utc_wait(e.until)}", e.reason),
    _H.BackoffEnded: lambda e: f"{e.task} may be tried again" + (f", asked for by {e.by}" if e.by else ""),
    _H.TaskEdited: lambda e: _join_parts(f"{e.task.id} was changed", e.task.title),
    _H.TasksImported: lambda e: _join_parts(
        f"{format_count(len(e.added), 'task')} added by {e.by}"
        if e.by
        else f"the changed tasks file was imported: {format_count(len(e.added), 'new task')}, "
        f"{len(e.edited)} changed, {len(e.dropped)} left out",
        _join_names([*(task.id for task in (*e.added, *e.edited)), *e.dropped]),
    ),
    _H.FixRequested: lambda e: _join_parts(f"{e.task} fixes {name_fixed_work(e.work)}", e.wrong),
    _H.EditRefused: lambda e: _join_parts("the changed tasks file cannot be used", "; ".join(e.problems)),
    _H.EditDismissed: lambda e: f"the tasks stay as they were; {e.digest[:12]} is not used",
    _H.AttemptIntended: lambda e: _join_parts(
        f"{e.attempt.role} for {e.attempt.subject}, attempt {e.attempt.n}, by {_format_maker(e.attempt)}",
        describe_seat(e.attempt),
    ),
    _H.LessonsGiven: _describe_lessons,
    _H.CurationProposed: lambda e: _join_parts(describe_curation(e), "; ".join(e.refused) if e.edits else ""),
    _H.KnowledgeCurated: lambda e: f"{format_count(e.count, 'change')}: {'; '.join(e.steps)}",
    _H.AttemptStarted: lambda e: f"attempt {e.attempt} runs under warden {e.warden_pid}",
    _H.AttemptStalled: lambda e: f"attempt {e.attempt} has had no output for {e.seconds:.0f} s",
    _H.AttemptCancelled: lambda e: f"asked to end{_format_note(e.reason)}",
    _H.QuestionAsked: lambda e: _join_parts("asks", e.question.text),
    _H.MessageSent: lambda e: _join_parts(f"to {_find_agent(e)}", e.text),
    _H.MessageDelivered: lambda e: f"message {e.number} was delivered",
    _H.MessageUndelivered: lambda e: f"message {e.number} was not delivered: the agent ended first",
    _H.AttemptNearsBudget: _describe_near_limit,
    _H.OverlapSeen: describe_overlap,
    _H.RuntimeParked: lambda e: _join_parts(describe_parked(e) + _format_utc_until(e.until), e.reason),
    _H.RuntimeResumed: lambda e: f"{e.runtime} can be used again{_format_note(e.reason)}",
    _H.EnvironmentFailed: lambda e: _join_parts(describe_problem(e) + _format_utc_until(e.until), e.reason),
    _H.EnvironmentRetried: lambda e: f"{e.act} is tried again" + (f", asked for by {e.by}" if e.by else ""),
    _H.EnvironmentRecovered: lambda e: f"{e.act} is not hindered any more",
    _H.AttemptEnded: lambda e: _describe_attempt_ended(e.attempt, e.ended),
    _H.Checked: lambda e: _join_parts(f"{e.task} at {e.sha[:12]}", _format_checks(e.checks)),
    _H.VerdictGiven: lambda e: f"{e.task} at {e.sha[:12]}: {e.verdict.status}{_format_note(e.verdict.notes)}",
    _H.ChangesetsFormed: lambda e: _join_parts(
        format_count(len(e.changesets), "changeset"),
        "; ".join(f"{c.id} ({_join_names(c.tasks)})" for c in e.changesets),
    ),
    _H.ScanDelayed: lambda e: (
        f"the search of {e.changeset} for secrets {'took' if e.is_over else 'has taken'} {format_duration(e.seconds)}"
        + ("" if e.is_over else " so far")
    ),
    _H.ChangesetBuilt: lambda e: _join_parts(
        f"{e.changeset} as {e.build.commit[:12]}, +{e.build.added} -{e.build.deleted} "
        f"in {format_count(len(e.build.files), 'file')}",
        _format_checks(e.build.checks),
        "; ".join(str(loss) for loss in e.build.losses),
    ),
    _H.ChangesetTrimmed: lambda e: _join_parts(
        f"{e.changeset} continues without {_join_names(e.tasks)}"
        + (f"; {_join_names(e.waiting)} wait" if e.waiting else ""),
        e.reason,
    ),
    _H.ChangesetConflicted: lambda e: _join_parts(
        f"{e.changeset}: {e.conflict.task} conflicts, a merger is started", _join_names(e.conflict.paths)
    ),
    _H.ConflictResolved: lambda e: (
        f"{e.changeset}: {_join_names(e.resolution.paths)}{_format_note(e.resolution.notes)}"
    ),
    _H.ChangesetEvicted: lambda e: _join_parts(f"{e.changeset} cannot land", e.reason, _join_names(e.paths)),
    _H.ChangesetJudged: lambda e: _join_parts(f"{e.changeset}: {e.choice}", e.note),
    _H.BaseLost: lambda e: f"the base branch {e.branch} {'was replaced' if e.found else 'no longer exists'}",
    _H.BaseAdopted: lambda e: f"the session goes on from {e.sha[:12]}",
    _H.BaseMoved: lambda e: f"the base moved from {e.expected[:12]} to {e.found[:12]}; {e.changeset} is built again",
    _H.Landed: lambda e: _join_parts(f"{e.changeset} landed: {e.before[:12]}..{e.after[:12]}", e.checkout),
    _H.PullRequestOpened: lambda e: _join_parts(f"{e.changeset} was pushed as {e.branch} ({e.commit[:12]})", e.url),
    _H.LandingUndone: lambda e: f"{e.changeset} was undone: {e.before[:12]}..{e.after[:12]}",
    _H.GateOpened: lambda e: _join_parts(f"{e.gate.id} asks about {e.gate.subject}", e.gate.title),
    _H.GateAnswered: lambda e: f"{e.gate}: {e.answer.choice}{_format_note(e.answer.note)}",
    _H.GateWithdrawn: lambda e: _join_parts(f"{e.gate} needs no answer any more", e.reason),
    _H.HookRan: lambda e: (
        f"{e.hook} for {e.key.removeprefix(f'{e.hook}:')} "
        + ("timed out" if e.timed_out else f"exited with {e.exit_code}")
    ),
    _H.CycleEnded: lambda e: f"cycle {e.cycle}",
    _H.SessionEnded: lambda e: _join_parts(e.outcome, e.reason),
}
"""A sentence for every event; a test compares the table with the list of events."""


class ShortLine(NamedTuple):
    mark: str
    words: str


SHORT_MOVES: Mapping[Cause, tuple[str, str]] = {
    Cause.FAIL: (BAD, "failed"),
    Cause.RETRY: (AGAIN, "is retried"),
    Cause.REQUEUE: (AGAIN, "is re-queued"),
    Cause.DEFER: (AGAIN, "is deferred"),
    Cause.BLOCK: (BAD, "is blocked"),
    Cause.DROP: (DOT, "was dropped"),
}
"""Other moves are not shown: the events that cause them are."""


def _describe_checked_briefly(event: happened.Checked) -> ShortLine | None:
    """A task without checks is validated without this line; the summary says that nothing was tested."""
    mark = OK if all(check.passed for check in event.checks) else NOTE
    if any(not check.passed and not check.red_before for check in event.checks):
        mark = BAD
    return ShortLine(mark, f"{event.task} checked: {describe_checks(event.checks)}") if event.checks else None


def _describe_end_briefly(attempt: str, ended: AttemptOutcome) -> ShortLine:
    commits = f", {format_count(ended.commits, 'commit')}" if ended.commits else ""
    cost = f", {format_dollars(ended.spend.micro_usd, places=2)}" if ended.spend.micro_usd else ""
    why = "; ".join(map(str, ended.violations)) or "; ".join(filter(str.strip, ended.notes.splitlines()))
    answered = ended.ending is Ending.PASSED and not ended.commits  # what a reviewer says is in the next line
    ending = "answered" if answered else ended.ending.value.replace("_", " ")
    time = f"{format_duration(ended.seconds)}{_format_waited(ended)}"
    code = f", exit code {ended.exit_code}" if ended.exit_code and ended.ending is Ending.FAILED else ""
    took = f"{format_attempt(attempt)} {ending} after {time}{code}{commits}{cost}"
    if ended.ending is Ending.PASSED:
        return ShortLine(NOTE, f"{took}, {ended.remark}") if ended.remark else ShortLine(OK, took)
    if ended.ending in (Ending.ACCOUNT, Ending.ENVIRONMENT, Ending.QUESTION):  # the next line has the reason
        return ShortLine(DOT, took)
    return ShortLine(DOT if ended.passed else BAD, took + _format_reason(why))


def _format_reason(why: str) -> str:
    return f": {why}" if why else ""


def _describe_verdict_briefly(event: happened.VerdictGiven) -> ShortLine:
    passed = event.verdict.passed
    judge = f" by {event.stage}" if event.attempt and event.stage else ""
    words = f"{event.task} {'validated' if passed else 'not validated'}{judge}{_format_reason(event.verdict.notes)}"
    return ShortLine(OK if passed else BAD, words)


def _describe_move_briefly(event: happened.TaskMoved) -> ShortLine | None:
    if event.cause not in SHORT_MOVES:
        return None
    mark, words = SHORT_MOVES[event.cause]
    why = "" if event.cause is Cause.RETRY else _format_reason(event.reason)  # the attempt's end has shown the reason
    when = f", not before {format_moment(event.until)}" if event.until else ""
    return ShortLine(mark, f"{event.task} {words}{when}{why}")


def _describe_changesets_briefly(event: happened.ChangesetsFormed) -> ShortLine:
    """Name the missing tasks of incomplete groups."""
    lacking = [f"[{each.group}] lacks {', '.join(each.missing)}" for each in event.changesets if each.missing]
    words = f"{format_count(len(event.changesets), 'changeset')} to review"
    return ShortLine(NOTE, f"{words}; {'; '.join(lacking)}") if lacking else ShortLine(DOT, words)


def _describe_limit_briefly(event: happened.AttemptNearsBudget) -> str:
    amount = Budget(event.unit).format_amount(event.limit)
    return f"its {amount}" if event.budget == "attempt" else f"the {amount} that the {event.budget}'s budget leaves it"


def _skip(_event: happened.Event) -> None:
    return None


SHORT_FORMS: Mapping[type, Callable[[Any], ShortLine | None]] = {
    _H.SessionOpened: lambda e: ShortLine(DOT, f"session {e.session} on {e.base_branch}"),
    _H.OrchestratorStarted: _skip,
    _H.RequestSized: lambda e: ShortLine(DOT, f"tier {e.triage.tier.value}, workflow {e.triage.workflow}"),
    _H.PlanProposed: lambda e: ShortLine(
        BAD if e.problems else DOT,
        f"a plan of {format_count(len(e.tasks), 'task')}"
        + (f" with {format_count(len(e.problems), 'problem')}" if e.problems else "")
        + _format_reason("; ".join(e.problems or e.warnings)),
    ),
    _H.PlanFailed: lambda e: ShortLine(BAD, f"no plan{_format_reason(e.reason)}"),
    _H.PlanApproved: lambda e: ShortLine(OK, f"plan of {format_count(len(e.tasks), 'task')} approved"),
    _H.CycleStarted: lambda e: ShortLine(DOT, f"cycle {e.cycle} begins on {e.base_sha[:10]}"),
    _H.WaveStarted: lambda e: ShortLine(DOT, f"wave: {e.stage}"),
    _H.CycleEnded: _skip,
    _H.TaskMoved: _describe_move_briefly,
    _H.LessonsGiven: _skip,
    _H.CurationProposed: lambda e: ShortLine(BAD if e.problem else DOT, describe_curation(e)),
    _H.KnowledgeCurated: _skip,
    _H.AttemptIntended: lambda e: (
        ShortLine(
            AGAIN if e.attempt.rung else NOTE, f"{format_attempt(e.attempt.id)} goes to {_format_maker(e.attempt)}"
        )
        if e.attempt.rung or e.attempt.unguarded
        else None
    ),
    _H.AttemptStarted: lambda e: ShortLine(DOT, f"{format_attempt(e.attempt)} started"),
    _H.AttemptStalled: lambda e: ShortLine(
        NOTE, f"{format_attempt(e.attempt)} has been silent for {format_duration(e.seconds)}"
    ),
    _H.QuestionAsked: _skip,  # the gate shows it
    _H.MessageSent: lambda e: ShortLine(DOT, f"{e.by} to {format_attempt(e.attempt)}: {e.text}"),
    _H.MessageDelivered: lambda e: ShortLine(OK, f"{format_attempt(e.attempt)} was given message {e.number}"),
    _H.MessageUndelivered: lambda e: ShortLine(
        BAD, f"{format_attempt(e.attempt)} ended before message {e.number} could be delivered"
    ),
    _H.AttemptNearsBudget: lambda e: ShortLine(
        NOTE, f"{format_attempt(e.attempt)} has used {e.used / max(e.limit, 1):.0%} of {_describe_limit_briefly(e)}"
    ),
    _H.OverlapSeen: lambda e: ShortLine(NOTE, describe_overlap(e)),
    _H.EditRefused: lambda e: ShortLine(
        BAD, f"the edited tasks file is invalid{_format_reason('; '.join(e.problems))}"
    ),
    _H.RuntimeParked: lambda e: ShortLine(
        NOTE, f"{describe_parked(e)}{format_until(e.until)}{_format_reason(e.reason)}"
    ),
    _H.RuntimeResumed: lambda e: ShortLine(DOT, f"{e.runtime} is available again{_format_reason(e.reason)}"),
    _H.EnvironmentFailed: lambda e: ShortLine(NOTE, f"{describe_problem(e)}{_format_reason(e.reason)}"),
    _H.EnvironmentRetried: _skip,
    _H.BackoffEnded: _skip,
    _H.EnvironmentRecovered: lambda e: ShortLine(DOT, f"{e.act} is not hindered any more"),
    _H.AttemptEnded: lambda e: _describe_end_briefly(e.attempt, e.ended),
    _H.Checked: _describe_checked_briefly,
    _H.VerdictGiven: _describe_verdict_briefly,
    _H.ChangesetsFormed: _describe_changesets_briefly,
    _H.ChangesetBuilt: lambda e: (
        ShortLine(NOTE, f"flaky, failed and then passed on the same tree: {', '.join(e.build.flaky)}")
        if e.build.flaky
        else None
    ),
    _H.ChangesetEvicted: lambda e: ShortLine(BAD, f"{e.changeset} cannot land{_format_reason(e.reason)}"),
    _H.ChangesetTrimmed: lambda e: ShortLine(
        BAD, f"{e.changeset} continues without {', '.join(e.tasks)}{_format_reason(e.reason)}"
    ),
    _H.ChangesetConflicted: lambda e: ShortLine(
        AGAIN, f"{e.changeset} conflicts in {', '.join(e.conflict.paths)}: starting a merger"
    ),
    _H.ConflictResolved: lambda e: ShortLine(
        OK, f"{e.changeset}: conflict resolved{_format_reason(e.resolution.notes)}"
    ),
    _H.PullRequestOpened: lambda e: ShortLine(OK, f"{e.changeset} was pushed as {e.branch}{_format_reason(e.url)}"),
    _H.ChangesetJudged: lambda e: ShortLine(OK if e.choice == "approve" else AGAIN, f"{e.changeset}: {e.choice}"),
    _H.Landed: lambda e: ShortLine(
        OK, f"{e.changeset} landed as {e.after[:10]}" + (f" ({e.checkout})" if e.checkout else "")
    ),
    _H.GateOpened: lambda e: ShortLine(QUESTION, f"{e.gate.id}{_format_reason(e.gate.title)}"),
    _H.GateAnswered: lambda e: ShortLine(
        DOT, f"{e.gate}: {e.answer.choice}, by {e.answer.by}{_format_reason(e.answer.note)}"
    ),
    _H.SlotsChanged: lambda e: ShortLine(
        NOTE, f"{e.slots} of {e.configured} workers at once" + (f": {e.reason}" if e.slots < e.configured else "")
    ),
    _H.SlotAwaited: lambda e: ShortLine(NOTE if e.wait is not None and e.wait.is_late else DOT, _describe_slot(e)),
    _H.BudgetWarned: lambda e: ShortLine(NOTE, f"{e.used / e.limit:.0%} of the {e.budget}'s budget is used"),
    _H.SessionEnded: lambda e: ShortLine(
        OK if e.outcome == "completed" else NOTE, f"{e.outcome.replace('_', ' ')}{_format_reason(e.reason)}"
    ),
}
"""For other events the sentence of the activity log is shown."""
