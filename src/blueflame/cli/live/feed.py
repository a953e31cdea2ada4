"""What just happened, for somebody who watches: shorter than the activity log, which keeps everything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.text import Text

from blueflame.model import event as happened
from blueflame.model.attempt import Ended, Ending
from blueflame.model.event import Recorded
from blueflame.model.spend import Budget
from blueflame.model.task import Cause
from blueflame.session.overlaps import overlap_words
from blueflame.session.rate_limits import told as waiting
from blueflame.text.event_lines import describe
from blueflame.text.format import count, duration, named, until
from blueflame.text.marks import BAD, DOT, NOTE, OK
from blueflame.text.sanitize import one_line

ON = "→"
QUESTION = "?"
STYLES: Mapping[str, str] = {OK: "good", BAD: "bad", NOTE: "warn", ON: "warn", QUESTION: "warn", DOT: "quiet"}


class Told(NamedTuple):
    mark: str
    words: str


MOVES: Mapping[Cause, tuple[str, str]] = {
    Cause.FAIL: (BAD, "failed"),
    Cause.RETRY: (ON, "is tried again"),
    Cause.REQUEUE: (ON, "goes back to the queue"),
    Cause.DEFER: (ON, "is deferred"),
    Cause.BLOCK: (BAD, "is blocked"),
    Cause.DROP: (DOT, "was dropped"),
}
"""Other moves are told by the events that cause them."""


def tell_all(recorded: Sequence[Recorded]) -> list[Text]:
    """What happened together, told together: a failure that is tried again at once needs one line, not two."""
    retried = {
        e.event.task for e in recorded if isinstance(e.event, happened.TaskMoved) and e.event.cause is Cause.RETRY
    }
    lines = (tell(each) for each in recorded if not _failed_one_of(retried, each))
    return [line for line in lines if line is not None]


def _failed_one_of(tasks: Collection[str], recorded: Recorded) -> bool:
    event = recorded.event
    return isinstance(event, happened.TaskMoved) and event.cause is Cause.FAIL and event.task in tasks


def tell(recorded: Recorded) -> Text | None:
    """`12:03:04  ✓ task-001 #1 passed`, in the person's own time; None for what is not worth a line."""
    event = recorded.event
    told = TELL[type(event)](event) if type(event) in TELL else Told(DOT, describe(recorded)[0].details)
    if told is None:
        return None
    at = datetime.fromtimestamp(recorded.at).astimezone()
    return Text.assemble(
        (f"{at:%H:%M:%S}  ", "quiet"), (f"{told.mark} ", STYLES[told.mark]), one_line(told.words), no_wrap=True
    )


def _ended(attempt: str, ended: Ended) -> Told:
    commits = f", {count(ended.commits, 'commit')}" if ended.commits else ""
    cost = f", ${ended.spend.usd:.2f}" if ended.spend.micro_usd else ""
    why = "; ".join(str(violation) for violation in ended.violations) or ended.notes
    took = f"{named(attempt)} {ended.ending.value.replace('_', ' ')} after {duration(ended.seconds)}{commits}{cost}"
    if ended.ending is Ending.PASSED:
        return Told(OK, took)
    return Told(BAD, took + _because(why))


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _moved(event: happened.TaskMoved) -> Told | None:
    if event.cause not in MOVES:
        return None
    mark, words = MOVES[event.cause]
    why = "" if event.cause is Cause.RETRY else _because(event.reason)  # the attempt's end has said why
    return Told(mark, f"{event.task} {words}{why}")


def _formed(event: happened.ChangesetsFormed) -> Told:
    """A group that is not whole is told before anybody judges it (VAL-10)."""
    lacking = [f"[{each.group}] lacks {', '.join(each.missing)}" for each in event.changesets if each.missing]
    words = f"{count(len(event.changesets), 'changeset')} to review"
    return Told(NOTE, f"{words}; {'; '.join(lacking)}") if lacking else Told(DOT, words)


def _which(event: happened.AttemptNearsBudget) -> str:
    amount = Budget(event.unit).show(event.limit)
    return f"its {amount}" if event.budget == "attempt" else f"the {amount} that the {event.budget}'s budget leaves it"


def _nothing(_event: happened.Event) -> None:
    return None


_H = happened

TELL: Mapping[type, Callable[[Any], Told | None]] = {
    _H.SessionOpened: lambda e: Told(DOT, f"session {e.session} on {e.base_branch}"),
    _H.OrchestratorStarted: _nothing,
    _H.PlanProposed: lambda e: Told(
        BAD if e.problems else DOT,
        f"a plan of {count(len(e.tasks), 'task')}"
        + (f" with {count(len(e.problems), 'problem')}" if e.problems else ""),
    ),
    _H.PlanFailed: lambda e: Told(BAD, f"no plan came of it{_because(e.reason)}"),
    _H.PlanApproved: lambda e: Told(OK, f"the plan of {count(len(e.tasks), 'task')} is approved"),
    _H.CycleStarted: lambda e: Told(DOT, f"cycle {e.cycle} begins on {e.base_sha[:10]}"),
    _H.WaveStarted: lambda e: Told(DOT, f"wave: {e.stage}"),
    _H.CycleEnded: _nothing,
    _H.TaskMoved: _moved,
    _H.AttemptIntended: _nothing,
    _H.AttemptStarted: lambda e: Told(DOT, f"{named(e.attempt)} started"),
    _H.AttemptStalled: lambda e: Told(NOTE, f"{named(e.attempt)} has said nothing for {duration(e.seconds)}"),
    _H.AttemptNearsBudget: lambda e: Told(
        NOTE, f"{named(e.attempt)} has used {e.used / max(e.limit, 1):.0%} of {_which(e)}"
    ),
    _H.OverlapSeen: lambda e: Told(NOTE, overlap_words(e)),
    _H.EditRefused: lambda e: Told(BAD, f"the changed tasks file cannot be used{_because('; '.join(e.problems))}"),
    _H.RuntimeParked: lambda e: Told(NOTE, f"{waiting(e)}{until(e.until)}{_because(e.reason)}"),
    _H.RuntimeResumed: lambda e: Told(DOT, f"{e.runtime} can be used again{_because(e.reason)}"),
    _H.AttemptEnded: lambda e: _ended(e.attempt, e.ended),
    _H.Checked: _nothing,
    _H.VerdictGiven: lambda e: Told(
        OK if e.verdict.passed else BAD,
        f"{e.task} {'validated' if e.verdict.passed else 'not validated'}{_because(e.verdict.notes)}",
    ),
    _H.ChangesetsFormed: _formed,
    _H.ChangesetBuilt: lambda e: (
        Told(NOTE, f"flaky, red and then green on the same tree: {', '.join(e.build.flaky)}") if e.build.flaky else None
    ),
    _H.ChangesetEvicted: lambda e: Told(BAD, f"{e.changeset} cannot land{_because(e.reason)}"),
    _H.ChangesetTrimmed: lambda e: Told(BAD, f"{e.changeset} goes on without {', '.join(e.tasks)}{_because(e.reason)}"),
    _H.ChangesetConflicted: lambda e: Told(
        ON, f"{e.changeset} is in conflict in {', '.join(e.conflict.paths)}: a merger is asked"
    ),
    _H.ConflictResolved: lambda e: Told(OK, f"{e.changeset}: the conflict is resolved{_because(e.resolution.notes)}"),
    _H.PullRequestOpened: lambda e: Told(OK, f"{e.changeset} was pushed as {e.branch}{_because(e.url)}"),
    _H.ChangesetJudged: lambda e: Told(OK if e.choice == "approve" else ON, f"{e.changeset}: {e.choice}"),
    _H.Landed: lambda e: Told(
        OK, f"{e.changeset} landed as {e.after[:10]}" + (f" ({e.checkout})" if e.checkout else "")
    ),
    _H.GateOpened: lambda e: Told(QUESTION, f"{e.gate.id}{_because(e.gate.title)}"),
    _H.GateAnswered: lambda e: Told(DOT, f"{e.gate}: {e.answer.choice}, by {e.answer.by}{_because(e.answer.note)}"),
    _H.SlotsChanged: lambda e: Told(
        NOTE, f"{e.slots} of {e.configured} workers at once" + (f": {e.reason}" if e.slots < e.configured else "")
    ),
    _H.BudgetWarned: lambda e: Told(NOTE, f"{e.used / e.limit:.0%} of the {e.budget}'s budget is used"),
    _H.SessionEnded: lambda e: Told(OK if e.outcome == "completed" else NOTE, f"{e.outcome}{_because(e.reason)}"),
}
"""What is missing here is told as in the activity log."""
