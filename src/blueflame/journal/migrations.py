"""The journal's tables, as numbered steps. A step that was ever released is never changed; the next one mends it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x424C464D  # "BLFM", so that `file` and we can tell the journal from any other database


def m001_events_and_inbox(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE events (session TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL, "
        "body TEXT NOT NULL, PRIMARY KEY (session, seq)) WITHOUT ROWID"
    )
    # finds how a session ended without reading through all of its events
    db.execute("CREATE INDEX endings ON events (session, seq) WHERE kind = 'SessionEnded'")
    db.execute(
        "CREATE TABLE inbox (id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT, at REAL NOT NULL, kind TEXT NOT NULL, "
        "body TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'taken', 'refused')), "
        "reply TEXT NOT NULL DEFAULT '')"
    )
    db.execute("CREATE INDEX letters ON inbox (id) WHERE state = 'waiting'")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (m001_events_and_inbox,)
NEWEST_VERSION = len(MIGRATIONS)


def read_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def apply_migrations(db: sqlite3.Connection) -> None:
    """Bring the tables up to date: all steps or none. The database must be in autocommit mode."""
    if read_version(db) >= NEWEST_VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(
            read_version(db) + 1, NEWEST_VERSION + 1
        ):  # asked again: another process may just have done it
            MIGRATIONS[number - 1](db)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
