"""What just happened, one short line per event; the activity log has everything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.text import Text

from blueflame.model import event as happened
from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.event import JournalEntry
from blueflame.model.spend import Budget
from blueflame.model.task import Cause
from blueflame.session.overlaps import describe_overlap
from blueflame.session.rate_limits import describe_parked as waiting
from blueflame.text.event_lines import describe_event
from blueflame.text.format import format_attempt, format_count, format_dollars, format_duration, format_until
from blueflame.text.marks import BAD, DOT, NOTE, OK
from blueflame.text.sanitize import clean_line

AGAIN = "→"
QUESTION = "?"
STYLES: Mapping[str, str] = {OK: "good", BAD: "bad", NOTE: "warn", AGAIN: "warn", QUESTION: "warn", DOT: "quiet"}


class FeedLine(NamedTuple):
    mark: str
    words: str


MOVES: Mapping[Cause, tuple[str, str]] = {
    Cause.FAIL: (BAD, "failed"),
    Cause.RETRY: (AGAIN, "is retried"),
    Cause.REQUEUE: (AGAIN, "is re-queued"),
    Cause.DEFER: (AGAIN, "is deferred"),
    Cause.BLOCK: (BAD, "is blocked"),
    Cause.DROP: (DOT, "was dropped"),
}
"""Other moves are shown by the events that cause them."""


def format_events(recorded: Sequence[JournalEntry]) -> list[Text]:
    """Lines for events of one moment: a failure that is retried at once gets one line, not two."""
    retried = {
        e.event.task for e in recorded if isinstance(e.event, happened.TaskMoved) and e.event.cause is Cause.RETRY
    }
    lines = (format_event(each) for each in recorded if not _is_failure_of(retried, each))
    return [line for line in lines if line is not None]


def _is_failure_of(tasks: Collection[str], recorded: JournalEntry) -> bool:
    event = recorded.event
    return isinstance(event, happened.TaskMoved) and event.cause is Cause.FAIL and event.task in tasks


def format_event(recorded: JournalEntry) -> Text | None:
    """`12:03:04  ✓ task-001 #1 passed`, in local time; None for events without a line."""
    event = recorded.event
    told = (
        DESCRIBERS[type(event)](event)
        if type(event) in DESCRIBERS
        else FeedLine(DOT, describe_event(recorded)[0].details)
    )
    if told is None:
        return None
    at = datetime.fromtimestamp(recorded.at).astimezone()
    return Text.assemble(
        (f"{at:%H:%M:%S}  ", "quiet"), (f"{told.mark} ", STYLES[told.mark]), clean_line(told.words), no_wrap=True
    )


def _describe_end(attempt: str, ended: AttemptOutcome) -> FeedLine:
    commits = f", {format_count(ended.commits, 'commit')}" if ended.commits else ""
    cost = f", {format_dollars(ended.spend.micro_usd, places=2)}" if ended.spend.micro_usd else ""
    why = "; ".join(str(violation) for violation in ended.violations) or ended.notes
    ending = ended.ending.value.replace("_", " ")
    took = f"{format_attempt(attempt)} {ending} after {format_duration(ended.seconds)}{commits}{cost}"
    if ended.ending is Ending.PASSED:
        return FeedLine(OK, took)
    return FeedLine(BAD, took + _format_reason(why))


def _format_reason(why: str) -> str:
    return f": {why}" if why else ""


def _describe_move(event: happened.TaskMoved) -> FeedLine | None:
    if event.cause not in MOVES:
        return None
    mark, words = MOVES[event.cause]
    why = "" if event.cause is Cause.RETRY else _format_reason(event.reason)  # the attempt's end has shown the reason
    return FeedLine(mark, f"{event.task} {words}{why}")


def _describe_changesets(event: happened.ChangesetsFormed) -> FeedLine:
    """An incomplete group is shown before it is judged."""
    lacking = [f"[{each.group}] lacks {', '.join(each.missing)}" for each in event.changesets if each.missing]
    words = f"{format_count(len(event.changesets), 'changeset')} to review"
    return FeedLine(NOTE, f"{words}; {'; '.join(lacking)}") if lacking else FeedLine(DOT, words)


def _describe_limit(event: happened.AttemptNearsBudget) -> str:
    amount = Budget(event.unit).format_amount(event.limit)
    return f"its {amount}" if event.budget == "attempt" else f"the {amount} that the {event.budget}'s budget leaves it"


def _skip(_event: happened.Event) -> None:
    return None


_H = happened

DESCRIBERS: Mapping[type, Callable[[Any], FeedLine | None]] = {
    _H.SessionOpened: lambda e: FeedLine(DOT, f"session {e.session} on {e.base_branch}"),
    _H.OrchestratorStarted: _skip,
    _H.PlanProposed: lambda e: FeedLine(
        BAD if e.problems else DOT,
        f"a plan of {format_count(len(e.tasks), 'task')}"
        + (f" with {format_count(len(e.problems), 'problem')}" if e.problems else ""),
    ),
    _H.PlanFailed: lambda e: FeedLine(BAD, f"no plan{_format_reason(e.reason)}"),
    _H.PlanApproved: lambda e: FeedLine(OK, f"plan of {format_count(len(e.tasks), 'task')} approved"),
    _H.CycleStarted: lambda e: FeedLine(DOT, f"cycle {e.cycle} begins on {e.base_sha[:10]}"),
    _H.WaveStarted: lambda e: FeedLine(DOT, f"wave: {e.stage}"),
    _H.CycleEnded: _skip,
    _H.TaskMoved: _describe_move,
    _H.AttemptIntended: _skip,
    _H.AttemptStarted: lambda e: FeedLine(DOT, f"{format_attempt(e.attempt)} started"),
    _H.AttemptStalled: lambda e: FeedLine(
        NOTE, f"{format_attempt(e.attempt)} has been silent for {format_duration(e.seconds)}"
    ),
    _H.AttemptNearsBudget: lambda e: FeedLine(
        NOTE, f"{format_attempt(e.attempt)} has used {e.used / max(e.limit, 1):.0%} of {_describe_limit(e)}"
    ),
    _H.OverlapSeen: lambda e: FeedLine(NOTE, describe_overlap(e)),
    _H.EditRefused: lambda e: FeedLine(BAD, f"the edited tasks file is invalid{_format_reason('; '.join(e.problems))}"),
    _H.RuntimeParked: lambda e: FeedLine(NOTE, f"{waiting(e)}{format_until(e.until)}{_format_reason(e.reason)}"),
    _H.RuntimeResumed: lambda e: FeedLine(DOT, f"{e.runtime} is available again{_format_reason(e.reason)}"),
    _H.AttemptEnded: lambda e: _describe_end(e.attempt, e.ended),
    _H.Checked: _skip,
    _H.VerdictGiven: lambda e: FeedLine(
        OK if e.verdict.passed else BAD,
        f"{e.task} {'validated' if e.verdict.passed else 'not validated'}{_format_reason(e.verdict.notes)}",
    ),
    _H.ChangesetsFormed: _describe_changesets,
    _H.ChangesetBuilt: lambda e: (
        FeedLine(NOTE, f"flaky, failed and then passed on the same tree: {', '.join(e.build.flaky)}")
        if e.build.flaky
        else None
    ),
    _H.ChangesetEvicted: lambda e: FeedLine(BAD, f"{e.changeset} cannot land{_format_reason(e.reason)}"),
    _H.ChangesetTrimmed: lambda e: FeedLine(
        BAD, f"{e.changeset} continues without {', '.join(e.tasks)}{_format_reason(e.reason)}"
    ),
    _H.ChangesetConflicted: lambda e: FeedLine(
        AGAIN, f"{e.changeset} conflicts in {', '.join(e.conflict.paths)}: starting a merger"
    ),
    _H.ConflictResolved: lambda e: FeedLine(
        OK, f"{e.changeset}: conflict resolved{_format_reason(e.resolution.notes)}"
    ),
    _H.PullRequestOpened: lambda e: FeedLine(OK, f"{e.changeset} was pushed as {e.branch}{_format_reason(e.url)}"),
    _H.ChangesetJudged: lambda e: FeedLine(OK if e.choice == "approve" else AGAIN, f"{e.changeset}: {e.choice}"),
    _H.Landed: lambda e: FeedLine(
        OK, f"{e.changeset} landed as {e.after[:10]}" + (f" ({e.checkout})" if e.checkout else "")
    ),
    _H.GateOpened: lambda e: FeedLine(QUESTION, f"{e.gate.id}{_format_reason(e.gate.title)}"),
    _H.GateAnswered: lambda e: FeedLine(
        DOT, f"{e.gate}: {e.answer.choice}, by {e.answer.by}{_format_reason(e.answer.note)}"
    ),
    _H.SlotsChanged: lambda e: FeedLine(
        NOTE, f"{e.slots} of {e.configured} workers at once" + (f": {e.reason}" if e.slots < e.configured else "")
    ),
    _H.BudgetWarned: lambda e: FeedLine(NOTE, f"{e.used / e.limit:.0%} of the {e.budget}'s budget is used"),
    _H.SessionEnded: lambda e: FeedLine(
        OK if e.outcome == "completed" else NOTE, f"{e.outcome}{_format_reason(e.reason)}"
    ),
}
"""Events that are not in this table get their line of the activity log."""
