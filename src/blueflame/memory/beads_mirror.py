"""Beads as a mirror: the issues and memories of `bd`, and what of them we know to be up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic

from blueflame.memory.beads import BeadsClient
from blueflame.memory.store import MemoryStore
from blueflame.model.errors import MemoryFailed
from blueflame.model.memory import MemoryRecord

SAVE_SECONDS = 60.0  # for one update; the rest is saved with the next one


class BeadsMirror:
    name = "Beads"

    def __init__(self, client: BeadsClient, store: MemoryStore) -> None:
        self._client = client
        self._store = store

    def check(self) -> None:
        if problem := self._client.find_problem():
            raise MemoryFailed(problem)

    def prepare(self) -> None:
        self.check()
        self._client.prepare()

    def list_digests(self) -> Mapping[str, str]:
        """From our own store: asking `bd` for every record would take minutes."""
        return {key: digest for key, (digest, _) in self._store.list_mirrored().items()}

    def save(self, records: Sequence[MemoryRecord]) -> None:
        began = monotonic()
        known = self._client.list_known_issues()
        for record in records:
            if monotonic() - began > SAVE_SECONDS:
                raise MemoryFailed(f"it took longer than {SAVE_SECONDS:.0f} seconds")
            self._store.note_mirrored(record, self._client.save(record, known.get(record.key)))

    def remove(self, keys: Sequence[str]) -> int:  # noqa: ARG002 (of the protocol)
        """Nothing: closed issues are the history that people keep Beads for."""
        return 0

    def load(self) -> Sequence[MemoryRecord]:
        return self._client.load()
