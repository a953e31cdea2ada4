"""A repository as the house sees it: its lock, its journal, the process that was started there. Never written to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from blueflame.dispatch.session_watch import SessionWatch
from blueflame.dispatch.state import House
from blueflame.house.background import BackgroundCommand
from blueflame.journal.database import read_revision
from blueflame.journal.journal import Journal
from blueflame.model.errors import BlueFlameError, Refused
from blueflame.model.house.event import OpenGate
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import find_running_pid
from blueflame.system.files import build_file_error

FAILURES = (BlueFlameError, OSError)  # what a repository that is damaged, moved or forbidden raises
MAX_ENDED = 10


class WatchedRepository:
    def __init__(self, name: str, config: Path) -> None:
        self.name = name
        self.config = config
        self.command: BackgroundCommand | None = None  # that this process started
        self.started = ""  # the request for which it did
        self.problem = ""  # why the repository cannot be read
        self.pid: int | None = None  # of the orchestrator that runs there
        self.unfinished = ""  # the newest session that has not ended
        self.watches: dict[str, SessionWatch] = {}  # by session, in the order in which they were seen
        self.project = Project(config)  # for its state; what is configured is read when it is used
        self._revision: object = None

    def open_project(self) -> Project:
        """A project that reads the configuration as it is now; raises BlueFlameError."""
        try:
            found = self.config.is_file()
        except OSError as error:
            raise build_file_error("read", self.config, error) from error
        if not found:
            raise Refused(f"there is no {self.config}: correct its path in house.yaml, or run 'blueflame init' there")
        return Project(self.config)

    def is_configured(self) -> bool:
        """Whether its configuration can be used as it is now; a person may be editing it."""
        try:
            return self.open_project().settings is not None
        except FAILURES:
            return False

    def look(self) -> None:
        """Read what has changed: first the lock, so that what a process wrote before it ended is read after it."""
        with self.note_problem():
            if self.pid is None:  # a session that runs goes on without its configuration
                self.open_project()
            self.pid = find_running_pid(self.project)
            self._read_journal(self.project.state.journal)
            self.problem = ""

    @contextmanager
    def note_problem(self) -> Iterator[None]:
        """What fails in the block is the problem of this repository until the next look, and not of the house."""
        try:
            yield
        except FAILURES as error:
            self.problem, self.pid = str(error), None

    def find_session_of(self, request: str) -> str:
        """The session of a request; empty if none was opened."""
        path = self.project.state.journal
        if not path.exists():
            return ""
        with Journal.open_read_only(path) as journal:
            return journal.find_session_of(request) or ""

    def watch(self, session: str) -> SessionWatch:
        """Return what is known of a session; it is read on from now on."""
        if session not in self.watches:
            self.watches[session] = SessionWatch(session)
            self._revision = None
            self.look()
        return self.watches[session]

    def describe_loss(self, session: str, request: str) -> str:
        """Why a session that was opened here cannot go on, and what can be done; empty if its journal has it."""
        if self.watch(session).seq or self.problem:
            return ""
        return (
            f"{session} is missing from {self.project.state.journal}: the journal was deleted or replaced. "
            f"Put it back from a backup, or give the session up with 'blueflame requests cancel {request}'; "
            f"its commits stay under refs/blueflame/attempts/{session}/"
        )

    def find_damage(self) -> str:
        """What is wrong with its journal, which is read as a whole; empty if it is sound, or nothing was ever run."""
        try:
            path = self.project.state.journal
            if not path.exists():
                return ""
            with Journal.open_read_only(path) as journal:
                return "; ".join(journal.find_damage())
        except FAILURES as error:
            return str(error)

    def find_start_of(self, request: str) -> BackgroundCommand | None:
        """The process that was started for this request; one before it may end after its session did."""
        return self.command if self.started == request else None

    def may_have_session_of(self, request: str) -> bool:
        """Whether a session of this request was opened or is about to be, also if its start was not recorded."""
        if self.find_start_of(request) is not None:
            return True
        return bool(self.unfinished) and self.watch(self.unfinished).request_id == request

    @property
    def is_gone(self) -> bool:
        """Whether its folder does not exist: nothing runs there."""
        try:
            return not self.config.parent.exists()
        except OSError:
            return False

    @property
    def is_starting(self) -> bool:
        return self.command is not None and self.command.process.is_running

    @property
    def is_busy(self) -> bool:
        return self.pid is not None or self.is_starting

    def _read_journal(self, path: Path) -> None:
        revision = read_revision(path)
        if revision == self._revision:
            return
        live = [name for name, watch in self.watches.items() if not watch.ended]
        if path.exists():
            with Journal.open_read_only(path) as journal:
                self.unfinished = next(iter(journal.list_unfinished()), "")
                for name in dict.fromkeys((*live, *filter(None, [self.unfinished]))):
                    self._follow_session(journal, name)
            self._forget_oldest()
        else:
            self.unfinished = ""
            self.watches.update({name: SessionWatch(name) for name in live})
        self._revision = revision

    def _follow_session(self, journal: Journal, name: str) -> None:
        """Apply its new events; all that are there if an older copy of the journal was put back."""
        watch = self.watches.get(name)
        if watch is None or journal.find_last_seq(name) < watch.seq:
            watch = self.watches[name] = SessionWatch(name)
        for entry in journal.read_events(name, watch.seq):
            watch.apply(entry)

    def _forget_oldest(self) -> None:
        """Those that ended lately are kept for answers that come too late."""
        ended = [name for name, watch in self.watches.items() if watch.ended]
        for name in ended[:-MAX_ENDED]:
            del self.watches[name]


def list_open_gates(house: House, repositories: Iterable[WatchedRepository]) -> Iterator[OpenGate]:
    """The gates of the house, and those of all sessions that have not ended."""
    for record in house.requests.values():
        if record.gate is not None:
            at = record.gate_opened_at
            yield OpenGate(repository="", session="", request=record.id, gate=record.gate, opened_at=at)
    for repository in repositories:
        for watch in repository.watches.values():
            for gate, at in () if watch.ended else watch.gates.values():
                yield OpenGate(
                    repository=repository.name, session=watch.id, request=watch.request_id, gate=gate, opened_at=at
                )
