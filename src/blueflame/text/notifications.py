"""Notifications for a person who is away: what is asked, and how to answer.

Only titles, ids, counts and cost: a message leaves the machine, and reasons, notes and output may contain secrets. A
title that looks like a secret is withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from blueflame.checks.secrets.scan import find_secrets
from blueflame.lazy_dataclass import dataclass
from blueflame.model import event as happened
from blueflame.model.event import JournalEntry
from blueflame.model.gate import Gate, GateKind
from blueflame.model.task import Cause, TaskState
from blueflame.session.budget import format_session_budget
from blueflame.session.rate_limits import ACCOUNT_KINDS, OUTAGE_WORDS
from blueflame.session.state import Session
from blueflame.text.format import format_count, format_dollars
from blueflame.text.questions import count_choices
from blueflame.text.sanitize import shorten_line

GATE, ENDED, FAILED, PARKED, BUDGET = "gate", "ended", "failed", "parked", "budget"
MAX_TITLE_CHARS = 160
MESSAGE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    topic: str
    words: str
    answer: str = ""  # the command with which to answer or to continue
    gate: str = ""
    project: str = ""
    session: str = ""
    landed: int = 0
    failed: int = 0
    tasks: int = 0
    cost_usd: float = 0.0


def build_notifications(session: Session, recorded: Sequence[JournalEntry]) -> Iterator[Notification]:
    """Yield the notifications about recorded events; `session` is the state after all of them."""
    for each in recorded:
        describe = DESCRIPTIONS.get(type(each.event))
        for text in describe(session, each.event) if describe else ():
            yield _build_notification(session, *text)


def build_death_notification(session: Session, recorded: Sequence[JournalEntry]) -> Notification | None:
    """Build the notification about a session whose orchestrator is gone; None if it said that it stops."""
    turns = [each.event for each in recorded if isinstance(each.event, ORCHESTRATOR_TURNS)]
    if session.ended or isinstance(turns[-1], happened.OrchestratorStopped):
        return None
    words = f"its orchestrator was killed or has failed: {_count_landed(session)}; it can be resumed"
    return _build_notification(session, ENDED, words, "blueflame resume", "")


ORCHESTRATOR_TURNS = (happened.SessionOpened, happened.OrchestratorStarted, happened.OrchestratorStopped)


def _build_notification(session: Session, topic: str, words: str, answer: str, gate: str) -> Notification:
    return Notification(
        topic=topic,
        words=words,
        answer=answer,
        gate=gate,
        project=clean_title(session.project),
        session=session.id,
        landed=session.count_in_state(TaskState.MERGED),
        failed=session.count_in_state(TaskState.FAILED),
        tasks=len(session.tasks),
        cost_usd=round(session.spend.usd, 4),
    )


def find_settled_gates(recorded: Sequence[JournalEntry]) -> frozenset[str]:
    """Return the gates that are answered or withdrawn: no notification about them is needed any more."""
    settling = (happened.GateAnswered, happened.GateWithdrawn)
    return frozenset(each.event.gate for each in recorded if isinstance(each.event, settling))


def build_message(notice: Notification, more: int = 0) -> dict[str, Any]:
    """Build the JSON that a command reads on stdin and a webhook receives."""
    return {
        "schema_version": MESSAGE_VERSION,
        "topic": notice.topic,
        "project": notice.project,
        "session": notice.session,
        "title": format_headline(notice),
        "text": "\n".join([format_headline(notice), format_body(notice, more)]),
        "words": notice.words,
        "answer": notice.answer,
        "gate": notice.gate or None,
        "tasks": {"landed": notice.landed, "failed": notice.failed, "total": notice.tasks},
        "cost_usd": notice.cost_usd,
        "more": more,
    }


HEADLINES: Mapping[str, str] = {
    GATE: "waits for you",
    ENDED: "has ended",
    FAILED: "has a failed task",
    PARKED: "waits for its model or for a free agent",
    BUDGET: "reaches its budget",
}


def format_headline(notice: Notification) -> str:
    return f"Blue Flame: {notice.project} {HEADLINES[notice.topic]}"


def format_body(notice: Notification, more: int = 0) -> str:
    rest = [f"and {more} more"] if more else []
    return "\n".join(part for part in (notice.words, *rest, notice.answer) if part)


def clean_title(title: str) -> str:
    """Return the title on one safe line; withheld if it looks like a secret."""
    if find_secrets("title", [(1, title)]):
        return "(a title that looks like a secret is withheld)"
    return shorten_line(title, MAX_TITLE_CHARS)


NotificationText = tuple[str, str, str, str]


def _describe_gate_opened(session: Session, event: happened.GateOpened) -> Iterator[NotificationText]:
    gate = event.gate
    yield GATE, _describe_gate(gate), format_answer_command(gate), gate.id
    if gate.kind is GateKind.BUDGET:
        yield BUDGET, f"used up: {format_session_budget(session)}", format_answer_command(gate), ""


def _describe_gate(gate: Gate) -> str:
    """What an agent asks stays on the machine, like all that agents write."""
    if gate.kind is GateKind.CLARIFICATION:
        agent = clean_title(str(gate.evidence.get("agent", "an agent")))
        return f"{agent} has a question about {gate.subject} ({count_choices(gate)})"
    return clean_title(gate.title)


def format_answer_command(gate: Gate) -> str:
    return f"blueflame answer {gate.id} {'|'.join(option.name for option in gate.options)}"


def _describe_session_ended(session: Session, event: happened.SessionEnded) -> Iterator[NotificationText]:
    cost = format_dollars(session.spend.micro_usd, places=2)
    words = f"{event.outcome.replace('_', ' ')}: {_count_landed(session)}, {cost}"
    yield ENDED, words, f"blueflame report {session.id}", ""


def _count_landed(session: Session) -> str:
    return f"{session.count_in_state(TaskState.MERGED)} of {len(session.tasks)} tasks landed"


def _describe_orchestrator_stopped(
    session: Session, _event: happened.OrchestratorStopped
) -> Iterator[NotificationText]:
    yield ENDED, f"stopped: {_count_landed(session)}; it can be resumed", "blueflame resume", ""


def _describe_task_failed(session: Session, event: happened.TaskMoved) -> Iterator[NotificationText]:
    """Describe a failed task, unless it is tried again."""
    record = session.tasks[event.task]
    if event.cause is Cause.FAIL and record.state is TaskState.FAILED:
        words = f"{event.task} ({clean_title(record.task.title)}) after {format_count(record.attempts, 'attempt')}"
        yield FAILED, words, f"blueflame status {session.id}", ""


def _describe_runtime_parked(_session: Session, event: happened.RuntimeParked) -> Iterator[NotificationText]:
    if event.kind in ACCOUNT_KINDS and event.until is not None:  # it is only tried again
        return
    yield PARKED, f"{event.runtime}: {OUTAGE_WORDS.get(event.kind, event.kind)}", "blueflame watch", ""


def _describe_slot_awaited(_session: Session, event: happened.SlotAwaited) -> Iterator[NotificationText]:
    if event.wait is not None and event.wait.is_late and not event.wait.may_spawn:  # else a gate asks
        queue = "" if event.wait.for_money else f"{event.wait.queue}. "
        words = f"{event.wait.subject} waits for a {event.role} agent: {queue}{event.wait.reason}"
        yield BUDGET if event.wait.for_money else PARKED, words, "blueflame status --house", ""


def _describe_budget_warned(_session: Session, event: happened.BudgetWarned) -> Iterator[NotificationText]:
    yield BUDGET, f"{event.used / max(event.limit, 1):.0%} of the {event.budget}'s budget is used", "blueflame cost", ""


DESCRIPTIONS: Mapping[type, Callable[[Session, Any], Iterator[NotificationText]]] = {
    happened.GateOpened: _describe_gate_opened,
    happened.SessionEnded: _describe_session_ended,
    happened.OrchestratorStopped: _describe_orchestrator_stopped,
    happened.TaskMoved: _describe_task_failed,
    happened.RuntimeParked: _describe_runtime_parked,
    happened.SlotAwaited: _describe_slot_awaited,
    happened.BudgetWarned: _describe_budget_warned,
}
