"""The built-in memory, mirrored to Beads; a failure of Beads gives one warning and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from threading import Lock
from time import monotonic

from blueflame.memory.beads import BeadsClient, build_memory_key
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.codec import compute_digest
from blueflame.memory.provider import JournalMark, RecallRequest
from blueflame.model.errors import WorldError
from blueflame.model.memory import MemoryContext, MemoryRecord

MIRROR_TIMEOUT = 60.0  # for one update; the rest is saved with the next one


class MirroredMemory:
    def __init__(self, first: BuiltInMemory, beads: BeadsClient) -> None:
        self._first = first
        self._beads = beads
        self._ready = False
        self._given_up = ""
        self._lock = Lock()  # a planner may recall while a session is being saved

    def recall(self, budget: int, request: RecallRequest) -> MemoryContext:
        """Recall also from the records of other copies of the repository."""
        try:
            own = self._first.list_records()
            with self._lock:
                others, note = self._load_others(own)
            found = self._first.choose_records((*own, *others), budget, request)
        except WorldError as error:
            return MemoryContext(note=str(error))
        return replace(found, note=note)

    def remember(self, records: Sequence[MemoryRecord], mark: JournalMark | None = None) -> str:
        warning = self._first.remember(records, mark)
        with self._lock:
            return self._update_mirror() or warning

    def list_marks(self) -> Sequence[JournalMark]:
        return self._first.list_marks()

    def list_records(self) -> Sequence[MemoryRecord]:
        return self._first.list_records()

    def _load_others(self, own: Sequence[MemoryRecord]) -> tuple[tuple[MemoryRecord, ...], str]:
        if self._given_up:
            return (), self._given_up
        known = {record.key for record in own} | self._first.store.list_forgotten()
        known |= {build_memory_key(key) for key in known}
        try:
            self._prepare_mirror()
            return tuple(record for record in self._beads.load() if record.key not in known), ""
        except WorldError as error:
            return (), self._give_up(error)

    def _update_mirror(self) -> str:
        if self._given_up:
            return ""
        try:
            self._prepare_mirror()
            self._save_pending()
        except WorldError as error:
            return self._give_up(error)
        return ""

    def _prepare_mirror(self) -> None:
        if self._ready:
            return
        problem = self._beads.find_problem()
        if problem:
            raise WorldError(problem)
        self._beads.prepare()
        self._ready = True

    def _save_pending(self) -> None:
        pending = tuple(self._list_pending())
        if not pending:
            return
        began = monotonic()
        known = self._beads.list_known_issues()
        for record in pending:
            if monotonic() - began > MIRROR_TIMEOUT:
                raise WorldError(f"it took longer than {MIRROR_TIMEOUT:.0f} seconds")
            self._first.store.note_mirrored(record, self._beads.save(record, known.get(record.key)))

    def _list_pending(self) -> Iterator[MemoryRecord]:
        """Records that are new or changed since; a record that only faded is not saved again."""
        seen = self._first.store.list_mirrored()
        for record in self._first.store.list_records():
            there = seen.get(record.key)
            if there is None or (there[0] != compute_digest(record) and not record.faded):
                yield record

    def _give_up(self, error: WorldError) -> str:
        """Until this process ends: a mirror that hangs must not delay every save."""
        self._given_up = f"Beads is left out until the next session (everything is in .blueflame/memory.db): {error}"
        return self._given_up
