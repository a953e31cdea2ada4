"""The pool of the house that started this session: a slot is asked for before an attempt is intended.

Without a house every slot is free. The session's leases are made equal to its live attempts, so that a lease which was
lost, or not given back, does not outlive one decision.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from blueflame.dispatch.pool import Lease, Want
from blueflame.journal.pool import PoolJournal
from blueflame.model.attempt import Attempt
from blueflame.model.errors import BlueFlameError, JournalError
from blueflame.model.limits import SlotWait
from blueflame.model.spend import Unit
from blueflame.session.state import Session
from blueflame.system import flock
from blueflame.system.clock import find_local_day
from blueflame.system.layout import POOL_VARIABLE, HousePaths, StatePaths
from blueflame.system.machine import measure_free
from blueflame.system.process_identity import read_identity
from blueflame.system.wakeups import send_wakeup


class PoolClient:
    """What the loop asks for slots. It has no house: every slot is free."""

    def keep(self, session: Session, now: float) -> None:
        """Make the leases those of the live attempts."""

    def ask(self, attempt: Attempt, now: float) -> SlotWait | None:
        """Why the attempt may not be intended now; None if it may."""
        del attempt, now
        return None


class HousePool(PoolClient):
    def __init__(self, house: HousePaths, state: StatePaths) -> None:
        self._house = house
        self._state = state
        self._kept: tuple[frozenset[str], int] | None = None  # live attempts and ended ones that the pool knows

    def keep(self, session: Session, now: float) -> None:
        known = (frozenset(session.live), len(session.attempts) - len(session.live))
        if known == self._kept or not self._house.journal.exists():
            return
        holder, intended = _describe_holder(), session.attempts
        live = {
            self._name(name): (self._build_lease(attempt, intended[name].intended_at), holder, self._find_folder(name))
            for name, attempt in session.live.items()
        }
        today = find_local_day(now)
        ended = [
            (
                self._name(name),
                record.attempt.role,
                today.date,
                record.ended.spend.micro_usd,
                record.ended_at - record.intended_at,
            )
            for name, record in session.attempts.items()
            if record.ended is not None and record.ended_at is not None and record.ended_at >= today.began_at
        ]
        with suppress(JournalError), PoolJournal.open(self._house.journal) as pool:
            before = {lease.attempt for lease in pool.read_state("", 0).leases}
            pool.keep_leases(str(self._state.root), session.id, live)
            pool.note_ended(ended)
            self._kept = known
            self._wake_others(pool.list_waiting_signals(now) if before - set(live) else ())

    def _wake_others(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            if folder != self._state.signals:
                with suppress(BlueFlameError):  # its repository may be gone; it asks again by itself
                    send_wakeup(folder, "pool")

    def ask(self, attempt: Attempt, now: float) -> SlotWait | None:
        """A pool that cannot be read gives no slot, and is asked again; a house that was deleted has no pool."""
        if not self._house.journal.exists():
            return None
        try:
            return self._ask_house(attempt, now)
        except JournalError as error:
            return SlotWait(subject=attempt.subject, reason=str(error), ad_hoc=attempt.ad_hoc)

    def _ask_house(self, attempt: Attempt, now: float) -> SlotWait | None:
        lease = self._build_lease(attempt, now)
        want = Want(
            attempt=lease.attempt,
            role=attempt.role,
            repository=lease.repository,
            session=attempt.session,
            since=now,
            asked_at=now,
            micro_usd=lease.micro_usd,
            ad_hoc=attempt.ad_hoc,
        )
        with PoolJournal.open(self._house.journal) as pool:
            pool.drop_dead(is_lease_alive)
            return pool.ask(
                want,
                day=find_local_day(now).date,
                free_memory=measure_free(self._state.root).memory,
                holder=_describe_holder(),
                folder=self._find_folder(attempt.id),
                signals=self._state.signals,
            )

    def _build_lease(self, attempt: Attempt, since: float) -> Lease:
        budget = attempt.budget
        return Lease(
            attempt=self._name(attempt.id),
            role=attempt.role,
            repository=str(self._state.root),
            session=attempt.session,
            since=since,
            micro_usd=budget.limit if budget.unit is Unit.USD else 0,
            ad_hoc=attempt.ad_hoc,
        )

    def _name(self, attempt: str) -> str:
        """Two repositories may have sessions of the same second, and so attempts of the same id."""
        return f"{attempt}@{self._state.root}"

    def _find_folder(self, attempt: str) -> Path:
        return self._state.attempts / attempt


def find_pool(environ: Mapping[str, str], state: StatePaths) -> PoolClient:
    """The pool of the house that started this process, if one did."""
    house = environ.get(POOL_VARIABLE, "")
    return HousePool(HousePaths(Path(house)), state) if house else PoolClient()


def is_lease_alive(holder: str, folder: Path) -> bool:
    """Whether an agent works there, by the lock of its warden, or the process lives that is about to start it."""
    with suppress(BlueFlameError):
        if flock.read_lock_holder(folder / "lock") is not None:
            return True
    pid, _, start = holder.partition(" ")
    found = read_identity(int(pid)) if pid.isdigit() else None
    return found is not None and f"{found.start_time:.2f}" == start


def _describe_holder() -> str:
    me = read_identity(os.getpid())
    return f"{os.getpid()} {me.start_time:.2f}" if me is not None else ""
