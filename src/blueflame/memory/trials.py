"""In the memory database: attempts with what they were given, and what that says about each lesson."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from blueflame.knowledge.effect import Effect, Trial
from blueflame.model.attempt import Duty
from blueflame.model.errors import MemoryFailed

TABLES = (
    "CREATE TABLE IF NOT EXISTS trials (attempt TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, given INTEGER NOT NULL, tried INTEGER NOT NULL, "
    "passed INTEGER NOT NULL, others INTEGER NOT NULL, others_passed INTEGER NOT NULL) WITHOUT ROWID",
)


def put_trial(db: sqlite3.Connection, trial: Trial) -> int:
    """Return 1 if it is new or has changed."""
    body = json.dumps(asdict(trial), separators=(",", ":"), sort_keys=True)
    return db.execute(
        "INSERT INTO trials VALUES (?, ?) ON CONFLICT (attempt) DO UPDATE SET body = excluded.body "
        "WHERE body <> excluded.body",
        (trial.attempt, body),
    ).rowcount


def list_trials(db: sqlite3.Connection) -> list[Trial]:
    return [_read_trial(*row) for row in db.execute("SELECT attempt, body FROM trials ORDER BY attempt")]


def _read_trial(attempt: str, body: str) -> Trial:
    try:
        found = json.loads(body)
        lists = {name: tuple(found[name]) for name in ("files", "lessons")}
        return Trial(**found | lists | {"duty": Duty(found["duty"])})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MemoryFailed(f"what attempt {attempt} was given cannot be read: {error}") from error


def put_effects(db: sqlite3.Connection, effects: Mapping[str, Effect]) -> None:
    rows = [(key, *asdict(effect).values()) for key, effect in effects.items()]
    db.execute("DELETE FROM effects")
    db.executemany("INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?)", rows)


def list_effects(db: sqlite3.Connection) -> dict[str, Effect]:
    return {key: _build_effect(numbers) for key, *numbers in db.execute("SELECT * FROM effects")}


def select_effects(db: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Effect]:
    rows = (db.execute("SELECT * FROM effects WHERE key = ?", (key,)).fetchone() for key in keys)
    return {row[0]: _build_effect(row[1:]) for row in rows if row is not None}


def _build_effect(numbers: Iterable[int]) -> Effect:
    given, tried, passed, others, others_passed = numbers
    return Effect(given=given, tried=tried, passed=passed, others=others, others_passed=others_passed)
