"""A journal's file: open, create, migrate; refuse other files, with what to do about it. Its tables are a schema."""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import JournalError
from blueflame.system.disk import describe_file_limit
from blueflame.system.fd import sync_path

MAX_WAL_PAGES = 16  # written back after a few transactions: what a damaged -wal can lose is little
RESCUE_SECONDS, RESCUE_PAUSE_SECONDS = 6.0, 0.02  # an orchestrator looks every five seconds
WAL_INDEX_HEADER_BYTES = 48
MAX_PATH_BYTES = 480  # SQLite takes 512, with the longest name that a journal has while it is created
BUSY_TIMEOUT = 10.0  # a transaction takes milliseconds: a longer wait means a stuck process


class NoJournal(JournalError):
    """Nothing was ever recorded here."""


class Fenced(JournalError):
    """Another process has written to it, or put another file in its place: this process must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables of a kind of journal, and the words in which its errors are explained."""

    application_id: int  # tells it from any other SQLite file
    migrations: tuple[Callable[[sqlite3.Connection], None], ...]  # numbered from 1
    resume: str  # the command that continues
    absent: str  # why there may be no file
    kept: str = ""  # what a damaged file does not lose
    fit_reader: Callable[[sqlite3.Connection], None] = lambda _db: None  # gives a reader what an older file has not
    restore: Callable[[Path], None] = lambda _path: None  # what was deleted while no process had it open to write

    @property
    def version(self) -> int:
        return len(self.migrations)


REMEDIES = {
    sqlite3.SQLITE_NOTADB: "it is not a journal. Move it aside ({aside}) and start again",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Restore it from a backup, or move it aside together with {name}-wal "
    "({aside}) and start again{kept}",
    sqlite3.SQLITE_FULL: "the disk is full. Free some space and run `{resume}`",
    sqlite3.SQLITE_IOERR: "the disk failed or is full. Look at the disk, then run `{resume}`",
    sqlite3.SQLITE_READONLY: "it cannot be written. Make the file and its folder writable and try again",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened. Make the file and its folder {folder} readable and writable",
    sqlite3.SQLITE_PERM: "it may not be opened. Make the file and its folder {folder} readable and writable",
    sqlite3.SQLITE_BUSY: "another process holds it. Wait for that process or end it, then try again",
    sqlite3.SQLITE_LOCKED: "another process holds it. Wait for that process or end it, then try again",
}


@contextmanager
def explain_errors(path: Path, doing: str, schema: Schema) -> Iterator[None]:
    """Turn errors of SQLite or the disk into messages that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise JournalError(_format_error(path, doing, error, schema)) from error
    except OSError as error:
        raise JournalError(
            f"cannot {doing} the journal {path}: {error.strerror or error}. Nothing was changed; "
            f"make sure that the folder {path.parent} exists, is writable and has space left"
        ) from error


def _format_error(path: Path, doing: str, error: sqlite3.Error, schema: Schema) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code; the rest is detail
    remedy = REMEDIES.get(code, "SQLite refused it").format(
        aside=format_move_aside(path),
        name=path.name,
        folder=path.parent,
        resume=schema.resume,
        kept=schema.kept and f"; {schema.kept}",
    )
    if code == sqlite3.SQLITE_IOERR and (limit := describe_file_limit()):
        remedy = f"{limit}, then run `{schema.resume}`"
    if code == sqlite3.SQLITE_CANTOPEN and (length := len(os.fsencode(path))) > MAX_PATH_BYTES:
        remedy = f"its path has {length} bytes, SQLite takes {MAX_PATH_BYTES}. Move the repository to a shorter path"
    return f"cannot {doing} the journal {path}: {remedy} (SQLite: {error}). Nothing was changed"


def format_move_aside(path: Path) -> str:
    return shlex.join(["mv", str(path), f"{path}.aside"])


def open_to_write(path: Path, schema: Schema) -> sqlite3.Connection:
    with explain_errors(path, "open", schema):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _wait_for_rescue(path)
        else:
            _create_file(path, schema)
        schema.restore(path)
        return _connect(path, "mode=rw", schema, _prepare_to_write)


def open_to_read(path: Path, schema: Schema) -> sqlite3.Connection:
    with explain_errors(path, "open", schema):
        if not path.exists():
            raise NoJournal(f"there is no journal at {path}: {schema.absent}")
        _wait_for_rescue(path)
        schema.restore(path)
        try:
            return _connect(path, "mode=ro", schema, _prepare_to_read)
        except sqlite3.OperationalError:
            # in a read-only folder SQLite cannot create its -shm file; without a -wal there is no writer either
            if _wal_path(path).exists():
                raise
            return _connect(path, "mode=ro&immutable=1", schema, _prepare_to_read)


def _wait_for_rescue(path: Path) -> None:
    """Wait while a process has the journal open to write and its -wal or -shm was deleted.

    That process notices and puts a copy in place. Another -wal or -shm beside its own would damage the journal.
    """
    until = time.monotonic() + RESCUE_SECONDS
    while not all(read_inodes(path)) and (writer := _find_writer(path)):
        if time.monotonic() > until:
            raise JournalError(
                f"the journal {path} cannot be used: its -wal or -shm was deleted while process {writer} has it open, "
                f"and only that process has its newest events. Wait until it has saved them; if it hangs, end it "
                f"(kill {writer}). Then try again. Nothing was changed"
            )
        time.sleep(RESCUE_PAUSE_SECONDS)


def _find_writer(path: Path) -> int:
    """Return a process that has the journal open to write, by the lock that SQLite holds meanwhile; 0 for none."""
    with suppress(OSError), Path("/proc/locks").open() as locks:
        journal = path.stat()
        rows = [line.split() for line in locks if f":{journal.st_ino} " in line]  # of any file system
        return next((int(row[4]) for row in rows if row[1] == "POSIX" and _has_open_to_write(row[4], journal)), 0)
    return 0


def _has_open_to_write(pid: str, journal: os.stat_result) -> bool:
    with suppress(OSError):  # it has ended, or another user runs it
        for handle in Path("/proc", pid, "fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                if os.path.samestat(handle.stat(), journal) and handle.lstat().st_mode & stat.S_IWUSR:
                    return True
    return False


def read_inodes(path: Path) -> tuple[int, int, int]:
    """The inodes of the journal, its -wal and its -shm now, 0 for none: SQLite itself would keep using deleted ones."""
    return _read_inode(path), _read_inode(_wal_path(path)), _read_inode(path.with_name(f"{path.name}-shm"))


def find_lasting_damage(path: Path, schema: Schema) -> str:
    """What is wrong with the files of an open journal: its own connection reads what it remembers of them."""
    if not path.stat().st_size:
        return "it is empty"  # to open it would delete the -wal
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            if db.execute("PRAGMA application_id").fetchone()[0] != schema.application_id:
                return "its first page is another one"
            found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        return str(error)
    return "" if found == "ok" else found.splitlines()[-1]


def read_revision(path: Path) -> tuple[object, ...]:
    """A value that changes whenever a reader would find something else in the journal.

    Times of files do not tell: they have steps, and what is in a -wal can be read only once its disk has saved it and
    the index in the -shm names it. That begins with a count of the commits.
    """
    try:
        found, header = path.stat(), b""
    except OSError:
        return ()
    with suppress(OSError), path.with_name(f"{path.name}-shm").open("rb") as index:
        header = index.read(WAL_INDEX_HEADER_BYTES)
    return found.st_ino, found.st_size, found.st_mtime_ns, header


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


def _connect(
    path: Path, mode: str, schema: Schema, prepare: Callable[[Path, sqlite3.Connection, Schema], None]
) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,  # explicit transactions
        check_same_thread=False,  # the journal has its own lock
    )
    with ExitStack() as undo:
        undo.callback(db.close)
        prepare(path, db, schema)
        undo.pop_all()
    return db


def _prepare_to_write(path: Path, db: sqlite3.Connection, schema: Schema) -> None:
    _verify_owner(path, db, schema)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA wal_autocheckpoint = {MAX_WAL_PAGES}")
    apply_migrations(db, schema)
    db.execute("SELECT count(*) FROM sqlite_master").fetchone()  # creates the -wal file, whose inode is watched


def _prepare_to_read(path: Path, db: sqlite3.Connection, schema: Schema) -> None:
    _verify_owner(path, db, schema)
    schema.fit_reader(db)


def _verify_owner(path: Path, db: sqlite3.Connection, schema: Schema) -> None:
    """Refuse other files and newer versions. Through SQLite: a plain open and close would drop our locks on it."""
    found = db.execute("PRAGMA application_id").fetchone()[0]
    if found != schema.application_id:
        what = "another program's database" if found or path.stat().st_size else "an empty file"
        raise JournalError(
            f"{path} is {what}, not a Blue Flame journal. Nothing was changed; "
            f"restore the journal from a backup, or move this file aside ({format_move_aside(path)}) and start again"
        )
    if read_version(db) > schema.version:
        raise JournalError(
            f"the journal {path} has version {read_version(db)}, this Blue Flame supports up to "
            f"{schema.version}. Nothing was changed; use the newer Blue Flame that wrote it"
        )


def refuse_wal_without_file(path: Path) -> None:
    """Raise when only the -wal of a journal is left."""
    if _wal_path(path).exists() and _wal_path(path).stat().st_size:  # a reader leaves an empty one
        raise JournalError(
            f"the journal {path} is missing but {path.name}-wal with its newest events exists. Nothing was "
            f"changed; put the journal back, or move that file aside ({format_move_aside(_wal_path(path))})"
        )


def _create_file(path: Path, schema: Schema) -> None:
    """Create it under another name and rename it: a journal that exists is complete, an empty one is damaged."""
    refuse_wal_without_file(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    try:
        _fill_draft(draft, schema)
        _put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _fill_draft(draft: Path, schema: Schema) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = MEMORY")
        db.execute("PRAGMA synchronous = OFF")  # synced as a whole: no draft is read after a crash
        db.execute(f"PRAGMA application_id = {schema.application_id}")
        apply_migrations(db, schema)
    sync_path(str(draft))


def _put_in_place(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return  # another process created it first
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        draft.rename(path)  # a file system without hard links
    sync_path(str(path.parent))


def read_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def apply_migrations(db: sqlite3.Connection, schema: Schema) -> None:
    """Migrate the tables to the newest version: all steps or none. The database must be in autocommit mode."""
    if read_version(db) >= schema.version:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(read_version(db) + 1, schema.version + 1):  # read again: another process may have done it
            schema.migrations[number - 1](db)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


class Database:
    """An open journal file with its lock: it may be used from several threads of one process."""

    def __init__(self, path: Path, db: sqlite3.Connection, schema: Schema) -> None:
        self.path = path
        self._db = db
        self._schema = schema
        self._lock = threading.RLock()
        self._inodes = read_inodes(path)
        self._deleted: JournalError | None = None  # raised at every write once its file is gone

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, _error: BaseException | None, _trace: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _fetch_all(self, sql: str, *values: object) -> list[Any]:
        with self._lock, explain_errors(self.path, "read", self._schema):
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        with self._lock, explain_errors(self.path, doing, self._schema):
            self.check_file()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def check_file(self) -> None:
        """Raise when the file was deleted or replaced: SQLite would keep writing to it, and that would be lost."""
        if read_inodes(self.path) == self._inodes:
            return
        if self._deleted is None:
            is_replaced = read_inodes(self.path)[0] not in (0, self._inodes[0])
            try:
                words = self._rescue()
            except (OSError, sqlite3.Error) as error:
                words = f"A copy could not be saved ({error}): restore the journal from a backup"
            state = f"the journal {self.path} was deleted or replaced while it was in use. Nothing more was written"
            self._deleted = (Fenced if is_replaced else JournalError)(f"{state}. {words}")
        raise self._deleted

    def refuse_damage(self) -> None:
        """Raise if the file is damaged: before the first write, which could lose what can still be read."""
        with explain_errors(self.path, "read", self._schema):
            if found := self._run_check("quick_check(1)"):
                error = sqlite3.DatabaseError(found[0])
                error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise error

    def _run_check(self, pragma: str) -> tuple[str, ...]:
        return tuple(str(line) for (line,) in self._fetch_all(f"PRAGMA {pragma}") if line != "ok")

    def _rescue(self) -> str:
        """Save a copy from the open file, which still has everything: in its place, unless another file is there."""
        copy, place = _find_free_name(self.path), self.path.parent.parent
        if not place.exists():
            return f"{place} is gone. Put it back, or run `{self._schema.resume}` where it is now"
        copy.parent.mkdir(exist_ok=True)
        try:
            with self._lock, closing(sqlite3.connect(copy)) as db:
                self._db.backup(db)
                if (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                    raise sqlite3.DatabaseError(f"it was damaged before: {found.splitlines()[-1]}")
            if read_inodes(self.path)[0] in (0, self._inodes[0]):
                put_copy_in_place(copy, self.path)
                return f"Its events were saved there again. To continue: `{self._schema.resume}`"
        except (OSError, sqlite3.Error):
            copy.unlink(missing_ok=True)
            raise
        command = shlex.join(["mv", str(copy), str(self.path)])
        return f"Its events were saved to {copy}. To continue: {command} and `{self._schema.resume}`"


def _find_free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.rescued{n}") for n in ("", *range(2, 100)))
    return next(name for name in names if not name.exists())
