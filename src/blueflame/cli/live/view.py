"""The view of a running session: a frame on a terminal, one line per event in a pipe."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from blueflame.cli.live.feed import format_events
from blueflame.cli.live.frame import MAX_EVENTS, SessionFrame
from blueflame.cli.render.activity import draw_activity_line, draw_command_line
from blueflame.model.activity import Activity
from blueflame.model.event import JournalEntry
from blueflame.session.state import Session
from blueflame.system.lines import STEP_BYTES
from blueflame.telemetry.activity import ActivityTracker
from blueflame.views.session import PersonLocks, list_commands_under_way

MIN_FRAME_SECONDS = 0.125  # between two frames: a faster view only flickers
QUIET_SECONDS = 60.0  # without an event, after which lines say what each agent does
MAX_FIRST_READ = 4 * 1024 * 1024  # bytes

ReadActivities = Callable[[], Mapping[str, Activity]]
"""Reads what each agent does now, by attempt."""
ReadLocks = Callable[[], PersonLocks]


class ActivityReader:
    """Reads what the running agents of one session do now, each time it is called."""

    def __init__(self, follower: ActivityTracker, session: Session) -> None:
        self._follower, self._session = follower, session
        self._most = MAX_FIRST_READ  # the first read may have much to catch up on

    def __call__(self) -> Mapping[str, Activity]:
        session, most, self._most = self._session, self._most, STEP_BYTES
        self._follower.keep_only(session.live)
        return {name: self._follower.read_activity(session.attempts[name], most=most) for name in session.live}


class LiveView(Protocol):
    """An observer of the session. Between pause and resume the terminal belongs to a question."""

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None: ...
    def tick(self, now: float) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None: ...


class EventLines:
    """One line per significant event: for pipes, logs and dumb terminals."""

    def __init__(
        self, console: Console, activities: ReadActivities = dict, *, timer: Callable[[], float] = monotonic
    ) -> None:
        self._console, self._activities, self._timer = console, activities, timer
        self._printed_at = timer()
        self._seen_session: Session | None = None

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None:
        self._seen_session = session
        self._print(format_events(recorded))

    def tick(self, now: float) -> None:
        """After a long silence, print a line for each agent, and for what runs without one."""
        if self._timer() - self._printed_at >= QUIET_SECONDS:
            commands = list_commands_under_way(self._seen_session, now) if self._seen_session else ()
            self._print(
                [
                    *(draw_activity_line(each, now=now) for each in self._activities().values()),
                    *(draw_command_line(each, now=now) for each in commands),
                ]
            )

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _print(self, lines: Sequence[Text]) -> None:
        for line in lines:
            self._console.print(line, soft_wrap=True)
            self._printed_at = self._timer()


class NoView(EventLines):
    """Shows nothing: for --quiet, and for commands that print one JSON object at the end."""

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None:
        pass

    def tick(self, now: float) -> None:
        pass


class LiveFrame:
    """The frame, redrawn in place a few times a second."""

    def __init__(
        self,
        console: Console,
        activities: ReadActivities = dict,
        *,
        timer: Callable[[], float] = monotonic,
        asked_elsewhere: bool = False,
        read_locks: ReadLocks = dict,
    ) -> None:
        self._console, self._activities, self._timer = console, activities, timer
        self._asked_elsewhere, self._read_locks = asked_elsewhere, read_locks
        self._recent: deque[Text] = deque(maxlen=MAX_EVENTS)
        self._session: Session | None = None
        self._now = 0.0
        self._drawn_at = float("-inf")
        self._drawn: object = None
        self._live: Live | None = None
        self.resume()

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None:
        self._session = session
        self._now = max([self._now, *(each.at for each in recorded)])
        self._recent.extend(format_events(recorded))
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
            self._drawn_at, self._drawn = float("-inf"), None

    def close(self) -> None:
        self.pause()

    def _draw(self) -> None:
        """Draw if anything changed; the clock in it changes once a second."""
        at = self._timer()
        if self._live is None or self._session is None or at - self._drawn_at < MIN_FRAME_SECONDS:
            return
        self._drawn_at = at
        activities, locked = self._activities(), self._read_locks()
        news = (self._session.seq, int(self._now), activities, locked, self._console.size)
        if news == self._drawn:
            return
        self._drawn = news
        height = self._console.size.height
        picture = SessionFrame(
            self._session,
            self._now,
            activities,
            self._recent,
            height,
            asked_elsewhere=self._asked_elsewhere,
            locked=locked,
        )
        self._live.update(picture, refresh=True)


def choose_view(
    console: Console, activities: ReadActivities = dict, *, quiet: bool = False, read_locks: ReadLocks = dict
) -> LiveView:
    """The frame on a terminal, lines in a pipe, nothing when quiet."""
    if quiet:
        return NoView(console)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveFrame(console, activities, read_locks=read_locks)
    return EventLines(console, activities)
