"""The built-in memory: SQLite, and Markdown pages written from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blueflame.memory.pages import write_pages
from blueflame.memory.provider import JournalMark, RecallRequest
from blueflame.memory.recall import recall_records
from blueflame.memory.records import count_uses, fade_records
from blueflame.memory.store import MemoryStore
from blueflame.model.errors import MemoryFailed, WorldError
from blueflame.model.memory import Decay, MemoryContext, MemoryRecord


class BuiltInMemory:
    def __init__(self, database: Path, knowledge: Path, decay: Decay) -> None:
        self.store = MemoryStore(database)
        self._knowledge = knowledge
        self._decay = decay

    def recall(self, budget: int, request: RecallRequest) -> MemoryContext:
        try:
            return self.choose_records(self.list_records(), budget, request)
        except MemoryFailed as error:
            return MemoryContext(note=str(error))

    def choose_records(self, records: Sequence[MemoryRecord], budget: int, request: RecallRequest) -> MemoryContext:
        found = recall_records(records, request=request.request, budget=budget, session=request.session)
        if found.keys:
            self.store.note_recalled(request.session, found.keys)
        return found

    def remember(self, records: Sequence[MemoryRecord], mark: JournalMark | None = None) -> str:
        changed = self.store.save_records(records, mark)
        faded = fade_records(self.store.list_records(), self._decay) if changed else ()
        if faded:
            self.store.save_records(faded)
        return self._write_pages() if changed else ""

    def list_marks(self) -> Sequence[JournalMark]:
        return self.store.list_marks()

    def list_records(self) -> Sequence[MemoryRecord]:
        return count_uses(self.store.list_records(), self.store.list_recalled())

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
