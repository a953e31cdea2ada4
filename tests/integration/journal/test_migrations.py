from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.journal.database import apply_migrations, read_version
from blueflame.journal.session_tables import SESSIONS


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "a b.db", isolation_level=None)) as connection:
        yield connection


def tables(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_a_new_database_gets_all_tables(db: sqlite3.Connection) -> None:
    apply_migrations(db, SESSIONS)
    assert read_version(db) == SESSIONS.version == len(SESSIONS.migrations)
    assert {"events", "inbox"} <= tables(db)


def test_migrating_twice_changes_nothing(db: sqlite3.Connection) -> None:
    apply_migrations(db, SESSIONS)
    before = db.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
    apply_migrations(db, SESSIONS)
    assert db.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall() == before


def test_only_the_missing_steps_are_taken(db: sqlite3.Connection) -> None:
    apply_migrations(db, SESSIONS)
    db.execute("INSERT INTO events VALUES ('s', 1, 0.0, 'CycleEnded', '{}')")

    def add_notes(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE notes (text TEXT)")

    newer = replace(SESSIONS, migrations=(*SESSIONS.migrations, add_notes))
    apply_migrations(db, newer)
    assert read_version(db) == newer.version
    assert "notes" in tables(db)
    assert db.execute("SELECT count(*) FROM events").fetchone() == (1,)


def test_a_step_that_fails_leaves_everything_as_it_was(db: sqlite3.Connection) -> None:
    def fails(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE half (text TEXT)")
        db.execute("CREATE TABLE half (text TEXT)")

    newer = replace(SESSIONS, migrations=(*SESSIONS.migrations, fails))
    with pytest.raises(sqlite3.OperationalError):
        apply_migrations(db, newer)
    assert read_version(db) == 0
    assert tables(db) == set()
    assert not db.in_transaction


def test_the_mark_reads_blfm() -> None:
    assert SESSIONS.application_id.to_bytes(4, "big") == b"BLFM"
