"""What a memory can do. Whatever goes wrong in one is told in words and never stops a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from blueflame.model.memory import NO_MEMORY_CONTEXT, MemoryContext, MemoryRecord


class JournalMark(NamedTuple):
    """How far into a session's journal what is saved goes."""

    session: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """Who wants to know, and what for."""

    session: str
    request: str


class MemoryProvider(Protocol):
    def recall(self, budget: int, asking: RecallRequest) -> MemoryContext:
        """What is worth knowing, in at most so many tokens. Never raises: what cannot be had is told in its note."""
        ...

    def remember(self, records: Sequence[MemoryRecord], mark: JournalMark | None = None) -> str:
        """Keep them, each under its key, so that nothing repeats; a warning when a mirror could not be reached.

        Raises MemoryFailed when they could not be kept at all.
        """
        ...

    def list_marks(self) -> Sequence[JournalMark]:
        """The sessions that are remembered, and how much of each."""
        ...

    def list_records(self) -> Sequence[MemoryRecord]:
        """All that is kept in the first copy."""
        ...


class NoMemory:
    """Remembers nothing."""

    def recall(self, budget: int, asking: RecallRequest) -> MemoryContext:  # noqa: ARG002 (nothing is known, whatever is asked)
        return NO_MEMORY_CONTEXT

    def remember(self, records: Sequence[MemoryRecord], mark: JournalMark | None = None) -> str:  # noqa: ARG002 (as above)
        return ""

    def list_marks(self) -> Sequence[JournalMark]:
        return ()

    def list_records(self) -> Sequence[MemoryRecord]:
        return ()


NO_MEMORY = NoMemory()
