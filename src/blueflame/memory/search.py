"""The index of the memory database: full text by FTS5, and the paths that lessons are about.

Triggers keep the full text in step with its table. Where SQLite has no FTS5, they are removed and words are compared
one by one; they are built again by the next program that has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from blueflame.knowledge.subjects import find_own_domain, parse_subject
from blueflame.knowledge.words import split_humps, split_record
from blueflame.model.memory import RECORD_KIND_NAMES, Lesson, MemoryRecord
from blueflame.paths.locks import LockPath

HALF_LIFE = 200  # records that are newer, after which half of the relevance is left
MAX_FOUND = 40
MAX_ABOUT = 40  # lessons about one path
RARE_PARTS, MIN_COMMON = 50, 50  # a word is common in more than one record of 50, and in 50 at least
MIN_RARE = 3  # words that are searched however common they are
TITLE_WEIGHT, BODY_WEIGHT = 5.0, 1.0
TABLES = (
    "CREATE TABLE IF NOT EXISTS texts (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, "
    "title TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS subjects (path TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (path, key)) "
    "WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS subjects_of_keys ON subjects (key)",
)
FULL_TEXT = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS full_text USING fts5(title, body, content='texts', content_rowid='id', "
    "tokenize='porter unicode61')"
)
FORGET_OLD = "INSERT INTO full_text (full_text, rowid, title, body) VALUES ('delete', old.id, old.title, old.body)"
ADD_NEW = "INSERT INTO full_text (rowid, title, body) VALUES (new.id, new.title, new.body)"
TRIGGERS: Mapping[str, str] = {
    "texts_added": f"AFTER INSERT ON texts BEGIN {ADD_NEW}; END",
    "texts_gone": f"AFTER DELETE ON texts BEGIN {FORGET_OLD}; END",
    "texts_changed": f"AFTER UPDATE ON texts BEGIN {FORGET_OLD}; {ADD_NEW}; END",
}


def has_index(db: sqlite3.Connection) -> bool:
    """False in a database that an earlier version wrote, and where there is no FTS5."""
    return has_full_text(db) and len(_find_names(db, "trigger", tuple(TRIGGERS))) == len(TRIGGERS)


def has_table(db: sqlite3.Connection, name: str) -> bool:
    return bool(_find_names(db, "table", (name,)))


def prepare_index(db: sqlite3.Connection) -> bool:
    """Create what is missing; return whether the records have to be indexed. Idempotent."""
    fresh = not has_table(db, "texts")
    for table in TABLES:
        db.execute(table)
    if not has_full_text(db):
        for name in TRIGGERS:
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
    elif not has_index(db):
        db.execute(FULL_TEXT)
        for name, body in TRIGGERS.items():
            db.execute(f"CREATE TRIGGER IF NOT EXISTS {name} {body}")
        db.execute("INSERT INTO full_text (full_text) VALUES ('rebuild')")
    return fresh


def has_full_text(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone())


def _find_names(db: sqlite3.Connection, kind: str, names: Sequence[str]) -> list[str]:
    rows = db.execute("SELECT name FROM sqlite_master WHERE type = ?", (kind,))
    return [name for (name,) in rows if name in names]


def index_record(db: sqlite3.Connection, record: MemoryRecord) -> None:
    title, body = (_make_storable(split_humps(part)) for part in split_record(record))
    db.execute(
        "INSERT INTO texts (key, kind, title, body) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
        "kind = excluded.kind, title = excluded.title, body = excluded.body",
        (record.key, RECORD_KIND_NAMES[type(record)], title, body),
    )
    db.execute("DELETE FROM subjects WHERE key = ?", (record.key,))
    if isinstance(record, Lesson):
        paths = {_make_storable("/".join(path)) for path in parse_subject(record.origin.files)}
        paths |= {_format_domain(domain) for domain in (find_own_domain(record),) if domain}
        db.executemany("INSERT INTO subjects VALUES (?, ?)", [(path, record.key) for path in paths])


def _make_storable(text: str) -> str:
    """SQLite refuses lone surrogates, which names of files may have."""
    return text.encode("utf-8", "replace").decode("utf-8")


def drop_from_index(db: sqlite3.Connection, keys: Iterable[str]) -> None:
    for key in keys:
        db.execute("DELETE FROM texts WHERE key = ?", (key,))
        db.execute("DELETE FROM subjects WHERE key = ?", (key,))


def search_words(db: sqlite3.Connection, words: Sequence[str], *, lessons_only: bool) -> dict[str, float]:
    """Return the keys of what the words are about, and how much: 1 for the best, less for what is old."""
    words = [_make_storable(word) for word in words]
    newest = db.execute("SELECT max(id) FROM texts").fetchone()[0] or 0
    rare = _list_rare_words(db, words, newest)
    if not rare:
        return {}
    rows = db.execute(
        "SELECT texts.key, texts.id, bm25(full_text, ?, ?) AS rank FROM full_text JOIN texts ON texts.id = "
        "full_text.rowid WHERE full_text MATCH ? AND (texts.kind = 'lesson' OR ?) ORDER BY rank LIMIT ?",
        (TITLE_WEIGHT, BODY_WEIGHT, " OR ".join(f'"{word}"' for word in rare), not lessons_only, MAX_FOUND),
    )
    found = {key: -rank * 0.5 ** ((newest - number) / HALF_LIFE) for key, number, rank in rows}
    best = max(found.values(), default=0.0)
    return {key: round(value / best, 4) for key, value in found.items()} if best > 0 else {}


def _list_rare_words(db: sqlite3.Connection, words: Sequence[str], records: int) -> list[str]:
    """Leave out words that many records have, if enough others remain: they tell little apart and take long to rank."""
    limit = max(records // RARE_PARTS, MIN_COMMON)
    counting = "SELECT count(*) FROM (SELECT 1 FROM full_text WHERE full_text MATCH ? LIMIT ?)"
    counts = {word: db.execute(counting, (f'"{word}"', limit)).fetchone()[0] for word in words}
    known = sorted((word for word in words if counts[word]), key=lambda word: counts[word])
    return known[: max(sum(counts[word] < limit for word in known), MIN_RARE)]


def search_domain(db: sqlite3.Connection, domain: str) -> list[str]:
    """Return the keys of the newest lessons about a domain as a whole."""
    return _list_about(db, "path = ?", [_format_domain(domain)]) if domain else []


def _format_domain(domain: str) -> str:
    return _make_storable(f"/{domain}")  # no path of a subject begins so


def search_paths(db: sqlite3.Connection, locks: Iterable[LockPath]) -> list[str]:
    """Return the keys of the newest lessons about these paths and folders above them, then about files below them."""
    found: dict[str, None] = {}
    for lock in locks:
        above = [_make_storable("/".join(lock[:depth])) for depth in range(1, len(lock) + 1)]
        same = f"path IN ({', '.join('?' * len(above))})"
        found |= dict.fromkeys(_list_about(db, same, above))
        below = (f"{above[-1]}/", f"{above[-1]}0")  # "0" follows "/"
        found |= dict.fromkeys(_list_about(db, "path > ? AND path < ?", below))
    return list(found)


def _list_about(db: sqlite3.Connection, condition: str, values: Sequence[str]) -> list[str]:
    query = (
        f"SELECT DISTINCT texts.id, key FROM subjects JOIN texts USING (key) WHERE {condition} "  # noqa: S608 (only marks)
        "ORDER BY texts.id DESC LIMIT ?"
    )
    return [key for _id, key in db.execute(query, (*values, MAX_ABOUT))]
