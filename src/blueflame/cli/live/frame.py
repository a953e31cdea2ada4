"""The session at one moment, fitted to the terminal: agents, their work, time and cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from blueflame.cli.console import Heading
from blueflame.cli.render.activity import ACTIVITY_MARKS, draw_activity, draw_budget_bar
from blueflame.lazy_dataclass import dataclass
from blueflame.model.activity import Activity, AgentState, AgentStatus
from blueflame.model.attempt import AttemptRecord
from blueflame.model.event import RuntimeParked
from blueflame.model.gate import Gate
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.model.task import VERIFIED, TaskState
from blueflame.session.overlaps import describe_overlap, list_current_overlaps
from blueflame.session.state import Session
from blueflame.text.format import format_clock, format_dollars
from blueflame.text.marks import MARKS as TASK_MARKS
from blueflame.text.questions import list_choices
from blueflame.text.sanitize import clean_line, clean_text
from blueflame.views.activity import describe_wait, format_tokens
from blueflame.views.session import (
    PersonLocks,
    find_wait_reason,
    format_budget,
    list_commands_under_way,
    list_hindrances,
    list_kept_back,
)

BAR_WIDTH, SHORT_BAR_WIDTH = 20, 10
NARROW, NARROWEST = 64, 48
MAX_EVENTS = 12
MAX_QUESTIONS = 3
GAP = 2
MIN_ACTIVITY_WIDTH = 12  # columns
AgentRow = tuple[AttemptRecord, Activity]


@dataclass(frozen=True, slots=True)
class SessionFrame:
    """Fits into `height` lines: events are left out first, then agents; what is left out is counted."""

    session: Session
    now: float
    activities: Mapping[str, Activity] = field(default_factory=dict)  # by attempt; missing ones are starting
    recent: Collection[Text] = ()
    height: int = 40
    asked_elsewhere: bool = False  # gates are answered elsewhere: show the command
    locked: PersonLocks = field(default_factory=dict)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        head = [*self._draw_head(width), *self._draw_commands(), *self._draw_parked(), *self._draw_waits()]
        head += self._draw_overlaps()
        asked = [*self.session.open_gates.values()][:MAX_QUESTIONS]
        gates = [line for gate in asked for line in self._draw_question(gate)]
        rows = self._build_rows()
        left = self.height - 1 - _count_head_lines(head, width) - _count_with_gap(gates)
        most = max(left - 1, 1)
        left -= _count_with_gap(rows[:most])
        agents = [AgentTable(rows, most, now=self.now, warn_at=self.session.limits.warn_threshold)] if rows else []
        kept = max(min(MAX_EVENTS, left - 1), 0)
        recent = [_keep_on_one_line(line) for line in self.recent][-kept:] if kept else []
        yield from head
        for part in (agents, gates, recent):
            yield from [Text(), *part] if part else []

    def _draw_head(self, width: int) -> list[RenderableType]:
        session = self.session
        stage = f"cycle {session.cycle}" if session.cycle else ""
        name = session.id if width > NARROWEST else ""
        doing = session.outcome or session.wave or session.phase.value
        age = (session.last_at if session.ended else self.now) - session.opened_at
        title = Heading("Blue Flame", stage, doing.replace("_", " "), format_clock(age), name)
        return [title, _draw_bars(session, sum((each.spend for each in self.activities.values()), NO_SPEND), width)]

    def _draw_commands(self) -> list[RenderableType]:
        """One line per check or build: they run without an agent."""
        mark, style = ACTIVITY_MARKS[AgentState.WORKING]
        commands = list_commands_under_way(self.session, self.now)[:MAX_QUESTIONS]
        return [_keep_on_one_line(Text.assemble((f"{mark} ", style), clean_line(each))) for each in commands]

    def _draw_parked(self) -> list[RenderableType]:
        """One line per runtime."""
        waits = {name: _build_parked_status(parked) for name, parked in self.session.parked.items()} | {
            activity.attempt.runtime: activity.status
            for activity in self.activities.values()
            if activity.status.state is AgentState.PARKED
        }
        return [
            _keep_on_one_line(Text(f"‖ {clean_text(name)} {describe_wait(waits[name])}", "warn"))
            for name in sorted(waits)
        ]

    def _draw_waits(self) -> list[RenderableType]:
        """One line for what fails and is tried again, for each of the next tasks that wait before they are tried
        again, and for those that a person's lock keeps back."""
        first = sorted(self.session.waiting, key=lambda name: (self.session.waiting[name], name))[:MAX_QUESTIONS]
        words = (f"{clean_line(name)} {find_wait_reason(self.session, name, self.now)}" for name in first)
        kept = islice(list_kept_back(self.session, self.now, self.locked), MAX_QUESTIONS)
        hindrances = list_hindrances(self.session, self.now)[:MAX_QUESTIONS]
        return [_keep_on_one_line(Text(f"‖ {line}", "warn")) for line in (*hindrances, *words, *kept)]

    def _draw_overlaps(self) -> list[RenderableType]:
        return [
            _keep_on_one_line(Text(f"! {clean_line(describe_overlap(each))}", "warn"))
            for each in list_current_overlaps(self.session)[:MAX_QUESTIONS]
        ]

    def _draw_question(self, gate: Gate) -> list[Text]:
        title = Text.assemble(("? ", "warn"), (f"{gate.id}  ", "id"), clean_line(gate.title))
        offered = " · ".join(list_choices(gate))
        choices = [Text(f"  {offered}", "quiet")] if offered else []
        ways = "|".join(option.name for option in gate.options)
        how = [Text(f"  blueflame answer {gate.id} {ways}", "quiet")] if self.asked_elsewhere else []
        return [_keep_on_one_line(line) for line in (title, *choices, *how)]

    def _build_rows(self) -> list[AgentRow]:
        records = [self.session.attempts[name] for name in self.session.live]
        ordered = sorted(records, key=lambda record: (record.intended_at, record.attempt.id))
        return [
            (record, self.activities.get(record.attempt.id, Activity(attempt=record.attempt))) for record in ordered
        ]


def _build_parked_status(parked: RuntimeParked) -> AgentStatus:
    return AgentStatus(state=AgentState.PARKED, kind=parked.kind, reason=parked.reason, until=parked.until)


@dataclass(frozen=True, slots=True)
class AgentTable:
    """A row per agent; in a narrow terminal the less useful columns are left out."""

    rows: Sequence[AgentRow]
    most: int
    now: float
    warn_at: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width
        shown = self.rows if len(self.rows) <= self.most else self.rows[: max(self.most - 1, 0)]
        fitting = [each for each in (*BEFORE, *AFTER) if room >= each.at]
        cells = {each: [each.cell(*row, self, room) for row in shown] for each in fitting}
        before, kept = ([each for each in kind if any(map(_measure, cells.get(each, ())))] for kind in (BEFORE, AFTER))
        taken = sum(max(map(_measure, cells[each]), default=0) + GAP for each in (*before, *kept))
        width = max(room - taken, MIN_ACTIVITY_WIDTH)
        grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False, collapse_padding=True)
        for each in before:
            grid.add_column(no_wrap=True, justify=each.justify)
        grid.add_column(no_wrap=True, width=width, overflow="ellipsis")
        for each in kept:
            grid.add_column(no_wrap=True, justify=each.justify)
        middle = [draw_activity(activity, now=self.now, width=width) for _record, activity in shown]
        for row in zip(*(cells[e] for e in before), middle, *(cells[e] for e in kept), strict=True):
            grid.add_row(*row)
        yield grid
        if len(shown) < len(self.rows):
            yield Text(f"… {len(self.rows) - len(shown)} more", "quiet")


def _format_name(record: AttemptRecord, activity: Activity, _view: AgentTable, _room: int) -> Text:
    mark, style = ACTIVITY_MARKS[activity.status.state]
    return Text.assemble((f"{mark} ", style), f"{clean_line(record.attempt.subject)} #{record.attempt.n}")


def _draw_budget(_record: AttemptRecord, activity: Activity, view: AgentTable, room: int) -> Text:
    return draw_budget_bar(activity, 10 if room >= 100 else 5, warn_at=view.warn_at)


class Column(NamedTuple):
    at: int  # minimal terminal width at which it is shown
    cell: Callable[[AttemptRecord, Activity, AgentTable, int], Text]
    justify: Literal["left", "right"] = "right"


BEFORE: tuple[Column, ...] = (
    Column(0, _format_name, "left"),
    Column(76, lambda record, _a, _v, _r: Text(record.attempt.agent_id, "id"), "left"),
    Column(130, lambda record, _a, _v, _r: Text(record.attempt.seat, "quiet"), "left"),
    Column(44, lambda record, _a, view, _r: Text(format_clock(view.now - (record.started_at or record.intended_at)))),
)
AFTER: tuple[Column, ...] = (
    Column(
        110, lambda _record, activity, _v, _r: Text(f"{activity.refused} refused" if activity.refused else "", "warn")
    ),
    Column(100, lambda _record, activity, _v, _r: Text(f"{format_tokens(activity.spend.tokens)} tok", "quiet")),
    Column(48, lambda _record, activity, _v, _r: Text(format_dollars(activity.spend.micro_usd, places=2))),
    Column(56, _draw_budget, "left"),
)
"""The columns left and right of an agent's activity. One that is empty in every row is left out."""


def _measure(text: Text) -> int:
    return cell_len(text.plain)


def _count_head_lines(parts: Sequence[RenderableType], width: int) -> int:
    """Count the title (two lines if narrow), its rule, and one line for each other part."""
    title, bars = parts[0], parts[1]
    assert isinstance(title, Heading)
    assert isinstance(bars, Table)
    breaks = -(-len(title.facts) // width) if width - len(title.title) - len(title.facts) < GAP else 0
    return 2 + breaks + bars.row_count + len(parts) - 2


def _count_with_gap(lines: Sequence[object]) -> int:
    return len(lines) + 1 if lines else 0


def _draw_bars(session: Session, live: Spend, room: int) -> Table:
    budget, width = session.limits.session_budget, SHORT_BAR_WIDTH if room < NARROW else BAR_WIDTH
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(no_wrap=True, min_width=len("tasks"))
    grid.add_column(no_wrap=True, min_width=width)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    if session.tasks:
        total, landed = len(session.tasks), session.count_in_state(TaskState.MERGED)
        shares = ((landed, "━", "good"), (session.count_in_state(*VERIFIED) - landed, "╍", "id"))
        grid.add_row(Text("tasks", "quiet"), draw_bar(shares, total, width), _format_states(session, landed, total))
    ended, running = budget.measure(session.spend), budget.measure(live)
    style = _choose_style(ended + running, budget.limit, session.limits.warn_threshold)
    used = ((ended, "━", style), (running, "╍", style))
    line = Text(f"{'~' if running else ''}{format_budget(budget, session.spend + live)}")
    grid.add_row(Text("cost", "quiet"), draw_bar(used, budget.limit, width), line)
    return grid


def _choose_style(used: int, limit: int, warn_at: float) -> str:
    if not limit or used < limit * warn_at:
        return "id"
    return "bad" if used >= limit else "warn"


def draw_bar(shares: Sequence[tuple[int, str, str]], whole: int, width: int = BAR_WIDTH) -> Text:
    """Draw shares of a whole, each with its glyph and style; the rest is a thin line."""
    text, drawn, sofar = Text(), 0, 0
    for share, glyph, style in shares:
        sofar += share
        upto = min(width, width * sofar // whole) if whole else 0
        text.append(glyph * (upto - drawn), style)
        drawn = upto
    return text.append("─" * (width - drawn), "quiet")


def _format_states(session: Session, done: int, total: int) -> Text:
    """`3 of 12 landed`, and the other states with their marks."""
    text = Text(f"{done} of {total} landed", overflow="ellipsis")
    for state, (mark, style) in TASK_MARKS.items():
        n = session.count_in_state(state)
        if n and state is not TaskState.MERGED:
            text.append(f"  {mark} ", style).append(f"{n} {state.value}")
    return text


def _keep_on_one_line(line: Text) -> Text:
    line = line.copy()
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
