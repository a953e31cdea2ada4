"""The journal's file and its tables: open, create, migrate; refuse other files, with what to do about it."""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from blueflame.model.errors import JournalError

APPLICATION_ID = 0x424C464D  # "BLFM": tells the journal from any other SQLite file
MAX_WAL_PAGES = 16  # written back after a few transactions: what a damaged -wal can lose is little
BUSY_TIMEOUT = 10.0  # a transaction takes milliseconds: a longer wait means a stuck process


class NoJournal(JournalError):
    """No session was ever started here."""


REMEDIES = {
    sqlite3.SQLITE_NOTADB: "it is not a journal. Move it aside ({aside}) and start again",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Restore it from a backup, or move it aside together with {name}-wal "
    "({aside}) and start again; the commits of every attempt are still under refs/blueflame/",
    sqlite3.SQLITE_FULL: "the disk is full. Free some space and run `blueflame resume`",
    sqlite3.SQLITE_IOERR: "the disk failed or is full. Look at the disk, then run `blueflame resume`",
    sqlite3.SQLITE_READONLY: "it cannot be written. Make the file and its folder writable and try again",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened. Make the file and its folder {folder} readable and writable",
    sqlite3.SQLITE_PERM: "it may not be opened. Make the file and its folder {folder} readable and writable",
    sqlite3.SQLITE_BUSY: "another process holds it. Wait for that process or end it, then try again",
    sqlite3.SQLITE_LOCKED: "another process holds it. Wait for that process or end it, then try again",
}


@contextmanager
def explain_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of SQLite or the disk into messages that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise JournalError(_format_error(path, doing, error)) from error
    except OSError as error:
        raise JournalError(
            f"cannot {doing} the journal {path}: {error.strerror or error}. Nothing was changed; "
            f"make sure that the folder {path.parent} exists, is writable and has space left"
        ) from error


def _format_error(path: Path, doing: str, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code; the rest is detail
    remedy = REMEDIES.get(code, "SQLite refused it").format(
        aside=_format_move_aside(path), name=path.name, folder=path.parent
    )
    return f"cannot {doing} the journal {path}: {remedy} (SQLite: {error}). Nothing was changed"


def _format_move_aside(path: Path) -> str:
    return shlex.join(["mv", str(path), f"{path}.aside"])


def open_to_write(path: Path) -> sqlite3.Connection:
    with explain_errors(path, "open"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _create_file(path)
        return _connect(path, "mode=rw", _prepare_to_write)


def open_to_read(path: Path) -> sqlite3.Connection:
    with explain_errors(path, "open"):
        if not path.exists():
            raise NoJournal(f"there is no journal at {path}: no session has been started here yet")
        try:
            return _connect(path, "mode=ro", _prepare_to_read)
        except sqlite3.OperationalError:
            # in a read-only folder SQLite cannot create its -shm file; without a -wal there is no writer either
            if _wal_path(path).exists():
                raise
            return _connect(path, "mode=ro&immutable=1", _prepare_to_read)


def read_inodes(path: Path) -> tuple[int, int]:
    """The inodes of the journal and its -wal now, 0 for none: SQLite itself would keep writing to a deleted file."""
    return _read_inode(path), _read_inode(_wal_path(path))


def put_copy_in_place(copy: Path, path: Path) -> None:
    """Rename a copy to the journal. The -wal of the file that it replaces would be read as a part of it, so it goes."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    copy.replace(path)


def _read_inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _wal_path(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _connect(path: Path, mode: str, prepare: Callable[[Path, sqlite3.Connection], None]) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,  # explicit transactions
        check_same_thread=False,  # the journal has its own lock
    )
    with ExitStack() as undo:
        undo.callback(db.close)
        prepare(path, db)
        undo.pop_all()
    return db


def _prepare_to_write(path: Path, db: sqlite3.Connection) -> None:
    _verify_owner(path, db)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA wal_autocheckpoint = {MAX_WAL_PAGES}")
    apply_migrations(db)
    db.execute("SELECT count(*) FROM sqlite_master").fetchone()  # creates the -wal file, whose inode is watched


def _prepare_to_read(path: Path, db: sqlite3.Connection) -> None:
    _verify_owner(path, db)
    _list_sessions_of_older(db)


def _verify_owner(path: Path, db: sqlite3.Connection) -> None:
    """Refuse other files and newer versions. Through SQLite: a plain open and close would drop our locks on it."""
    found = db.execute("PRAGMA application_id").fetchone()[0]
    if found != APPLICATION_ID:
        what = "another program's database" if found or path.stat().st_size else "an empty file"
        raise JournalError(
            f"{path} is {what}, not a Blue Flame journal. Nothing was changed; "
            f"restore the journal from a backup, or move this file aside ({_format_move_aside(path)}) and start again"
        )
    if read_version(db) > NEWEST_VERSION:
        raise JournalError(
            f"the journal {path} has version {read_version(db)}, this Blue Flame supports up to "
            f"{NEWEST_VERSION}. Nothing was changed; use the newer Blue Flame that wrote it"
        )


def _create_file(path: Path) -> None:
    """Create it under another name and rename it: a journal that exists is complete, an empty one is damaged."""
    if _wal_path(path).exists():
        raise JournalError(
            f"the journal {path} is missing but {path.name}-wal with its newest events exists. Nothing was "
            f"changed; put the journal back, or move that file aside ({_format_move_aside(_wal_path(path))})"
        )
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    try:
        _fill_draft(draft)
        _put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _fill_draft(draft: Path) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        apply_migrations(db)


def _put_in_place(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return  # another process created it first
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        draft.rename(path)  # a file system without hard links
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (m001_events_and_inbox, m002_sessions)
SESSIONS_VERSION = 2
NEWEST_VERSION = len(MIGRATIONS)


def read_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def apply_migrations(db: sqlite3.Connection) -> None:
    """Migrate the tables to the newest version: all steps or none. The database must be in autocommit mode."""
    if read_version(db) >= NEWEST_VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(read_version(db) + 1, NEWEST_VERSION + 1):  # read again: another process may have done it
            MIGRATIONS[number - 1](db)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
