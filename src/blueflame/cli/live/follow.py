"""Watch a session from another terminal by reading its journal and its agents' files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import partial

from rich.console import Console
from rich.text import Text

from blueflame.cli.console import draw_line, make_console, print_view
from blueflame.cli.live.feed import format_events
from blueflame.cli.live.frame import SessionFrame
from blueflame.cli.live.view import ActivityReader, EventLines, LiveFrame, LiveView, ReadActivities, ReadLocks
from blueflame.cli.output import print_json, print_text
from blueflame.cli.render.activity import draw_activity_line, draw_command_line
from blueflame.journal.journal import Journal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.activity import Activity, AgentState, AgentStatus
from blueflame.model.attempt import AttemptRecord
from blueflame.model.errors import UsageError
from blueflame.model.event import AttemptEnded, JournalEntry
from blueflame.orchestrator.monitors.person_locks import show_locks
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import find_orchestrator, find_running_pid, find_session, load_session
from blueflame.orchestrator.wiring import build_follower, probe_agents
from blueflame.session.landed_work import count_landed_work
from blueflame.session.replay import apply_event
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock
from blueflame.telemetry.transcript import AgentTranscript, TranscriptEntry
from blueflame.text.format import format_duration
from blueflame.text.outcomes import describe_session_outcome
from blueflame.views.activity import build_activity_json
from blueflame.views.session import list_kept_back
from blueflame.views.status import describe_orchestrator
from blueflame.views.transcript import build_entry_json, describe_entry, get_entry_time

TICK_SECONDS = 0.25
CHECK_SECONDS = 1.0  # between two checks whether the session runs
UNLIMITED_HEIGHT = 100_000  # lines: a frame that is printed once need not fit a screen


@dataclass(slots=True)
class FollowedSession:
    """A session read from the journal, event by event."""

    project: Project
    journal: Journal
    session: Session
    now: Callable[[], float] = field(default_factory=lambda: SystemClock().now)
    _checked_at: float = 0.0
    _over: str = ""
    _noticed: str = ""  # the last notice about the orchestrator

    def read_new_events(self) -> list[JournalEntry]:
        events = self.journal.read_events(self.session.id, after=self.session.seq)
        for each in events:
            apply_event(self.session, each)
        return events

    def describe_end(self) -> str:
        """Return why the session does not run any more, and what to do; empty while it runs."""
        if self.session.ended:
            return describe_ended_session(self.session)
        if self.now() - self._checked_at >= CHECK_SECONDS:
            self._checked_at = self.now()
            self._over = self._describe_stopped()
        return self._over

    def take_notice(self) -> str:
        """Return once that the orchestrator is gone or hangs while its agents run; empty otherwise."""
        presence = find_orchestrator(self.project, self.session)
        if self.session.ended or self._is_behind() or (presence is not None and not presence.is_late(self.now())):
            self._noticed = ""
            return ""
        words = describe_orchestrator(presence, self.session, probe_agents(self.project, self.session), now=self.now())
        kind = words.partition("(")[0]  # without pid and times
        news, self._noticed = kind != self._noticed, kind
        return words if news else ""

    def _describe_stopped(self) -> str:
        newest = self.journal.find_unfinished()
        if find_running_pid(self.project) is not None and newest is not None and newest.id == self.session.id:
            return ""
        checkups = probe_agents(self.project, self.session)
        if self._is_behind() or any(found.warden_pid for found in checkups.values()):
            return ""  # its last events are to be shown, or its agents still run
        return f"{self.session.id}: {describe_orchestrator(None, self.session, checkups, now=self.now())}"

    def _is_behind(self) -> bool:
        """Whether there are events that were not read yet: the end of the session may be one of them."""
        return bool(self.journal.read_events(self.session.id, after=self.session.seq))


def follow_newest(project: Project, journal: Journal) -> Iterator[Session]:
    """Yield the newest session as it is now, for ever; only what is new is read."""
    followed: FollowedSession | None = None
    while True:
        newest = find_session(journal, None)
        if followed is None or followed.session.id != newest:
            followed = FollowedSession(project, journal, load_session(journal, newest))
        followed.read_new_events()
        yield followed.session


def describe_ended_session(session: Session) -> str:
    outcome = describe_session_outcome(session.outcome, count_landed_work(session))
    return f"{session.id} ended: {outcome}.\nSee 'blueflame report'. Start the next one with 'blueflame run'."


def print_snapshot(watched: FollowedSession, *, as_json: bool) -> None:
    """Print the current state once."""
    session, now = watched.session, watched.now()
    found = ActivityReader(build_follower(watched.project, session), session)()
    if as_json:
        for name, activity in found.items():
            print_json(build_activity_json(activity, session.attempts[name], now=now), indent=None)
        return
    recent = format_events(watched.journal.read_events(session.id))
    locked = show_locks(watched.project.paths.state)
    frame = SessionFrame(session, now, found, recent, UNLIMITED_HEIGHT, asked_elsewhere=True, locked=locked)
    print_view(make_console(), frame)


def follow_session(watched: FollowedSession, *, as_json: bool) -> None:
    """Follow the session until it ends or stops."""
    console, session = make_console(), watched.session
    activities = ActivityReader(build_follower(watched.project, session), session)
    view = _choose_view(console, activities, watched, as_json=as_json)
    try:
        if isinstance(view, LiveFrame):
            view.see(session, watched.journal.read_events(session.id))
        noticed_at = float("-inf")
        while not watched.describe_end():
            view.tick(watched.now())
            if watched.now() - noticed_at >= CHECK_SECONDS:
                noticed_at = watched.now()
                if notice := watched.take_notice():
                    view.pause()
                    print_text(f"blueflame: {notice}", err=True)
                    view.resume()
            time.sleep(TICK_SECONDS)
            if events := watched.read_new_events():
                view.see(session, events)
    finally:
        view.close()
    if console.is_terminal and not as_json:
        print_snapshot(watched, as_json=False)


def _choose_view(console: Console, activities: ActivityReader, watched: FollowedSession, *, as_json: bool) -> LiveView:
    read_locks = partial(show_locks, watched.project.paths.state)
    if as_json:
        return ActivityJsonLines(console, activities, watched.session, watched.now)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveFrame(console, activities, asked_elsewhere=True, read_locks=read_locks)
    return ActivityLines(console, activities, watched.session, read_locks)


class ActivityLines(EventLines):
    """A line for each event, each change of an agent's activity, and each task that a person's lock keeps back."""

    def __init__(self, console: Console, activities: ReadActivities, session: Session, read_locks: ReadLocks) -> None:
        super().__init__(console, activities)
        self._session, self._read_locks = session, read_locks
        self._seen: dict[str, object] = {}
        self._kept_back: set[str] = set()

    def tick(self, now: float) -> None:
        found = self._activities()
        for name, activity in found.items():
            news = _without_figures(activity)
            if self._seen.get(name) != news:
                self._seen[name] = news
                self._console.print(draw_activity_line(activity, now=now), soft_wrap=True)
        kept_back = set(list_kept_back(self._session, now, self._read_locks()))
        for words in sorted(kept_back - self._kept_back):
            self._console.print(draw_command_line(words, now=now, state=AgentState.PARKED), soft_wrap=True)
        self._kept_back = kept_back


def _without_figures(activity: Activity) -> tuple[object, ...]:
    return activity.status.state, activity.status.reason, activity.call, activity.last_words, activity.refused


class ActivityJsonLines(EventLines):
    """A JSON line for each change of an agent's activity; the last is its end."""

    def __init__(
        self, console: Console, activities: ActivityReader, session: Session, now: Callable[[], float]
    ) -> None:
        super().__init__(console)
        self._activities, self._session, self._clock = activities, session, now
        self._seen: dict[str, Activity] = {}

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None:
        for each in recorded:
            if isinstance(each.event, AttemptEnded):
                self._end(session.attempts[each.event.attempt])

    def tick(self, now: float) -> None:
        found: Mapping[str, Activity] = self._activities()
        for name, activity in found.items():
            if self._seen.get(name) != activity:
                self._seen[name] = activity
                self._print_json(activity, now)

    def _end(self, record: AttemptRecord) -> None:
        if record.ended is None:
            return
        status = AgentStatus(state=AgentState.ENDED, since=record.ended_at, reason=record.ended.notes)
        last = self._seen.pop(record.attempt.id, Activity(attempt=record.attempt))
        self._print_json(replace(last, status=status, spend=record.ended.spend), self._clock())

    def _print_json(self, activity: Activity, now: float) -> None:
        print_json(build_activity_json(activity, self._session.attempts[activity.attempt.id], now=now), indent=None)


def find_agent(session: Session, wanted: str) -> AttemptRecord:
    """Find an agent by its id, its seat, its task, or the beginning of its id; of several the newest."""
    records = sorted(session.attempts.values(), key=lambda record: (record.live, record.intended_at))
    for fits in (
        lambda a: wanted in (a.agent_id, a.id),
        lambda a: bool(wanted) and wanted in (a.seat, a.subject),
        lambda a: bool(wanted) and a.agent_id.startswith(wanted),
    ):
        if found := [record for record in records if fits(record.attempt)]:
            return found[-1]
    known = ", ".join(f"{r.attempt.agent_id} ({r.attempt.subject})" for r in reversed(records[-5:])) or "none yet"
    raise UsageError(f"{session.id} has no agent {wanted!r}; the newest: {known}")


def follow_agent(watched: FollowedSession, wanted: str, *, once: bool, as_json: bool) -> None:
    """Print the transcript of one agent, and follow it until it ends."""
    session, name = watched.session, find_agent(watched.session, wanted).attempt.id
    record = session.attempts[name]
    attempt, worktree = record.attempt, record.inside or record.worktree
    follower = build_follower(watched.project, session)
    folder, audit = follower.folder(name), follower.audit(attempt.agent_id)
    transcript = AgentTranscript(follower.runtimes.get(attempt.runtime), folder, audit, worktree)
    console, seen_at = make_console(), None
    while True:
        watched.read_new_events()
        ended = session.attempts[name].ended is not None
        for entry in transcript.read_entries():
            if as_json:
                print_json(build_entry_json(entry, agent=attempt.agent_id, now=seen_at), indent=None)
            else:
                console.print(_draw_entry(entry, now=seen_at), soft_wrap=True)
        if once or ended or watched.describe_end():
            break
        time.sleep(TICK_SECONDS)
        seen_at = watched.now()
    if ended and not as_json:
        print_text(_describe_ended_attempt(session.attempts[name]))


def _draw_entry(entry: TranscriptEntry, *, now: float | None) -> Text:
    """`14:30:27  ✓ Edit src/a.py`; `now` is the time for entries without their own."""
    at = get_entry_time(entry) or now
    clock = " " * 8 if at is None else f"{datetime.fromtimestamp(at).astimezone():%H:%M:%S}"
    return Text.assemble((f"{clock}  ", "quiet"), draw_line(describe_entry(entry)))


def _describe_ended_attempt(record: AttemptRecord) -> str:
    assert record.ended is not None
    ending = record.ended.ending.value.replace("_", " ")
    return f"{record.attempt.agent_id} ended: {ending} after {format_duration(record.ended.seconds)}."
