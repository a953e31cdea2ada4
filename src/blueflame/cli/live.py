"""The session as it happens: a calm frame on a terminal, one line per event in a pipe, JSON lines for machines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from blueflame.cli.paint import Heading
from blueflame.cli.plain import clean, clock, one_line
from blueflame.cli.show_session import MARKS, budget_line
from blueflame.cli.telling import tell_all
from blueflame.model.attempt import AttemptRecord
from blueflame.model.event import Recorded
from blueflame.model.task import VERIFIED, TaskState
from blueflame.rules.session import Session
from blueflame.tools.store.codec import encode

EVERY = 0.125  # seconds between two frames at least: more is only flicker
RECENT = 6
BAR = 20

Words = Callable[[], Mapping[str, str]]
"""What each agent said last, by agent id; asked for when a frame is drawn."""


class LiveView(Protocol):
    """An onlooker of the session. Between pause and resume the terminal belongs to a question."""

    def see(self, session: Session, recorded: Sequence[Recorded]) -> None: ...
    def tick(self, now: float) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None: ...


class LineLog:
    """One line per significant event: for pipes, logs and dumb terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def see(self, session: Session, recorded: Sequence[Recorded]) -> None:  # noqa: ARG002 - an onlooker gets both
        for line in tell_all(recorded):
            self._console.print(line, soft_wrap=True)

    def tick(self, now: float) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass


class JsonLines(LineLog):
    """Every event as one JSON object on one line."""

    def see(self, session: Session, recorded: Sequence[Recorded]) -> None:
        for each in recorded:
            kind, body = encode(each.event)
            line = {"session": session.id, "seq": each.seq, "at": each.at, "kind": kind, "event": json.loads(body)}
            self._console.file.write(json.dumps(line) + "\n")
        self._console.file.flush()


class Silence(LineLog):
    """Nothing at all: for --quiet and for commands that print one JSON object at the end."""

    def see(self, session: Session, recorded: Sequence[Recorded]) -> None:
        pass


class Frame:
    """Who works on what, for how long and for how much, redrawn in place a few times a second."""

    def __init__(self, console: Console, words: Words = dict, *, timer: Callable[[], float] = monotonic) -> None:
        self._console, self._words, self._timer = console, words, timer
        self._recent: deque[Text] = deque(maxlen=RECENT)
        self._session: Session | None = None
        self._now = 0.0
        self._drawn_at = float("-inf")
        self._live: Live | None = None
        self.resume()

    def see(self, session: Session, recorded: Sequence[Recorded]) -> None:
        self._session = session
        self._now = max([self._now, *(each.at for each in recorded)])
        self._recent.extend(tell_all(recorded))
        self._draw()

    def tick(self, now: float) -> None:
        self._now = now
        self._draw()

    def pause(self) -> None:
        """Take the frame off the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def resume(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="ellipsis")
            self._live.start()
            self._drawn_at = float("-inf")

    def close(self) -> None:
        self.pause()

    def _draw(self) -> None:
        at = self._timer()
        if self._live is None or self._session is None or at - self._drawn_at < EVERY:
            return
        self._drawn_at = at
        rows = max(self._console.height - 12, 3)
        self._live.update(
            frame(self._session, now=self._now, words=self._words(), recent=self._recent, rows=rows), refresh=True
        )


def live_view(console: Console, words: Words = dict, *, as_json: bool = False, quiet: bool = False) -> LiveView:
    """The view that suits who is watching."""
    if as_json:
        return JsonLines(console)
    if quiet:
        return Silence(console)
    if console.is_terminal and not console.is_dumb_terminal:
        return Frame(console, words)
    return LineLog(console)


def frame(
    session: Session, *, now: float, words: Mapping[str, str], recent: Sequence[Text] | deque[Text] = (), rows: int = 12
) -> RenderableType:
    """The whole picture; `rows` bounds the list of agents, so that it fits the screen."""
    stage = f"cycle {session.cycle}" if session.cycle else ""
    doing = session.wave or session.phase.value
    parts: list[RenderableType] = [
        Heading("Blue Flame", stage, doing, clock(now - session.opened_at), session.id),
        _bars(session),
    ]
    live = [session.attempts[name] for name in session.live]
    if live:
        parts += ["", _agents(live, now, words, rows)]
    if session.open_gates:
        parts += ["", *(_question(gate.id, gate.title) for gate in session.open_gates.values())]
    if recent:
        parts += ["", *(_cut(line) for line in recent)]
    return Group(*parts)


def _bars(session: Session) -> RenderableType:
    budget = session.limits.session_budget
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    if session.tasks:
        total, landed = len(session.tasks), session.count(TaskState.MERGED)
        shares = ((landed, "━", "good"), (session.count(*VERIFIED) - landed, "╍", "id"))
        grid.add_row(Text("tasks", "quiet"), bar(shares, total), _standing(session, landed, total))
    used = 0 if budget.unlimited else budget.used(session.spend)
    style = "warn" if used >= budget.limit * session.limits.warn_threshold else "id"
    line = Text(budget_line(budget, session.spend))
    grid.add_row(Text("cost", "quiet"), bar(((used, "━", style),), budget.limit), line)
    return grid


def bar(shares: Sequence[tuple[int, str, str]], whole: int) -> Text:
    """Shares of a whole, each with its own glyph and style; the rest is a thin line."""
    text, drawn, sofar = Text(), 0, 0
    for share, glyph, style in shares:
        sofar += share
        upto = min(BAR, BAR * sofar // whole) if whole else 0
        text.append(glyph * (upto - drawn), style)
        drawn = upto
    return text.append("─" * (BAR - drawn), "quiet")


def _standing(session: Session, done: int, total: int) -> Text:
    """`3 of 12 landed`, and the other states that occur, each with its mark."""
    text = Text(f"{done} of {total} landed", overflow="ellipsis")
    for state, (mark, style) in MARKS.items():
        n = session.count(state)
        if n and state is not TaskState.MERGED:
            text.append(f"  {mark} ", style).append(f"{n} {state.value}")
    return text


def _agents(records: Sequence[AttemptRecord], now: float, words: Mapping[str, str], rows: int) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1, style="quiet")
    ordered = sorted(records, key=lambda record: (record.intended_at, record.attempt.id))
    for record in ordered[:rows]:
        attempt = record.attempt
        since = record.started_at or record.intended_at
        said = one_line(words.get(attempt.agent_id, "")) or ("ending" if record.cancel_reason else "")
        grid.add_row(
            Text(attempt.agent_id, "id"),
            f"{clean(attempt.subject)} #{attempt.n}",
            clock(now - since),
            said or ("starting" if record.started_at is None else ""),
        )
    if len(ordered) > rows:
        grid.add_row(Text(f"… {len(ordered) - rows} more", "quiet"))
    return grid


def _question(gate: str, title: str) -> Text:
    return _cut(Text.assemble(("? ", "warn"), (f"{gate}  ", "id"), one_line(title)))


def _cut(line: Text) -> Text:
    line = line.copy()
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
