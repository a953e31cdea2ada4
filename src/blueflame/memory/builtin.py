"""The built-in memory: SQLite, and Markdown pages written from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blueflame.knowledge.effect import UNKNOWN_EFFECT, Trial, measure_effect
from blueflame.knowledge.selection import Candidate, Choice, choose_for_attempt, choose_for_session
from blueflame.memory.pages import write_pages
from blueflame.memory.provider import JournalMark, Recalled, RecallRequest
from blueflame.memory.records import add_effects, fade_records
from blueflame.memory.store import MemoryStore
from blueflame.model.errors import MemoryFailed, WorldError
from blueflame.model.memory import Decay, Lesson, MemoryRecord


class BuiltInMemory:
    def __init__(self, database: Path, knowledge: Path, decay: Decay) -> None:
        self.store = MemoryStore(database)
        self._knowledge = knowledge
        self._decay = decay

    def choose(self, request: RecallRequest, others: Sequence[MemoryRecord] = ()) -> Choice:
        """`others`: records that are not in this store."""
        try:
            found = self.store.find_records(request.work)
        except MemoryFailed as error:
            return Choice(note=str(error))
        candidates = [
            Candidate(
                record=record,
                relevance=found.relevance.get(record.key, 0.0),
                age=found.ages.get(record.origin.session, 0),
                effect=found.effects.get(record.key, UNKNOWN_EFFECT),
            )
            for record in (*found.records, *others)
        ]
        return choose_for_attempt(
            candidates, request.work, budget=request.budget, without=request.without, control=request.control
        )

    def choose_shared(self, budget: int) -> tuple[Lesson, ...]:
        try:
            return choose_for_session(self.store.list_lessons(), budget)
        except MemoryFailed:  # the first attempt that asks for its own reports it
            return ()

    def load(self, keys: Sequence[str]) -> Recalled:
        try:
            found = self.store.load_records(keys)
        except MemoryFailed as error:
            return Recalled(note=str(error))
        return Recalled(records=found.records, ages=found.ages)

    def remember(
        self, records: Sequence[MemoryRecord], mark: JournalMark | None = None, trials: Sequence[Trial] = ()
    ) -> str:
        changed = self.store.save_records(records, mark)
        faded = fade_records(self.store.list_records(), self._decay) if changed else ()
        if faded:
            self.store.save_records(faded)
        if trials and self.store.save_trials(trials):
            self._measure_effects()
            changed += 1
        return self._write_pages() if changed else ""

    def _measure_effects(self) -> None:
        trials = self.store.list_trials()
        given = dict.fromkeys(key for each in trials for key in each.lessons)
        records = self.store.load_records(given).records
        self.store.save_effects({record.key: measure_effect(record, trials) for record in records})

    def list_marks(self) -> Sequence[JournalMark]:
        return self.store.list_marks()

    def list_records(self) -> Sequence[MemoryRecord]:
        return add_effects(self.store.list_records(), self.store.list_effects())

    def forget(self, keys: Sequence[str]) -> Sequence[str]:
        gone = self.store.forget(keys)
        self._write_pages()
        return gone

    def _write_pages(self) -> str:
        try:
            write_pages(self._knowledge, self.list_records())
        except WorldError as error:
            return f"the pages of memory could not be written (nothing is lost): {error}"
        return ""
