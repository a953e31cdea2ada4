"""The pool of a house, in its journal: leases of agents at work, wants of those that wait, what was spent today.

Written by the orchestrators of its sessions, each change in one transaction. A lease is not the truth about an agent:
its warden's lock is. So a lease without a living agent is dropped, and one of a living agent is taken again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Self

from blueflame.dispatch.pool import WANT_SECONDS, Lease, PoolLimits, PoolState, Want, decide_grant, describe_wait
from blueflame.journal.database import Database, open_to_read, open_to_write
from blueflame.journal.house import HOUSE_TABLES
from blueflame.model.limits import SlotWait

MAX_DURATIONS = 50
COLUMNS = ("attempt", "role", "repository", "session", "since", "micro_usd", "ad_hoc")
"""Of leases and wants, by the names of their fields."""


class PoolJournal(Database):
    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(path, open_to_write(path, HOUSE_TABLES), HOUSE_TABLES)

    @classmethod
    def open_read_only(cls, path: Path) -> Self:
        return cls(path, open_to_read(path, HOUSE_TABLES), HOUSE_TABLES)

    def write_limits(self, limits: PoolLimits) -> None:
        """Written by the house when it starts: what its sessions go by."""
        with self._transaction("write limits to") as db:
            db.execute("INSERT OR REPLACE INTO notes VALUES ('pool', 'limits', ?)", (json.dumps(asdict(limits)),))

    def read_limits(self) -> PoolLimits | None:
        rows = self._fetch_all("SELECT value FROM notes WHERE source = 'pool' AND key = 'limits'")
        return PoolLimits(**json.loads(rows[0][0])) if rows else None

    def read_state(self, day: str, free_memory: int) -> PoolState:
        columns = ", ".join(COLUMNS)
        leases = self._fetch_all(f"SELECT {columns} FROM leases ORDER BY since")  # noqa: S608 (a constant)
        wants = self._fetch_all(f"SELECT {columns}, asked_at FROM wants ORDER BY since")  # noqa: S608 (as above)
        spent = self._fetch_all("SELECT coalesce(sum(micro_usd), 0) FROM spends WHERE day = ?", day)
        return PoolState(
            leases=tuple(Lease(**_name_fields(row)) for row in leases),
            wants=tuple(Want(**_name_fields(row), asked_at=row[-1]) for row in wants),
            free_memory=free_memory,
            day_micro_usd=int(spent[0][0]),
        )

    def ask(
        self, want: Want, *, day: str, free_memory: int, holder: str, folder: Path, signals: Path
    ) -> SlotWait | None:
        """Take a lease if one is free; else note the want, and return why it waits.

        `holder`: the process that asks, until an agent works.
        """
        limits = self.read_limits() or PoolLimits()
        with self._transaction("ask for a slot in") as db:
            rows = db.execute("SELECT since FROM wants WHERE attempt = ?", (want.attempt,)).fetchall()
            want = replace(want, since=min(want.since, *rows[0]) if rows else want.since)
            if _take_over(db, want.attempt, holder):
                return None
            state = self.read_state(day, free_memory)
            grant = decide_grant(want, state, limits)
            if grant.given:
                db.execute("DELETE FROM wants WHERE attempt = ?", (want.attempt,))
                own = (want.attempt, want.role, want.repository, want.session, want.asked_at, want.micro_usd)
                _insert_lease(db, own, holder, folder, ad_hoc=grant.ad_hoc)
                return None
            db.execute("DELETE FROM wants WHERE abs(asked_at - ?) > ?", (want.asked_at, WANT_SECONDS))
            own = (want.attempt, want.role, want.repository, want.session, want.since, want.micro_usd)
            row = (*own, want.ad_hoc, want.asked_at, str(signals))
            db.execute("INSERT OR REPLACE INTO wants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return describe_wait(want, state, limits, self.read_durations())

    def keep_leases(self, repository: str, session: str, live: Mapping[str, tuple[Lease, str, Path]]) -> None:
        """Make the leases of a session those of its live attempts, whatever the limits; each with holder and folder."""
        with self._transaction("keep leases in") as db:
            sql = "SELECT attempt FROM leases WHERE repository = ? AND session = ?"
            held = {name for (name,) in db.execute(sql, (repository, session))}
            for name in held - set(live):
                db.execute("DELETE FROM leases WHERE attempt = ?", (name,))
            for name, (lease, holder, folder) in live.items():
                if name not in held or not _take_over(db, name, holder):
                    own = (name, lease.role, lease.repository, session, lease.since, lease.micro_usd)
                    _insert_lease(db, own, holder, folder, ad_hoc=lease.ad_hoc)
            db.execute("DELETE FROM wants WHERE attempt IN (SELECT attempt FROM leases)")

    def note_ended(self, ended: Sequence[tuple[str, str, str, int, float]]) -> None:
        """Note attempt, role, day, cost and seconds of agents that ended; each counts once."""
        with self._transaction("note costs in") as db:
            db.executemany("INSERT OR IGNORE INTO spends VALUES (?, ?, ?, ?, ?)", ended)

    def drop_dead(self, is_alive: Callable[[str, Path], bool]) -> tuple[str, ...]:
        """Drop leases whose agent and holder are gone, and return them. The locks are read outside of a transaction."""
        rows = self._fetch_all("SELECT attempt, holder, folder FROM leases")
        dead = [(name, holder) for name, holder, folder in rows if not is_alive(holder, Path(folder))]
        if dead:
            with self._transaction("drop leases from") as db:
                sql = "DELETE FROM leases WHERE attempt = ? AND holder = ?"  # not one that was taken over meanwhile
                dead = [each for each in dead if db.execute(sql, each).rowcount]
        return tuple(name for name, _ in dead)

    def list_waiting_signals(self, now: float) -> tuple[Path, ...]:
        """Where the orchestrators are woken that wait for a slot."""
        sql = "SELECT DISTINCT signals FROM wants WHERE abs(asked_at - ?) <= ?"
        rows = self._fetch_all(sql, now, WANT_SECONDS)
        return tuple(Path(folder) for (folder,) in rows)

    def read_durations(self) -> dict[str, list[float]]:
        """How long agents of each role worked lately."""
        found: dict[str, list[float]] = defaultdict(list)
        for role, seconds in self._fetch_all("SELECT role, seconds FROM spends ORDER BY rowid DESC LIMIT 500"):
            if len(found[role]) < MAX_DURATIONS:
                found[role].append(seconds)
        return found


def _name_fields(row: Sequence[Any]) -> dict[str, Any]:
    """Without what a want has more."""
    return dict(zip(COLUMNS, row, strict=False)) | {"ad_hoc": bool(row[6])}


def _take_over(db: Connection, attempt: str, holder: str) -> bool:
    """Make a lease that exists that of this process: the one that took it may have ended."""
    return bool(db.execute("UPDATE leases SET holder = ? WHERE attempt = ?", (holder, attempt)).rowcount)


def _insert_lease(db: Connection, own: Sequence[object], holder: str, folder: Path, *, ad_hoc: bool) -> None:
    row = (*own, holder, str(folder), ad_hoc)
    db.execute("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
