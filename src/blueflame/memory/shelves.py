"""What the store keeps about knowledge files: what was last in each, what was archived where, what was refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import field

from blueflame.knowledge.edits import Recorded
from blueflame.lazy_dataclass import dataclass

TABLES = (
    "CREATE TABLE IF NOT EXISTS shelves (file TEXT PRIMARY KEY, digest TEXT NOT NULL, entries TEXT NOT NULL, "
    "intended TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS archived (key TEXT PRIMARY KEY, file TEXT NOT NULL, path TEXT NOT NULL, "
    "at REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS refused (key TEXT PRIMARY KEY, at REAL NOT NULL, rule TEXT NOT NULL, "
    "reason TEXT NOT NULL) WITHOUT ROWID",
)
MAX_REFUSED = 200  # the newest are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What we know of a knowledge file."""

    digest: str = ""  # of the whole file
    recorded: Recorded = field(default_factory=lambda: Recorded(entries={}))


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    key: str
    at: float
    rule: str
    reason: str


def has_tables(db: sqlite3.Connection) -> bool:
    """Whether the store was written by a version that has knowledge files."""
    query = "SELECT count(*) FROM sqlite_master WHERE name IN ('shelves', 'archived', 'refused')"
    return bool(db.execute(query).fetchone()[0] == len(TABLES))


def select_shelves(db: sqlite3.Connection) -> dict[str, Shelf]:
    rows = db.execute("SELECT file, digest, entries, intended FROM shelves ORDER BY file").fetchall()
    return {
        file: Shelf(
            digest=digest,
            recorded=Recorded(entries=json.loads(entries), intended=json.loads(intended) if intended else None),
        )
        for file, digest, entries, intended in rows
    }


def put_shelf(db: sqlite3.Connection, file: str, shelf: Shelf) -> None:
    recorded = shelf.recorded
    intended = json.dumps(recorded.intended) if recorded.intended is not None else ""
    db.execute(
        "INSERT OR REPLACE INTO shelves VALUES (?, ?, ?, ?)",
        (file, shelf.digest, json.dumps(recorded.entries), intended),
    )


def select_archived(db: sqlite3.Connection) -> dict[str, tuple[str, float]]:
    """The file of each archived entry, and when it was written to the archive."""
    rows = db.execute("SELECT key, file, at FROM archived").fetchall()
    return {key: (file, at) for key, file, at in rows}


def put_archived(db: sqlite3.Connection, keys: Iterable[str], file: str, path: str, at: float) -> None:
    db.executemany("INSERT OR REPLACE INTO archived VALUES (?, ?, ?, ?)", [(key, file, path, at) for key in keys])


def put_refused(db: sqlite3.Connection, refused: Iterable[RefusedRecord]) -> tuple[RefusedRecord, ...]:
    """Return those that were not refused before."""
    query = "INSERT OR IGNORE INTO refused VALUES (?, ?, ?, ?)"
    new = tuple(each for each in refused if db.execute(query, (each.key, each.at, each.rule, each.reason)).rowcount)
    kept = "SELECT key FROM refused ORDER BY at DESC, key LIMIT ?"
    db.execute(f"DELETE FROM refused WHERE key NOT IN ({kept})", (MAX_REFUSED,))  # noqa: S608 - our own words
    return new


def select_refused(db: sqlite3.Connection) -> tuple[RefusedRecord, ...]:
    """Newest first."""
    rows = db.execute("SELECT key, at, rule, reason FROM refused ORDER BY at DESC, key").fetchall()
    return tuple(RefusedRecord(*row) for row in rows)


def group_last_archived(archived: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    """When each file was archived last."""
    last: dict[str, float] = {}
    for file, at in archived.values():
        last[file] = max(last.get(file, at), at)
    return last
