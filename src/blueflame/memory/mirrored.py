"""The built-in memory, mirrored to others; a mirror that fails gives one warning and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blueflame.knowledge.effect import Trial
from blueflame.knowledge.selection import Choice
from blueflame.memory.beads import build_memory_key
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.mirror import Mirror, MirrorLink, SyncResult
from blueflame.memory.provider import (
    EditLessons,
    JournalMark,
    Recalled,
    RecallRequest,
    Remembered,
    edit_nothing,
)
from blueflame.model.attempt import Duty
from blueflame.model.errors import WorldError
from blueflame.model.memory import Lesson, MemoryRecord


class MirroredMemory:
    def __init__(self, first: BuiltInMemory, mirrors: Sequence[Mirror]) -> None:
        self._first = first
        self._links = tuple(MirrorLink(mirror, first.store) for mirror in mirrors)

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
        self,
        records: Sequence[MemoryRecord],
        mark: JournalMark | None = None,
        trials: Sequence[Trial] = (),
        edit: EditLessons = edit_nothing,
    ) -> Remembered:
        done = self._first.remember(records, mark, trials, edit)
        failed = "; ".join(each.problem for each in self.sync() if each.problem)
        return replace(done, warning=failed or done.warning)

    def sync(self) -> tuple[SyncResult, ...]:
        """Bring every mirror up to date."""
        return tuple(link.update() for link in self._links)

    def list_marks(self) -> Sequence[JournalMark]:
        return self._first.list_marks()

    def list_records(self) -> Sequence[MemoryRecord]:
        return self._first.list_records()

    def _load_others(self) -> tuple[tuple[MemoryRecord, ...], str]:
        loaded = [link.load() for link in self._links]
        note = "; ".join(note for _, note in loaded if note)
        try:
            known = self._first.store.list_keys() | self._first.store.list_forgotten()
        except WorldError as error:
            return (), str(error)
        known |= {build_memory_key(key) for key in known}
        others = (record for records, _ in loaded for record in records if record.key not in known)
        return self._first.screen_foreign(others), note
