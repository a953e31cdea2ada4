"""Follows the sessions of all repositories: what is new in each since it was last read, with the session as it is then.

Blocking: run it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from blueflame.dispatch.state import replay_house
from blueflame.house.repository import FAILURES
from blueflame.journal.house import HouseJournal
from blueflame.journal.journal import Journal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.event import JournalEntry
from blueflame.model.house.event import OpenGate
from blueflame.orchestrator.project import Project
from blueflame.session.replay import apply_event, open_session
from blueflame.session.state import Session


class SessionName(NamedTuple):
    repository: str
    session: str

    def __str__(self) -> str:
        return f"{self.repository}/{self.session}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNews:
    name: SessionName
    session: Session
    new: tuple[JournalEntry, ...]


def list_followed(journal: HouseJournal, gates: Iterable[OpenGate]) -> frozenset[SessionName]:
    """The sessions of requests that have not ended, and those with open gates."""
    records = replay_house(journal.read_open_streams()).requests.values()
    named = {SessionName(each.repository, each.session) for each in records if each.session}
    return frozenset(named | {SessionName(each.repository, each.session) for each in gates if each.repository})


class SessionFollower:
    def __init__(self, configs: Mapping[str, Path], cursors: Mapping[str, int], began: float) -> None:
        self._configs = configs
        self._cursors = dict(cursors)  # by the name of a session: the last event that was handled
        self._began = began  # of a session from before, what happened until then is no news
        self._sessions: dict[SessionName, Session] = {}
        self._before = {SessionName(*key.split("/", 1)) for key in cursors}  # followed before a restart

    def read(self, names: Iterable[SessionName]) -> list[SessionNews]:
        """Read what is new in these sessions and in those that were followed before and have not ended."""
        wanted, self._before = sorted({*names, *self._sessions, *self._before}), set()
        found = [news for name in wanted if (news := self._read_one(name)) is not None]
        for name in [name for name, session in self._sessions.items() if session.ended]:
            del self._sessions[name]
        return found

    def _read_one(self, name: SessionName) -> SessionNews | None:
        try:
            entries = list(self._read_entries(name))
        except FAILURES:  # the house reports what is wrong with the repository
            self._before.add(name)  # it is read as soon as it can be
            return None
        if not entries:
            return None
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = open_session(entries[0])
            self._cursors.setdefault(str(name), 0 if entries[0].at >= self._began else entries[-1].seq)
        for entry in entries:
            if entry.seq > session.seq:
                apply_event(session, entry)
        new = tuple(entry for entry in entries if entry.seq > self._cursors[str(name)])
        self._cursors[str(name)] = session.seq
        return SessionNews(name=name, session=session, new=new) if new else None

    def _read_entries(self, name: SessionName) -> Iterator[JournalEntry]:
        known = self._sessions.get(name)
        if name.repository not in self._configs:
            return
        path = Project(self._configs[name.repository]).state.journal
        if path.exists():
            with Journal.open_read_only(path) as journal:
                yield from journal.read_events(name.session, known.seq if known is not None else 0)
