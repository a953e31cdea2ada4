"""A session in a few lines: where it stands, what happened since, what waits for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

from blueflame.model.event import (
    AttemptEnded,
    AttemptStarted,
    ChangesetJudged,
    CycleStarted,
    GateOpened,
    JournalEntry,
    PlanApproved,
    SessionOpened,
    WaveStarted,
)
from blueflame.session.state import Session
from blueflame.text.event_lines import describe_event_briefly
from blueflame.text.sanitize import shorten_line
from blueflame.views.parts import Brief, OpenGate
from blueflame.views.session import format_budget
from blueflame.views.sessions import build_session_row

MAX_REQUEST_CHARS, MAX_LINE_CHARS, MAX_GATES = 120, 160, 5
NEWEST, PAGE = 8, 25  # lines


def build_brief(
    session: Session, events: Sequence[JournalEntry], *, since: int | None, running: bool, for_subagents: int = 0
) -> Brief:
    """`events`: those after `since`; without one the newest lines are shown. `for_subagents`: tasks that wait."""
    row = build_session_row(session, running=running)
    lines = _list_lines(session, events)
    shown = lines[-NEWEST:] if since is None else lines[:PAGE]
    more = since is not None and len(lines) > PAGE
    last = events[-1].seq if events else since or 0
    brief: Brief = {
        "session": session.id,
        "state": row.state,
        "running": row.running,
        "cost": format_budget(session.limits.session_budget, session.spend),
        "cursor": shown[-1][0] if more else last,
    }
    if since is None:
        brief["request"] = shorten_line(session.request, MAX_REQUEST_CHARS)
    if session.tasks:
        brief["tasks"] = dict(sorted(Counter(each.state.value for each in session.tasks.values()).items()))
    if shown:
        brief["events"] = tuple(text for _, text in shown)
    if more:
        brief["more"] = True
    if session.open_gates and not session.ended:
        brief["gates"] = tuple(
            OpenGate(id=gate.id, asks=shorten_line(gate.title, MAX_LINE_CHARS))
            for gate in islice(session.open_gates.values(), MAX_GATES)
        )
    if step := _find_next_step(session, running=row.running, for_subagents=for_subagents):
        brief["next"] = step
    return brief


def _list_lines(session: Session, events: Sequence[JournalEntry]) -> list[tuple[int, str]]:
    """A line of each event that says more than the rest of the brief, and than the events after it."""
    ended = {each.event.attempt for each in events if isinstance(each.event, AttemptEnded)}
    described = ((each.seq, describe_event_briefly(each)) for each in events if not _is_known(session, each, ended))
    return [(seq, shorten_line(f"{line.mark} {line.words}", MAX_LINE_CHARS)) for seq, line in described if line]


def _is_known(session: Session, entry: JournalEntry, ended: Collection[str]) -> bool:
    match entry.event:
        case GateOpened(gate=gate):
            return not session.ended and gate.id in session.open_gates
        case AttemptStarted(attempt=attempt):
            return attempt in ended
    # the answer of its gate is shown
    return isinstance(entry.event, SessionOpened | CycleStarted | WaveStarted | PlanApproved | ChangesetJudged)


def _find_next_step(session: Session, *, running: bool, for_subagents: int) -> str:
    if session.ended:
        return ""
    if for_subagents:
        wait = "task waits" if for_subagents == 1 else "tasks wait"
        return f"{for_subagents} {wait} for a subagent of this conversation: the skill dispatch starts them"
    if session.open_gates:
        return "a person decides"
    return "" if running else "not running: resume continues it"
