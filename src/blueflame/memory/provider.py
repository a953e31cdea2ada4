"""The interface of a memory. Its failures are reported in text and never stop a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from blueflame.model.memory import NO_MEMORY_CONTEXT, MemoryContext, MemoryRecord


class JournalMark(NamedTuple):
    """Up to which event a session is saved."""

    session: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    session: str
    request: str


class MemoryProvider(Protocol):
    def recall(self, budget: int, request: RecallRequest) -> MemoryContext:
        """Return what helps with the request, in at most `budget` tokens. Never raises: its note names failures."""
        ...

    def remember(self, records: Sequence[MemoryRecord], mark: JournalMark | None = None) -> str:
        """Save records by their keys; return a warning when only a mirror failed, else "".

        Raise MemoryFailed when they could not be saved.
        """
        ...

    def list_marks(self) -> Sequence[JournalMark]:
        """The saved sessions, and how much of each."""
        ...

    def list_records(self) -> Sequence[MemoryRecord]: ...


class NoMemory:
    """Remembers nothing."""

    def recall(self, budget: int, request: RecallRequest) -> MemoryContext:  # noqa: ARG002 (of the protocol)
        return NO_MEMORY_CONTEXT

    def remember(self, records: Sequence[MemoryRecord], mark: JournalMark | None = None) -> str:  # noqa: ARG002 (of the protocol)
        return ""

    def list_marks(self) -> Sequence[JournalMark]:
        return ()

    def list_records(self) -> Sequence[MemoryRecord]:
        return ()


NO_MEMORY = NoMemory()
