"""The built-in memory: SQLite, and Markdown pages written from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blueflame.memory.pages import write_knowledge
from blueflame.memory.provider import Asking, Mark
from blueflame.memory.recall import recollect
from blueflame.memory.records import fade, with_use
from blueflame.memory.store import Store
from blueflame.model.errors import MemoryFailed, WorldError
from blueflame.model.memory import Decay, MemoryContext, MemoryRecord


class BuiltIn:
    def __init__(self, database: Path, knowledge: Path, decay: Decay) -> None:
        self.store = Store(database)
        self._knowledge = knowledge
        self._decay = decay

    def recall(self, budget: int, asking: Asking) -> MemoryContext:
        try:
            return self.chosen(self.records(), budget, asking)
        except MemoryFailed as error:
            return MemoryContext(note=str(error))

    def chosen(self, records: Sequence[MemoryRecord], budget: int, asking: Asking) -> MemoryContext:
        found = recollect(records, request=asking.request, budget=budget, session=asking.session)
        if found.keys:
            self.store.note_recalled(asking.session, found.keys)
        return found

    def remember(self, records: Sequence[MemoryRecord], mark: Mark | None = None) -> str:
        changed = self.store.keep(records, mark)
        faded = fade(self.store.records(), self._decay) if changed else ()
        if faded:
            self.store.keep(faded)
        return self._write_pages() if changed else ""

    def marks(self) -> Sequence[Mark]:
        return self.store.marks()

    def records(self) -> Sequence[MemoryRecord]:
        return with_use(self.store.records(), self.store.recalled())

    def forget(self, keys: Sequence[str]) -> Sequence[str]:
        gone = self.store.forget(keys)
        self._write_pages()
        return gone

    def _write_pages(self) -> str:
        try:
            write_knowledge(self._knowledge, self.records())
        except WorldError as error:
            return f"what is remembered could not be written down for people (nothing is lost): {error}"
        return ""
