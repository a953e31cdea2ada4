"""A session in a few lines: where it stands, what happened since, what waits for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blueflame.model.event import JournalEntry
from blueflame.model.gate import Gate
from blueflame.session.state import Session
from blueflame.text.event_lines import describe_event_briefly
from blueflame.text.sanitize import shorten_line
from blueflame.views.session import format_budget
from blueflame.views.sessions import build_session_row

MAX_REQUEST_CHARS, MAX_LINE_CHARS, MAX_GATES = 120, 160, 5
NEWEST, PAGE = 8, 25  # lines


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class OpenGate:
    id: str
    asks: str
    options: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK takes them for default values
class Brief:
    session: str
    request: str
    state: str
    running: bool
    tasks: Mapping[str, int]  # by state
    cost: str
    events: tuple[str, ...]
    cursor: int  # pass it as `since` to see only what is new
    more: bool  # there are events behind the cursor
    gates: tuple[OpenGate, ...]
    next: str  # empty when nothing is to be done


def build_brief(
    session: Session, events: Sequence[JournalEntry], *, since: int | None, running: bool, for_subagents: int = 0
) -> Brief:
    """`events`: those after `since`; without one the newest lines are shown. `for_subagents`: tasks that wait."""
    row = build_session_row(session, running=running)
    lines = _list_lines(events)
    shown = lines[-NEWEST:] if since is None else lines[:PAGE]
    more = since is not None and len(lines) > PAGE
    last = events[-1].seq if events else since or 0
    return Brief(
        session=session.id,
        request=shorten_line(session.request, MAX_REQUEST_CHARS),
        state=row.state,
        running=row.running,
        tasks=dict(sorted(Counter(each.state.value for each in session.tasks.values()).items())),
        cost=format_budget(session.limits.session_budget, session.spend),
        events=tuple(text for _, text in shown),
        cursor=shown[-1][0] if more else last,
        more=more,
        gates=() if session.ended else tuple(build_open_gate(each) for each in _list_first(session)),
        next=_find_next_step(session, running=row.running, for_subagents=for_subagents),
    )


def build_open_gate(gate: Gate) -> OpenGate:
    asks = shorten_line(gate.title, MAX_LINE_CHARS)
    return OpenGate(id=gate.id, asks=asks, options=tuple(option.name for option in gate.options))


def _list_first(session: Session) -> list[Gate]:
    return list(session.open_gates.values())[:MAX_GATES]


def _list_lines(events: Sequence[JournalEntry]) -> list[tuple[int, str]]:
    described = ((each.seq, describe_event_briefly(each)) for each in events)
    return [(seq, shorten_line(f"{line.mark} {line.words}", MAX_LINE_CHARS)) for seq, line in described if line]


def _find_next_step(session: Session, *, running: bool, for_subagents: int) -> str:
    if session.ended:
        return ""
    if for_subagents:
        wait = "task waits" if for_subagents == 1 else "tasks wait"
        return f"{for_subagents} {wait} for a subagent of this conversation: the skill dispatch starts them"
    if session.open_gates:
        return "a person decides"
    return "" if running else "not running: resume continues it"
