"""The database of the built-in memory: .blueflame/memory.db, with one row per key."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from blueflame.knowledge.edits import Edits
from blueflame.knowledge.effect import Effect, Trial
from blueflame.knowledge.selection import Work
from blueflame.knowledge.subjects import parse_subject
from blueflame.lazy_dataclass import dataclass
from blueflame.memory import shelves, trials
from blueflame.memory.codec import compute_digest, decode_record, encode_record
from blueflame.memory.provider import JournalMark
from blueflame.memory.search import (
    drop_from_index,
    has_index,
    has_table,
    index_record,
    prepare_index,
    search_domain,
    search_paths,
    search_words,
)
from blueflame.model.attempt import Duty
from blueflame.model.errors import MemoryFailed
from blueflame.model.memory import RECORD_KIND_NAMES, RECORD_TYPES, Lesson, MemoryRecord

APPLICATION_ID = 0x424C464E  # one more than that of the journal
VERSION = 1
LOCK_TIMEOUT = 5.0  # a transaction takes milliseconds
TABLES = (
    "CREATE TABLE records (key TEXT PRIMARY KEY, kind TEXT NOT NULL, session TEXT NOT NULL, at REAL NOT NULL, "
    "digest TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE marks (session TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE forgotten (key TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE mirrored (key TEXT PRIMARY KEY, digest TEXT NOT NULL, issue TEXT NOT NULL) WITHOUT ROWID",
)
LATER_TABLES = (  # a database of an earlier version gets them when it is written
    *trials.TABLES,
    *shelves.TABLES,
    "CREATE INDEX IF NOT EXISTS records_by_session ON records (session, at)",
    "CREATE INDEX IF NOT EXISTS records_by_kind ON records (kind, at)",
)
FIXES = {
    sqlite3.SQLITE_READONLY: "Make the file and its folder {folder} writable",
    sqlite3.SQLITE_CANTOPEN: "Make the file and its folder {folder} writable, on a disk that is not full",
    sqlite3.SQLITE_FULL: "Free some disk space",
}
MAX_NEWEST = 40  # records of each kind that a planner may be given whatever they are about


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecords:
    """Records that may be about some work."""

    records: tuple[MemoryRecord, ...] = ()
    relevance: Mapping[str, float] = field(default_factory=dict)  # by search; empty where there is no index
    ages: Mapping[str, int] = field(default_factory=dict)  # sessions -> how many are newer
    effects: Mapping[str, Effect] = field(default_factory=dict)


class MemoryStore:
    """Opened for each operation, so that it is not held open for hours."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def list_records(self) -> tuple[MemoryRecord, ...]:
        """Oldest first."""
        return self._decode(self._fetch_all("SELECT key, body FROM records ORDER BY at, key"))

    def list_keys(self) -> frozenset[str]:
        return frozenset(key for (key,) in self._fetch_all("SELECT key FROM records"))

    def list_lessons(self) -> tuple[Lesson, ...]:
        """Oldest first."""
        records = self._decode(self._fetch_all("SELECT key, body FROM records WHERE kind = 'lesson' ORDER BY at, key"))
        return tuple(record for record in records if isinstance(record, Lesson))

    def save_records(self, records: Sequence[MemoryRecord], mark: JournalMark | None = None) -> int:
        """Return how many are new or changed. Records that a person made us forget are not saved again."""
        with self._open_for_writing() as db:
            gone = {key for (key,) in db.execute("SELECT key FROM forgotten")}
            changed = sum(_put_record(db, record) for record in records if record.key not in gone)
            if mark is not None:
                db.execute(
                    "INSERT INTO marks VALUES (?, ?) ON CONFLICT (session) DO UPDATE SET seq = max(seq, excluded.seq)",
                    mark,
                )
        return changed

    def list_marks(self) -> tuple[JournalMark, ...]:
        return tuple(JournalMark(*row) for row in self._fetch_all("SELECT session, seq FROM marks ORDER BY session"))

    def forget(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Return the keys that existed."""
        with self._open_for_writing() as db:
            return _forget_records(db, keys)

    def list_forgotten(self) -> frozenset[str]:
        return frozenset(key for (key,) in self._fetch_all("SELECT key FROM forgotten"))

    def allow_again(self, keys: Iterable[str]) -> None:
        """Undo `forget`: a person imports them."""
        with self._open_for_writing() as db:
            db.executemany("DELETE FROM forgotten WHERE key = ?", [(key,) for key in keys])

    def list_shelves(self) -> Mapping[str, shelves.Shelf]:
        """What is known of each knowledge file, by its name."""
        with self._open_for_reading() as db:
            return shelves.select_shelves(db) if db and shelves.has_tables(db) else {}

    def save_shelf(self, file: str, shelf: shelves.Shelf) -> None:
        with self._open_for_writing() as db:
            shelves.put_shelf(db, file, shelf)

    def apply_edits(self, edits: Edits, read: Mapping[str, shelves.Shelf]) -> None:
        """Save what a person changed in the files, and what the files hold now, in one step."""
        with self._open_for_writing() as db:
            db.executemany("DELETE FROM forgotten WHERE key = ?", [(each.key,) for each in edits.lessons])
            db.executemany("DELETE FROM archived WHERE key = ?", [(each.key,) for each in edits.lessons])
            for lesson in edits.lessons:
                _put_record(db, lesson)
            _forget_records(db, edits.forgotten)
            for file, shelf in read.items():
                shelves.put_shelf(db, file, shelf)

    def list_archived(self) -> Mapping[str, tuple[str, float]]:
        """The file of each entry in the archive and when it went there, by its key."""
        with self._open_for_reading() as db:
            return shelves.select_archived(db) if db and shelves.has_tables(db) else {}

    def note_archived(self, keys: Iterable[str], file: str, path: str, at: float) -> None:
        with self._open_for_writing() as db:
            shelves.put_archived(db, keys, file, path, at)

    def note_refused(self, refused: Iterable[shelves.RefusedRecord]) -> Sequence[shelves.RefusedRecord]:
        """Return those that are new."""
        with self._open_for_writing() as db:
            return shelves.put_refused(db, refused)

    def list_refused(self) -> Sequence[shelves.RefusedRecord]:
        """Newest first."""
        with self._open_for_reading() as db:
            return shelves.select_refused(db) if db and shelves.has_tables(db) else ()

    def save_trials(self, given: Iterable[Trial]) -> int:
        """Return how many are new or changed."""
        with self._open_for_writing() as db:
            return sum(trials.put_trial(db, each) for each in given)

    def list_trials(self) -> Sequence[Trial]:
        with self._open_for_reading() as db:
            return trials.list_trials(db) if db and has_table(db, "trials") else ()

    def save_effects(self, effects: Mapping[str, Effect]) -> None:
        with self._open_for_writing() as db:
            trials.put_effects(db, effects)

    def list_effects(self) -> Mapping[str, Effect]:
        with self._open_for_reading() as db:
            return trials.list_effects(db) if db and has_table(db, "effects") else {}

    def find_records(self, work: Work) -> FoundRecords:
        """Find what may be about some work: all of it where there is no index yet, or no FTS5."""
        with self._open_for_reading() as db:
            if db is None:
                return FoundRecords()
            plans, relevance = work.duty is Duty.PLAN, dict[str, float]()
            if has_index(db):
                relevance = search_words(db, work.words, lessons_only=not plans)
                about = search_paths(db, parse_subject(work.files))
                keys = [*about, *search_domain(db, work.domain), *relevance]
                rows = _select_records(db, dict.fromkeys([*keys, *(_list_newest(db) if plans else ())]))
            else:
                rows = db.execute("SELECT key, body FROM records ORDER BY at, key").fetchall()
            known = has_table(db, "effects")
            ages, effects = _list_ages(db), trials.select_effects(db, [row[0] for row in rows]) if known else {}
        return FoundRecords(records=self._decode(rows), relevance=relevance, ages=ages, effects=effects)

    def load_records(self, keys: Iterable[str]) -> FoundRecords:
        """Load records by their keys, in this order; those that are gone are left out."""
        with self._open_for_reading() as db:
            if db is None:
                return FoundRecords()
            rows, ages = _select_records(db, keys), _list_ages(db)
        return FoundRecords(records=self._decode(rows), ages=ages)

    def list_mirrored(self) -> Mapping[str, tuple[str, str]]:
        """The digest of each record in the mirror and its id there, by its key."""
        return {key: (seen, issue) for key, seen, issue in self._fetch_all("SELECT key, digest, issue FROM mirrored")}

    def note_mirrored(self, record: MemoryRecord, issue: str) -> None:
        with self._open_for_writing() as db:
            db.execute("INSERT OR REPLACE INTO mirrored VALUES (?, ?, ?)", (record.key, compute_digest(record), issue))

    def _fetch_all(self, query: str) -> list[tuple[Any, ...]]:
        with self._open_for_reading() as db:
            return db.execute(query).fetchall() if db else []

    def _decode(self, rows: Iterable[tuple[str, str]]) -> tuple[MemoryRecord, ...]:
        return tuple(decode_record(body, f"{key} in {self.path}") for key, body in rows)

    @contextmanager
    def _open_for_reading(self) -> Iterator[sqlite3.Connection | None]:
        """None when there is no memory yet: reading does not create one."""
        with self._explain_errors("read"):
            if not self.path.exists():
                yield None
                return
            with closing(self._connect("rw")) as db:  # where it may: what a killed writer left has to be taken back
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()
                if self.path.stat().st_size == 0:
                    yield None
                    return
                db.execute("PRAGMA query_only = ON")
                self._verify(db)
                yield db

    @contextmanager
    def _open_for_writing(self) -> Iterator[sqlite3.Connection]:
        with self._explain_errors("write"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect("rwc")) as db:
                db.execute("BEGIN IMMEDIATE")
                try:
                    self._prepare(db)
                    yield db
                    db.execute("COMMIT")
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")

    def _connect(self, mode: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, timeout=LOCK_TIMEOUT, isolation_level=None
        )

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Create the tables in the same transaction: a memory that exists is complete."""
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
            for table in TABLES:
                db.execute(table)
        self._verify(db)
        for table in LATER_TABLES:
            db.execute(table)
        if prepare_index(db):
            for key, body in db.execute("SELECT key, body FROM records ORDER BY at, key").fetchall():
                index_record(db, decode_record(body, f"{key} in {self.path}"))

    def _verify(self, db: sqlite3.Connection) -> None:
        ours = db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        if not ours or db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            raise MemoryFailed(
                f"{self.path} is not a memory database of this version. "
                f"Move it aside ({self._format_move_command()}): a new one is built from the journal"
            )

    @contextmanager
    def _explain_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            aside = f"If it is damaged, move it aside ({self._format_move_command()})"
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            fix = FIXES.get(code, aside).format(folder=self.path.parent)
            raise MemoryFailed(f"cannot {doing} the memory {self.path}: {error}. {fix}") from error
        except OSError as error:
            raise MemoryFailed(f"cannot {doing} the memory {self.path}: {error.strerror or error}") from error

    def _format_move_command(self) -> str:
        return shlex.join(["mv", str(self.path), f"{self.path}.aside"])


def _select_records(db: sqlite3.Connection, keys: Iterable[str]) -> list[tuple[str, str]]:
    rows = (db.execute("SELECT key, body FROM records WHERE key = ?", (key,)).fetchone() for key in keys)
    return [row for row in rows if row is not None]


def _list_newest(db: sqlite3.Connection) -> Iterator[str]:
    for kind in RECORD_TYPES:
        query = "SELECT key FROM records WHERE kind = ? ORDER BY at DESC, key LIMIT ?"
        yield from (key for (key,) in db.execute(query, (kind, MAX_NEWEST)))


def _list_ages(db: sqlite3.Connection) -> Mapping[str, int]:
    """For each session, how many are newer."""
    rows = db.execute("SELECT session FROM records GROUP BY session ORDER BY min(at) DESC, session DESC")
    return {session: age for age, (session,) in enumerate(rows)}


def _forget_records(db: sqlite3.Connection, keys: Iterable[str]) -> tuple[str, ...]:
    found = [key for key in keys if db.execute("DELETE FROM records WHERE key = ?", (key,)).rowcount]
    drop_from_index(db, found)
    db.executemany("INSERT OR IGNORE INTO forgotten VALUES (?)", [(key,) for key in found])
    return tuple(found)


def _put_record(db: sqlite3.Connection, record: MemoryRecord) -> int:
    origin = record.origin
    row = (
        record.key,
        RECORD_KIND_NAMES[type(record)],
        origin.session,
        origin.at,
        compute_digest(record),
        encode_record(record),
    )
    changed = db.execute(
        "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET kind = excluded.kind, "
        "session = excluded.session, at = excluded.at, digest = excluded.digest, body = excluded.body "
        "WHERE digest <> excluded.digest",
        row,
    ).rowcount
    if changed:
        index_record(db, record)
    return changed
