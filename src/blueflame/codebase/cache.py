"""What is known of contents and commits, by their ids: .blueflame/code_map.db. It can be deleted at any time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from blueflame.codebase.survey import PastCommit, Symbol

VERSION = 1
LOCK_TIMEOUT = 2.0
SPARE_ROWS = 20_000  # facts of other commits that are kept
TABLES = (
    "CREATE TABLE outlines (blob TEXT NOT NULL, suffix TEXT NOT NULL, symbols TEXT, PRIMARY KEY (blob, suffix)) "
    "WITHOUT ROWID",
    "CREATE TABLE commits (sha TEXT PRIMARY KEY, author TEXT NOT NULL, paths TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE parsers (name TEXT PRIMARY KEY) WITHOUT ROWID",
)


class Content(NamedTuple):
    """What a file has, and how it is to be read: the same bytes are another thing in a file of another language."""

    blob: str
    suffix: str


class CodeCache:
    """Open it with `open_cache`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def use_parser(self, name: str) -> None:
        """Drop what another parser, or another version of it, has read."""
        with self._db:
            if self._db.execute("SELECT name FROM parsers").fetchall() != [(name,)]:
                self._db.execute("DELETE FROM outlines")
                self._db.execute("DELETE FROM parsers")
                self._db.execute("INSERT INTO parsers VALUES (?)", (name,))

    def list_read(self) -> dict[tuple[str, str], bool]:
        """All contents that were tried, and whether they could be read."""
        rows = self._db.execute("SELECT blob, suffix, symbols IS NOT NULL FROM outlines")
        return {(blob, suffix): bool(good) for blob, suffix, good in rows}

    def save_outlines(self, outlines: Iterable[tuple[Content, tuple[Symbol, ...] | None]]) -> None:
        rows = [(*content, None if found is None else json.dumps(found)) for content, found in outlines]
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO outlines VALUES (?, ?, ?)", rows)

    def load_outline(self, content: Content) -> tuple[Symbol, ...]:
        row = self._db.execute("SELECT symbols FROM outlines WHERE blob = ? AND suffix = ?", content).fetchone()
        return _parse_symbols(row[0]) if row else ()

    def find_definitions(self, name: str) -> Mapping[Content, tuple[Symbol, ...]]:
        """Return the contents that define the name, in whatever scope."""
        query = "SELECT blob, suffix, symbols FROM outlines WHERE instr(symbols, ?)"
        rows = self._db.execute(query, (json.dumps(name),)).fetchall()
        found = {
            Content(blob, suffix): tuple(each for each in _parse_symbols(text) if each.name == name)
            for blob, suffix, text in rows
        }
        return {content: symbols for content, symbols in found.items() if symbols}

    def load_commits(self, shas: Sequence[str]) -> dict[str, PastCommit]:
        wanted = set(shas)
        rows = self._db.execute("SELECT sha, author, paths FROM commits")
        return {sha: PastCommit(sha, author, tuple(json.loads(paths))) for sha, author, paths in rows if sha in wanted}

    def save_commits(self, commits: Iterable[PastCommit]) -> None:
        with self._db:
            rows = [(each.sha, each.author, json.dumps(each.paths)) for each in commits]
            self._db.executemany("INSERT OR REPLACE INTO commits VALUES (?, ?, ?)", rows)

    def drop_unused(self, used: Iterable[Content], commits: Iterable[str]) -> None:
        """Drop facts of other commits when there are many."""
        for table, names, kept in (("outlines", "blob, suffix", list(used)), ("commits", "sha", list(commits))):
            (count,) = self._db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 (names of ours)
            if count > len(kept) + SPARE_ROWS:
                rows = self._db.execute(f"SELECT {names} FROM {table}").fetchall()  # noqa: S608 (as above)
                gone = set(rows).difference(each if isinstance(each, tuple) else (each,) for each in kept)
                where = " AND ".join(f"{name} = ?" for name in names.split(", "))
                with self._db:
                    self._db.executemany(f"DELETE FROM {table} WHERE {where}", sorted(gone))  # noqa: S608 (as above)


def _parse_symbols(text: str | None) -> tuple[Symbol, ...]:
    return tuple(Symbol(*row) for row in json.loads(text or "[]"))


@contextmanager
def open_cache(path: Path | None) -> Iterator[CodeCache]:
    """Open it, or one in memory when there is no place for it, or when it is damaged or in use."""
    db = (path and _try_open(path)) or _open(":memory:")
    try:
        yield CodeCache(db)
    finally:
        db.close()


def _try_open(path: Path) -> sqlite3.Connection | None:
    for _ in range(2):
        try:
            return _open(str(path))
        except sqlite3.Error as error:
            if not remove_damaged(path, error):
                return None
    return None


def remove_damaged(path: Path, error: sqlite3.Error) -> bool:
    """Remove it if it is damaged or of another version, not if it is in use: all that is in it can be found again."""
    if isinstance(error, sqlite3.OperationalError):
        return False
    with suppress(OSError):
        path.unlink(missing_ok=True)
        return True
    return False


def _open(place: str) -> sqlite3.Connection:
    db = sqlite3.connect(place, timeout=LOCK_TIMEOUT)
    try:
        db.execute("PRAGMA synchronous = OFF")  # a power cut costs a cache
        with db:
            db.execute("BEGIN IMMEDIATE")  # another process may be creating it
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for table in TABLES:
                    db.execute(table)
                db.execute(f"PRAGMA user_version = {VERSION}")
            elif version != VERSION:
                raise sqlite3.DatabaseError(f"version {version}")
            for name in ("outlines", "commits", "parsers"):
                db.execute(f"SELECT count(*) FROM {name} WHERE 0")  # noqa: S608 (names of ours)
    except BaseException:
        db.close()
        raise
    return db
