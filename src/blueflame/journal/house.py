"""The journal of the house: arrivals, requests and their fate, cursors of sources.

One process appends events: the house. Any process may add arrivals: sources do, and commands at a terminal.
Starting costs what is under way: requests that have ended are not read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self, cast, get_args

from blueflame.journal.codec import decode_value, encode_event, format_json
from blueflame.journal.database import Database, Fenced, Schema, open_to_read, open_to_write
from blueflame.lazy_dataclass import dataclass
from blueflame.model.house.arrival import Arrival
from blueflame.model.house.event import HouseEntry, HouseEvent

EVENTS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(HouseEvent)}
ARRIVALS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Arrival)}


def m001_house(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE events (n INTEGER PRIMARY KEY, stream TEXT NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL, "
        "body TEXT NOT NULL)"
    )
    db.execute("CREATE INDEX by_stream ON events (stream, n)")
    db.execute("CREATE INDEX endings ON events (n) WHERE kind = 'RequestEnded'")
    db.execute("CREATE TABLE streams (stream TEXT PRIMARY KEY, begun REAL NOT NULL, ended INTEGER NOT NULL DEFAULT 0)")
    db.execute("CREATE INDEX open_streams ON streams (stream) WHERE NOT ended")
    db.execute("CREATE INDEX streams_by_time ON streams (begun)")
    db.execute(
        "CREATE TRIGGER stream_begins AFTER INSERT ON events WHEN NEW.kind = 'RequestReceived' "
        "BEGIN INSERT OR IGNORE INTO streams (stream, begun) VALUES (NEW.stream, NEW.at); END"
    )
    db.execute(
        "CREATE TRIGGER stream_ends AFTER INSERT ON events "
        "WHEN NEW.kind IN ('RequestRefused', 'RequestEnded', 'RequestCancelled') "
        "BEGIN UPDATE streams SET ended = 1 WHERE stream = NEW.stream; END"
    )
    db.execute(
        "CREATE TABLE arrivals (id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, key TEXT NOT NULL, "
        "at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, settled INTEGER NOT NULL DEFAULT 0, "
        "accepted INTEGER NOT NULL DEFAULT 0, stream TEXT NOT NULL DEFAULT '', reply TEXT NOT NULL DEFAULT '', "
        "UNIQUE (source, key))"
    )
    db.execute("CREATE INDEX waiting ON arrivals (id) WHERE NOT settled")
    db.execute("CREATE TABLE cursors (source TEXT PRIMARY KEY, cursor TEXT NOT NULL)")
    db.execute(
        "CREATE TABLE notes (source TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, "
        "PRIMARY KEY (source, key)) WITHOUT ROWID"
    )


def m002_pool(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE leases (attempt TEXT PRIMARY KEY, role TEXT NOT NULL, repository TEXT NOT NULL, "
        "session TEXT NOT NULL, since REAL NOT NULL, micro_usd INTEGER NOT NULL, holder TEXT NOT NULL, "
        "folder TEXT NOT NULL)"
    )
    db.execute(
        "CREATE TABLE wants (attempt TEXT PRIMARY KEY, role TEXT NOT NULL, repository TEXT NOT NULL, "
        "session TEXT NOT NULL, since REAL NOT NULL, asked_at REAL NOT NULL, micro_usd INTEGER NOT NULL, "
        "signals TEXT NOT NULL, reason TEXT NOT NULL)"
    )
    db.execute(
        "CREATE TABLE spends (attempt TEXT PRIMARY KEY, role TEXT NOT NULL, day TEXT NOT NULL, "
        "micro_usd INTEGER NOT NULL, seconds REAL NOT NULL)"
    )
    db.execute("CREATE INDEX spends_by_day ON spends (day)")


def m003_ad_hoc_agents(db: sqlite3.Connection) -> None:
    """Wants are asked for again every few seconds."""
    db.execute("ALTER TABLE leases ADD COLUMN ad_hoc INTEGER NOT NULL DEFAULT 0")
    db.execute("DROP TABLE wants")
    db.execute(
        "CREATE TABLE wants (attempt TEXT PRIMARY KEY, role TEXT NOT NULL, repository TEXT NOT NULL, "
        "session TEXT NOT NULL, since REAL NOT NULL, micro_usd INTEGER NOT NULL, ad_hoc INTEGER NOT NULL, "
        "asked_at REAL NOT NULL, signals TEXT NOT NULL)"
    )


HOUSE_TABLES = Schema(
    application_id=0x424C4648,  # "BLFH"
    migrations=(m001_house, m002_pool, m003_ad_hoc_agents),
    resume="blueflame serve",
    absent="no house was ever served there; start it with `blueflame serve`",
    kept="the sessions are in the journals of their repositories",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingArrival:
    id: int
    arrival: Arrival


class Settlement(NamedTuple):
    """What became of an arrival: the stream of its events, and words for the sender."""

    arrival: int
    stream: str = ""
    reply: str = ""
    accepted: bool = True


class ArrivalFate(NamedTuple):
    settled: bool
    accepted: bool
    stream: str
    reply: str


class HouseJournal(Database):
    """An open journal of a house. Close it, or use it in a `with`."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        super().__init__(path, db, HOUSE_TABLES)
        self._last = self.find_last()

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(path, open_to_write(path, HOUSE_TABLES))

    @classmethod
    def open_read_only(cls, path: Path) -> Self:
        """Raises NoJournal."""
        return cls(path, open_to_read(path, HOUSE_TABLES))

    # --- arrivals: from any process -------------------------------------------------------------------------------

    def read_cursor(self, source: str) -> str:
        rows = self._fetch_all("SELECT cursor FROM cursors WHERE source = ?", source)
        return str(rows[0][0]) if rows else ""

    def receive(
        self,
        source: str,
        arrivals: Sequence[Arrival],
        *,
        cursor: str | None = None,
        notes: Mapping[str, str | None] | None = None,
    ) -> int:
        """Keep arrivals, and cursor and notes of `source`, in one transaction; return how many arrivals were new."""
        rows = [
            (each.source, each.key, each.at, kind := type(each).__name__, format_json(each, kind)) for each in arrivals
        ]
        sql = "INSERT OR IGNORE INTO arrivals (source, key, at, kind, body) VALUES (?, ?, ?, ?, ?)"
        with self._transaction("receive into") as db:
            new = sum(db.execute(sql, row).rowcount for row in rows)
            if cursor is not None:
                db.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (source, cursor))
            _write_notes(db, source, notes or {})
        return new

    def list_waiting(self, *, after: int = 0, limit: int = 100) -> tuple[WaitingArrival, ...]:
        """The arrivals that the house has not dealt with, oldest first."""
        sql = "SELECT id, kind, body FROM arrivals WHERE NOT settled AND id > ? ORDER BY id LIMIT ?"
        rows = self._fetch_all(sql, after, limit)
        return tuple(WaitingArrival(id=id, arrival=_decode_arrival(kind, body)) for id, kind, body in rows)

    def find_fate(self, source: str, key: str) -> ArrivalFate | None:
        sql = "SELECT settled, accepted, stream, reply FROM arrivals WHERE source = ? AND key = ?"
        rows = self._fetch_all(sql, source, key)
        return ArrivalFate(bool(rows[0][0]), bool(rows[0][1]), *rows[0][2:]) if rows else None

    def is_open(self, source: str, key: str) -> bool:
        """Whether that request was received and has not ended."""
        fate = self.find_fate(source, key)
        if fate is None or not fate.settled:
            return fate is not None
        return bool(self._fetch_all("SELECT 1 FROM streams WHERE stream = ? AND NOT ended", fate.stream))

    # --- what a face or a source has to remember ------------------------------------------------------------------

    def write_notes(self, source: str, notes: Mapping[str, str | None]) -> None:
        """Keep small facts of a source or a face by their keys, all of them or none; None removes one."""
        with self._transaction("write notes to") as db:
            _write_notes(db, source, notes)

    def read_notes(self, source: str) -> dict[str, str]:
        return dict(self._fetch_all("SELECT key, value FROM notes WHERE source = ? ORDER BY key", source))

    # --- events: from the house only ------------------------------------------------------------------------------

    def append(
        self, events: Sequence[tuple[str, HouseEvent]], at: float, *, settles: Sequence[Settlement] = ()
    ) -> tuple[HouseEntry, ...]:
        """Write events of any streams and settle the arrivals that caused them: all or nothing, durably."""
        rows = [(self._last + n, stream, at, *encode_event(event)) for n, (stream, event) in enumerate(events, 1)]
        recorded = tuple(_decode_entry(*row) for row in rows)
        with self._transaction("append to") as db:
            self._check_last(db)
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            for arrival, stream, reply, accepted in settles:
                sql = "UPDATE arrivals SET settled = 1, accepted = ?, stream = ?, reply = ? WHERE id = ?"
                db.execute(sql, (accepted, stream, reply, arrival))
        self._last += len(rows)
        return recorded

    def find_last(self) -> int:
        """The number of the newest event; 0 for none."""
        return int(self._fetch_all("SELECT coalesce(max(n), 0) FROM events")[0][0])

    def read_after(self, n: int, limit: int = 1_000) -> tuple[HouseEntry, ...]:
        """The events after a number, in order: a face that keeps the number of the last one it showed misses none."""
        return self._read_entries("n > ? ORDER BY n LIMIT ?", n, limit)

    def read_stream(self, stream: str) -> tuple[HouseEntry, ...]:
        return self._read_entries("stream = ? ORDER BY n", stream)

    def read_stream_since(self, stream: str, kind: type[HouseEvent]) -> tuple[HouseEntry, ...]:
        """Its events from the newest one of that kind on."""
        sql = "SELECT n FROM events WHERE stream = ? AND kind = ? ORDER BY n DESC LIMIT 1"
        first = next((n for (n,) in self._fetch_all(sql, stream, kind.__name__)), 0)
        return self._read_entries("stream = ? AND n >= ? ORDER BY n", stream, first)

    def read_open_streams(self) -> tuple[HouseEntry, ...]:
        """All events of the requests that have not ended."""
        return self._read_entries("stream IN (SELECT stream FROM streams WHERE NOT ended) ORDER BY n")

    def _read_entries(self, which: str, *values: object) -> tuple[HouseEntry, ...]:
        sql = f"SELECT n, stream, at, kind, body FROM events WHERE {which}"  # noqa: S608 (text of ours)
        return tuple(_decode_entry(*row) for row in self._fetch_all(sql, *values))

    def list_streams(self, limit: int) -> tuple[str, ...]:
        """The ids of requests, newest first."""
        rows = self._fetch_all("SELECT stream FROM streams ORDER BY begun DESC, rowid DESC LIMIT ?", limit)
        return tuple(stream for (stream,) in rows)

    def has_stream(self, stream: str) -> bool:
        return bool(self._fetch_all("SELECT 1 FROM streams WHERE stream = ?", stream))

    def count_requests_since(self, at: float, sender: str) -> int:
        """How many requests of a sender (by address) arrived and were dealt with since then."""
        sql = (
            "SELECT count(*) FROM streams JOIN events USING (stream) WHERE begun >= ? AND kind = 'RequestReceived' "
            "AND json_extract(body, '$.request.sender.address') = ?"
        )
        return int(self._fetch_all(sql, at, sender)[0][0])

    def list_durations(self, limit: int) -> tuple[tuple[str, float], ...]:
        """Repository and seconds of the sessions that ended last, oldest first."""
        return tuple(reversed(self._fetch_all(_DURATIONS, limit)))

    def _check_last(self, db: sqlite3.Connection) -> None:
        found = db.execute("SELECT coalesce(max(n), 0) FROM events").fetchone()[0]
        if found != self._last:
            raise Fenced(
                f"another process has written to the journal {self.path} (event {found}, not {self._last}). "
                "Nothing was written and this house stops; see the other one with `blueflame status --house`"
            )


_DURATIONS = """
    SELECT json_extract(begun.body, '$.repository'), json_extract(ended.body, '$.seconds')
    FROM events AS ended JOIN events AS begun ON begun.stream = ended.stream AND begun.kind = 'RequestReceived'
    WHERE ended.kind = 'RequestEnded' ORDER BY ended.n DESC LIMIT ?
"""


def _write_notes(db: sqlite3.Connection, source: str, notes: Mapping[str, str | None]) -> None:
    for key, value in notes.items():
        if value is None:
            db.execute("DELETE FROM notes WHERE source = ? AND key = ?", (source, key))
        else:
            db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (source, key, value))


def _decode_entry(n: int, stream: str, at: float, kind: str, body: str) -> HouseEntry:
    return HouseEntry(n=n, stream=stream, at=at, event=cast("HouseEvent", decode_value(kind, body, EVENTS)))


def _decode_arrival(kind: str, body: str) -> Arrival:
    return cast("Arrival", decode_value(kind, body, ARRIVALS))
