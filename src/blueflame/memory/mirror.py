"""What a mirror of the memory is, and how it is brought up to date: by digests, so that it catches up by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple, Protocol

from blueflame.memory.codec import compute_digest
from blueflame.memory.store import MemoryStore
from blueflame.model.errors import WorldError
from blueflame.model.memory import MemoryRecord, Source


class Mirror(Protocol):
    """A second copy, never the truth. Every method but `name` may raise WorldError."""

    @property
    def name(self) -> str:
        """For people; without an address, which may hold a password."""
        ...

    def check(self) -> None:
        """Try whether it can be used; change nothing."""
        ...

    def prepare(self) -> None:
        """Make sure that it can be used. Idempotent."""
        ...

    def list_digests(self) -> Mapping[str, str]:
        """The digests of the records that it has, by their keys."""
        ...

    def save(self, records: Sequence[MemoryRecord]) -> None: ...

    def remove(self, keys: Sequence[str]) -> int:
        """Remove what a person made us forget; return how many were there."""
        ...

    def load(self) -> Sequence[MemoryRecord]:
        """What planners get from it without an import."""
        ...


class SyncResult(NamedTuple):
    mirror: str
    sent: int = 0
    removed: int = 0
    problem: str = ""


class MirrorLink:
    """A mirror of a store. After a failure it is left out until this process ends: it must not delay every save."""

    def __init__(self, mirror: Mirror, store: MemoryStore) -> None:
        self._mirror = mirror
        self._store = store
        self._ready = False
        self._given_up = ""
        self._lock = Lock()  # a planner may recall while a session is being saved

    def update(self) -> SyncResult:
        """Send what is new or changed. A mirror that was given up is not tried, and no second warning is given."""
        with self._lock:
            if self._given_up:
                return SyncResult(self._mirror.name)
            try:
                self._prepare()
                there = self._mirror.list_digests()
                removed = self._mirror.remove(sorted(self._store.list_forgotten() & there.keys()))
                pending = tuple(self._list_pending(there))
                if pending:
                    self._mirror.save(pending)
            except WorldError as error:
                return SyncResult(self._mirror.name, problem=self._give_up(error))
            return SyncResult(self._mirror.name, len(pending), removed)

    def load(self) -> tuple[Sequence[MemoryRecord], str]:
        """Return what planners get from it, and why it is not all."""
        with self._lock:
            if self._given_up:
                return (), self._given_up
            try:
                self._prepare()
                return self._mirror.load(), ""
            except WorldError as error:
                return (), self._give_up(error)

    def _prepare(self) -> None:
        if not self._ready:
            self._mirror.prepare()
            self._ready = True

    def _list_pending(self, there: Mapping[str, str]) -> Iterator[MemoryRecord]:
        """What only faded is not sent again, and a copy that was imported does not replace what is there."""
        for record in self._store.list_records():
            known = there.get(record.key)
            keeps = record.faded or record.origin.source is Source.IMPORT
            if known is None or (known != compute_digest(record) and not keeps):
                yield record

    def _give_up(self, error: WorldError) -> str:
        where = "everything is in .blueflame/memory.db"
        self._given_up = f"{self._mirror.name} is left out until the next session ({where}): {error}"
        return self._given_up
