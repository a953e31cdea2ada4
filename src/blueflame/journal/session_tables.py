"""The tables of a repository's journal: the events of its sessions, and the inbox of the orchestrator."""

from __future__ import annotations

import sqlite3

from blueflame.journal.database import Schema, read_version
from blueflame.journal.mark import restore_wal


def m001_events_and_inbox(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE events (session TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL, "
        "body TEXT NOT NULL, PRIMARY KEY (session, seq)) WITHOUT ROWID"
    )
    # finds how a session ended without reading all of its events
    db.execute("CREATE INDEX endings ON events (session, seq) WHERE kind = 'SessionEnded'")
    db.execute(
        "CREATE TABLE inbox (id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT, at REAL NOT NULL, kind TEXT NOT NULL, "
        "body TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'taken', 'refused')), "
        "reply TEXT NOT NULL DEFAULT '')"
    )
    db.execute("CREATE INDEX letters ON inbox (id) WHERE state = 'waiting'")


# steps from session to session by the key instead of reading every event
_FILL_SESSIONS = """
    INSERT INTO sessions (session, ended)
    WITH RECURSIVE ids (id) AS (
        SELECT min(session) FROM events
        UNION ALL SELECT (SELECT min(session) FROM events WHERE session > id) FROM ids WHERE id IS NOT NULL
    ) SELECT id, (SELECT json_extract(body, '$.outcome') FROM events WHERE session = id AND kind = 'SessionEnded'
                  ORDER BY seq DESC LIMIT 1) FROM ids WHERE id IS NOT NULL
    ORDER BY (SELECT at FROM events WHERE session = id AND seq = 1), id
"""
_SESSIONS_COLUMNS = "(n INTEGER PRIMARY KEY, session TEXT NOT NULL UNIQUE, ended TEXT)"


def m002_sessions(db: sqlite3.Connection) -> None:
    """The sessions in the order in which they were begun, which a clock that is set back does not change."""
    db.execute(f"CREATE TABLE sessions {_SESSIONS_COLUMNS}")
    db.execute("CREATE INDEX unfinished ON sessions (n) WHERE ended IS NULL")
    db.execute(_FILL_SESSIONS)
    db.execute(
        "CREATE TRIGGER session_begins AFTER INSERT ON events WHEN NEW.seq = 1 "
        "BEGIN INSERT OR IGNORE INTO sessions (session) VALUES (NEW.session); END"
    )
    db.execute(
        "CREATE TRIGGER session_ends AFTER INSERT ON events WHEN NEW.kind = 'SessionEnded' "
        "BEGIN UPDATE sessions SET ended = json_extract(NEW.body, '$.outcome') WHERE session = NEW.session; END"
    )


def _list_sessions_of_older(db: sqlite3.Connection) -> None:
    """Give a reader of an older journal the list of sessions, in memory: only a writer migrates the file."""
    if read_version(db) < SESSIONS_VERSION:
        db.execute(f"CREATE TEMP TABLE sessions {_SESSIONS_COLUMNS}")
        db.execute(_FILL_SESSIONS)


SESSIONS_VERSION = 2
SESSIONS = Schema(
    application_id=0x424C464D,  # "BLFM"
    migrations=(m001_events_and_inbox, m002_sessions),
    resume="blueflame resume",
    absent="no session has been started here yet",
    kept="the commits of every attempt are still under refs/blueflame/",
    fit_reader=_list_sessions_of_older,
    restore=restore_wal,
)
