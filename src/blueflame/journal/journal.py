"""The journal: all events in order. Everything else is a view of it.

One writer appends; the key (session, seq) stops a second one. Commands send messages to the inbox and never append.
A journal may be used from several threads of one process: it has its own lock.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from blueflame.journal.codec import decode_event, encode_event, format_json
from blueflame.journal.database import (
    MAX_WAL_PAGES,
    Database,
    Fenced,
    explain_errors,
    find_lasting_damage,
    format_move_aside,
    open_to_read,
    open_to_write,
    read_inodes,
)
from blueflame.journal.mark import (
    describe_file,
    get_wal_path,
    is_as_closed,
    link_wal,
    mark_closed,
    mark_writing_back,
    mark_written,
    read_mark,
    remove_mark,
    unlink_wal,
)
from blueflame.journal.session_tables import SESSIONS
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import JournalError
from blueflame.model.event import AttemptEnded, Event, JournalEntry, SessionOpened
from blueflame.model.spend import NO_SPEND, Spend

WAITING, TAKEN, REFUSED = "waiting", "taken", "refused"
SMALL_BYTES = 20_000_000  # is checked within some 20 ms
PAGE_BYTES, PAGES_PER_APPEND = 4096, 3  # of SQLite; the tables that an append changes at least


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    id: str
    request: str
    opened_at: float
    last_at: float
    last_seq: int
    ended: str | None  # the outcome
    base_branch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request to the orchestrator from another terminal; `session` None: to the one that runs."""

    id: int
    session: str | None
    at: float
    kind: str
    body: Mapping[str, Any]


class MessageReply(NamedTuple):
    state: str  # waiting | taken | refused
    reply: str


class MessageSettlement(NamedTuple):
    message: int
    accepted: bool
    reply: str = ""


class Journal(Database):
    """An open journal file. Close it, or use it in a `with`."""

    def __init__(self, path: Path, db: sqlite3.Connection, *, writes: bool = True, sound: bool = False) -> None:
        super().__init__(path, db, SESSIONS)
        self._writes = writes
        self._sound = sound  # large, and untouched since it was closed
        self._checked = False
        self._wal_pages = 0  # about, since the -wal was written back
        self._written = self._describe_files()
        self._foreign = _count_foreign_commits(db)
        self.damage = ""  # of its files, by another program, which nothing could repair

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open it to append and to send; create it if it does not exist."""
        sound = is_as_closed(path) and path.stat().st_size > SMALL_BYTES
        db = open_to_write(path, SESSIONS)
        db.execute("PRAGMA wal_autocheckpoint = 0")  # `append` writes back, and marks it
        db.execute(f"PRAGMA cache_size = -{SMALL_BYTES >> 10}")  # of a small one all can be remembered, and saved
        link_wal(path)
        return cls(path, db, sound=sound)

    @classmethod
    def open_read_only(cls, path: Path) -> Self:
        """Open it for views: never creates it, never blocks a writer. Raises NoJournal."""
        return cls(path, open_to_read(path, SESSIONS), writes=False)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Close it. If the file was deleted meanwhile it is saved, and that is the reason of any other error."""
        try:
            if self._writes and not isinstance(error, JournalError):
                self.check_file()
        except JournalError as deleted:
            if isinstance(error, Exception):
                raise deleted from error
        finally:
            self.close()

    def close(self) -> None:
        super().close()
        if self._writes:
            unlink_wal(self.path)
        if self._checked and read_inodes(self.path)[0] == self._inodes[0]:
            mark_closed(self.path)

    def check_file(self) -> None:
        """Raise also when another program has damaged it, and what SQLite remembers of it was saved in its place.

        Its files change only when we write, so this costs as good as nothing. Where too little is remembered, what is
        known of the session continues: there is no better journal to stop for.
        """
        super().check_file()
        if not self._writes or self.damage or (found := self._describe_files()) == self._written:
            return
        with self._lock, explain_errors(self.path, "read", self._schema):
            version = _count_foreign_commits(self._db)
            is_message = found[0] == self._written[0] and version != self._foreign
            if damage := self._read_again() if is_message else find_lasting_damage(self.path, self._schema):
                self._report_damage(damage)
        self._written, self._foreign = found, version

    def _read_again(self) -> str:
        """Read a small one as a whole: SQLite forgets what it has read when another process writes a message."""
        is_small = self.path.stat().st_size <= SMALL_BYTES
        found = self._run_check("quick_check(1)") if is_small else ()
        return found[0].splitlines()[-1] if found else ""

    def refuse_unsaved_damage(self) -> None:
        """Raise if the file is damaged by another program, at the end of a session."""
        self.check_file()
        if self.damage:
            raise JournalError(self.damage)

    def _describe_files(self) -> tuple[str, str]:
        return describe_file(self.path), describe_file(get_wal_path(self.path))

    def _report_damage(self, damage: str) -> None:
        state = f"the journal {self.path} was damaged by another program while it was in use ({damage})"
        try:
            words = self._rescue()
        except (OSError, sqlite3.Error):
            aside = format_move_aside(self.path)
            self.damage = f"{state}. Restore it from a backup, or move it aside ({aside}): {self._schema.kept}"
        else:
            self._deleted = JournalError(f"{state}. {words}")
            raise self._deleted

    def append(
        self,
        session: str,
        after_seq: int,
        events: Sequence[Event],
        at: float,
        *,
        settles: Sequence[MessageSettlement] = (),
    ) -> tuple[JournalEntry, ...]:
        """Write all events or none, durably, after `after_seq`, and settle the messages that caused them.

        Return the events as decoded from the journal, so that a replay applies the same.
        """
        rows = [(session, after_seq + n, at, *encode_event(event)) for n, event in enumerate(events, 1)]
        recorded = tuple(JournalEntry(seq, at, decode_event(kind, body)) for _, seq, at, kind, body in rows)
        with self._transaction("append to") as db:
            self._check_sequence(db, session, after_seq)
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            for settlement in settles:
                _settle_message(db, settlement)
        mark_written(self.path, session, after_seq + len(rows))
        self._write_back(session, after_seq + len(rows), sum(len(row[-1]) for row in rows))
        return recorded

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        with super()._transaction(doing) as db:
            yield db
            self._foreign = _count_foreign_commits(db)
        self._written = self._describe_files()

    def _write_back(self, session: str, seq: int, appended: int) -> None:
        """Write the -wal back after a few transactions: what a damaged one can lose is little.

        Marked while it goes on: a kill leaves a file that has some pages of the -wal, and needs the others.
        """
        self._wal_pages += PAGES_PER_APPEND + appended // PAGE_BYTES
        if self._wal_pages < MAX_WAL_PAGES:
            return
        self._wal_pages = 0
        mark_writing_back(self.path, session, seq)
        with self._lock, suppress(sqlite3.Error):  # the events are safe in the -wal, and the next append may succeed
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        mark_written(self.path, session, seq)
        self._written = self._describe_files()

    def read_events(self, session: str, after: int = 0) -> list[JournalEntry]:
        rows = self._fetch_all(
            "SELECT seq, at, kind, body FROM events WHERE session = ? AND seq > ? ORDER BY seq", session, after
        )
        for expected, row in enumerate(rows, after + 1):
            if row[0] != expected:
                raise self._build_missing_error(session, expected)
        return [JournalEntry(seq, at, decode_event(kind, body)) for seq, at, kind, body in rows]

    def read_events_of(self, session: str, kinds: Sequence[type[Event]]) -> list[JournalEntry]:
        """Read those of some kinds only."""
        marks = ", ".join("?" * len(kinds))
        sql = f"SELECT seq, at, kind, body FROM events WHERE session = ? AND kind IN ({marks}) ORDER BY seq"  # noqa: S608
        rows = self._fetch_all(sql, session, *(kind.__name__ for kind in kinds))
        return [JournalEntry(seq, at, decode_event(kind, body)) for seq, at, kind, body in rows]

    def find_last_seq(self, session: str) -> int:
        """0 for an unknown session."""
        return int(self._fetch_all("SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", session)[0][0])

    def count_lost(self, session: str) -> int:
        """Count the events that were written last and are gone: a -wal was deleted, or an older copy was put back."""
        mark = read_mark(self.path)
        return max(0, mark.seq - self.find_last_seq(session)) if mark is not None and mark.session == session else 0

    def list_sessions(self) -> tuple[SessionInfo, ...]:
        """Newest first, in the order of the journal: the clock may have been set back."""
        return tuple(self._read_info(*row) for row in self._fetch_all(_SESSIONS))

    def list_ids(self) -> tuple[str, ...]:
        """The ids of all sessions, newest first; no event is read."""
        return tuple(name for (name,) in self._fetch_all("SELECT session FROM sessions ORDER BY n DESC"))

    def list_unfinished(self) -> tuple[str, ...]:
        """The ids of the sessions that have not ended, newest first."""
        return tuple(
            name for (name,) in self._fetch_all("SELECT session FROM sessions WHERE ended IS NULL ORDER BY n DESC")
        )

    def list_agents(self, session: str) -> tuple[str, ...]:
        """The agents of a session, in the order of their attempts; the session is not replayed."""
        return tuple(agent for (agent,) in self._fetch_all(_AGENTS, session))

    def find_unfinished(self) -> SessionInfo | None:
        """The newest session that has not ended; the others are not read."""
        return next((self._read_info(*row) for row in self._fetch_all(_UNFINISHED)), None)

    def find_session_of(self, request_id: str) -> str | None:
        """The session that was opened for a request of the house."""
        return next((name for (name,) in self._fetch_all(_SESSION_OF, request_id)), None)

    def sum_spend_since(self, at: float, *, without: str) -> Spend:
        """Sum the cost of attempts that ended since then, in all sessions but one; older sessions are not read."""
        names = [
            name for name, seq, _ in self._fetch_all(_SESSIONS) if name != without and self._read_time(name, seq) >= at
        ]
        ends = [decode_event("AttemptEnded", body) for name in names for (body,) in self._fetch_all(_SPENT, name, at)]
        return sum((end.ended.spend for end in ends if isinstance(end, AttemptEnded)), NO_SPEND)

    def delete_session(self, session: str) -> bool:
        """Delete all that is known of a session; False for one that has not ended, which can be resumed."""
        with self._transaction("delete a session from") as db:
            ended = db.execute("DELETE FROM sessions WHERE session = ? AND ended IS NOT NULL", (session,)).rowcount == 1
            if ended:
                db.execute("DELETE FROM events WHERE session = ?", (session,))
                db.execute("DELETE FROM inbox WHERE session = ?", (session,))
        if ended and (mark := read_mark(self.path)) is not None and mark.session == session:
            remove_mark(self.path)
        return ended

    def compact(self) -> None:
        """Give the space of deleted sessions back to the disk, while no orchestrator runs."""
        self.check_file()
        with self._lock, explain_errors(self.path, "compact", self._schema):
            self._db.execute("VACUUM")

    def send(self, session: str | None, kind: str, body: Mapping[str, Any], at: float) -> int:
        """Put a message into the inbox; the orchestrator takes it when it runs."""
        self.check_file()
        row = (session, at, kind, format_json(body, f"the message {kind}"))
        with self._transaction("send to") as db:
            return int(db.execute(_SEND, row).fetchone()[0])

    def find_message(self, kind: str, key: str) -> int | None:
        """The message that the house sent for an arrival, by the key in its body."""
        rows = self._fetch_all("SELECT id FROM inbox WHERE kind = ? AND json_extract(body, '$.key') = ?", kind, key)
        return int(rows[0][0]) if rows else None

    def list_waiting(self, session: str | None) -> tuple[Message, ...]:
        """Messages to this session and to any running orchestrator, oldest first; None: only the latter."""
        if self._writes:
            self.check_file()  # also while there is nothing to write: others may not open it meanwhile
        return tuple(
            Message(id=id, session=to, at=at, kind=kind, body=json.loads(body))
            for id, to, at, kind, body in self._fetch_all(_WAITING, session)
        )

    def settle(self, message: int, accepted: bool, reply: str = "") -> bool:
        """Answer a message. False when it was answered before: the first answer counts."""
        with self._transaction("settle a message in") as db:
            return _settle_message(db, MessageSettlement(message, accepted, reply))

    def read_reply(self, message: int) -> MessageReply:
        rows = self._fetch_all("SELECT state, reply FROM inbox WHERE id = ?", message)
        if not rows:
            raise JournalError(f"the journal {self.path} has no message {message}")
        return MessageReply(*rows[0])

    def find_damage(self) -> tuple[str, ...]:
        """Return what SQLite's integrity check finds; empty when the file is sound."""
        return self._run_check("integrity_check(10)")

    def refuse_damage(self) -> None:
        """A large one is not read as a whole if it is as we closed it."""
        if not self._sound:
            super().refuse_damage()
        self._checked = True

    def _read_time(self, session: str, seq: int) -> float:
        return float(self._fetch_all("SELECT at FROM events WHERE session = ? AND seq = ?", session, seq)[0][0])

    def _read_info(self, session: str, seq: int, ended: str | None) -> SessionInfo:
        first = self._fetch_all("SELECT at, kind, body FROM events WHERE session = ? AND seq = 1", session)
        if not first:
            raise self._build_missing_error(session, 1)
        opened = decode_event(*first[0][1:])
        return SessionInfo(
            id=session,
            request=opened.request if isinstance(opened, SessionOpened) else "",
            opened_at=first[0][0],
            last_at=self._read_time(session, seq),
            last_seq=seq,
            ended=ended,
            base_branch=opened.base_branch if isinstance(opened, SessionOpened) else "",
        )

    def _build_missing_error(self, session: str, seq: int) -> JournalError:
        return JournalError(
            f"event {seq} of session {session} is missing from the journal {self.path}: it is damaged. "
            "Nothing was changed; restore it from a backup, or move it aside and start again"
        )

    def _check_sequence(self, db: sqlite3.Connection, session: str, after_seq: int) -> None:
        last = db.execute("SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", (session,)).fetchone()[0]
        if last > after_seq:
            raise Fenced(
                f"another orchestrator has written event {after_seq + 1} of session {session} to {self.path}. "
                "Nothing was written and this orchestrator stops; see the other one with `blueflame status`"
            )
        if last < after_seq:
            raise JournalError(
                f"the journal {self.path} has {last} events of session {session}, not {after_seq}: "
                "it was replaced or restored from an older copy. Nothing was changed; put the newer one back"
            )


_SESSIONS = """
    SELECT session, (SELECT max(seq) FROM events WHERE events.session = sessions.session), ended
    FROM sessions ORDER BY n DESC
"""
_UNFINISHED = """
    SELECT session, (SELECT max(seq) FROM events WHERE events.session = sessions.session), ended
    FROM sessions WHERE ended IS NULL ORDER BY n DESC LIMIT 1
"""
_SESSION_OF = """
    SELECT session FROM sessions WHERE ? = (
        SELECT json_extract(body, '$.request_id') FROM events WHERE events.session = sessions.session AND seq = 1
    ) ORDER BY n DESC LIMIT 1
"""
_AGENTS = """
    SELECT json_extract(body, '$.attempt.agent_id') FROM events
    WHERE session = ? AND kind = 'AttemptIntended' ORDER BY seq
"""
_SPENT = "SELECT body FROM events WHERE session = ? AND kind = 'AttemptEnded' AND at >= ?"
_SEND = "INSERT INTO inbox (session, at, kind, body) VALUES (?, ?, ?, ?) RETURNING id"
_WAITING = """
    SELECT id, session, at, kind, body FROM inbox
    WHERE state = 'waiting' AND (session IS NULL OR session = ?) ORDER BY id
"""


def _count_foreign_commits(db: sqlite3.Connection) -> int:
    """A number that changes when another connection has written, which is a message of another terminal."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def _settle_message(db: sqlite3.Connection, settlement: MessageSettlement) -> bool:
    state = TAKEN if settlement.accepted else REFUSED
    sql = "UPDATE inbox SET state = ?, reply = ? WHERE id = ? AND state = 'waiting'"
    return db.execute(sql, (state, settlement.reply, settlement.message)).rowcount == 1
