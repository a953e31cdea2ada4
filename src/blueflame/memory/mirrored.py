"""The built-in memory, mirrored to Beads; a failure of Beads gives one warning and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from threading import Lock
from time import monotonic

from blueflame.knowledge.effect import Trial
from blueflame.knowledge.selection import Choice
from blueflame.memory.beads import BeadsClient, build_memory_key
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.codec import compute_digest
from blueflame.memory.provider import JournalMark, Recalled, RecallRequest
from blueflame.model.attempt import Duty
from blueflame.model.errors import WorldError
from blueflame.model.memory import Lesson, MemoryRecord

MIRROR_TIMEOUT = 60.0  # for one update; the rest is saved with the next one


class MirroredMemory:
    def __init__(self, first: BuiltInMemory, beads: BeadsClient) -> None:
        self._first = first
        self._beads = beads
        self._ready = False
        self._given_up = ""
        self._lock = Lock()  # a planner may recall while a session is being saved

    def choose(self, request: RecallRequest) -> Choice:
        """A planner is also given records of other copies of the repository."""
        if request.work.duty is not Duty.PLAN:
            return self._first.choose(request)
        others, note = self._load_others()
        found = self._first.choose(request, others)
        return replace(found, note=found.note or note)

    def choose_shared(self, budget: int) -> tuple[Lesson, ...]:
        return self._first.choose_shared(budget)

    def load(self, keys: Sequence[str]) -> Recalled:
        found = self._first.load(keys)
        there = {record.key: record for record in found.records}
        if len(there) == len(keys):
            return found
        others, note = self._load_others()
        there |= {record.key: record for record in others}
        return replace(found, records=tuple(there[key] for key in keys if key in there), note=found.note or note)

    def remember(
        self, records: Sequence[MemoryRecord], mark: JournalMark | None = None, trials: Sequence[Trial] = ()
    ) -> str:
        warning = self._first.remember(records, mark, trials)
        with self._lock:
            return self._update_mirror() or warning

    def list_marks(self) -> Sequence[JournalMark]:
        return self._first.list_marks()

    def list_records(self) -> Sequence[MemoryRecord]:
        return self._first.list_records()

    def _load_others(self) -> tuple[tuple[MemoryRecord, ...], str]:
        with self._lock:
            if self._given_up:
                return (), self._given_up
            try:
                known = self._first.store.list_keys() | self._first.store.list_forgotten()
                known |= {build_memory_key(key) for key in known}
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
