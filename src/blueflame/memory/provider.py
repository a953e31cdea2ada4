"""The interface of a memory. Its failures are reported in text and never stop a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, Protocol, TypeAlias

from blueflame.knowledge.curate import CurationStep
from blueflame.knowledge.effect import Trial
from blueflame.knowledge.selection import Choice, Work
from blueflame.lazy_dataclass import dataclass
from blueflame.model.memory import Lesson, MemoryRecord


class JournalMark(NamedTuple):
    """Up to which event a session is saved."""

    session: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    work: Work
    budget: int  # tokens
    without: frozenset[str] = frozenset()  # keys that the attempt has already
    control: int = 0  # one lesson of so many is left out to compare; 0: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """Records by their keys."""

    records: tuple[MemoryRecord, ...] = ()
    ages: Mapping[str, int] = field(default_factory=dict)  # sessions -> how many are newer
    note: str = ""  # why it is incomplete


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What saving has led to, besides what was saved."""

    warning: str = ""  # what was refused, or a mirror that failed
    curated: Sequence[CurationStep] = ()  # in the knowledge files


EditLessons: TypeAlias = Callable[[Sequence[Lesson]], Iterable[Lesson]]
"""From all lessons to those that change and those that are new."""


def edit_nothing(_lessons: Sequence[Lesson]) -> Iterable[Lesson]:
    return ()


class MemoryProvider(Protocol):
    def choose(self, request: RecallRequest) -> Choice:
        """Choose what helps with some work. Never raises: its note names failures."""
        ...

    def choose_shared(self, budget: int) -> tuple[Lesson, ...]:
        """Choose what all attempts of a session are given; nothing if it cannot be read."""
        ...

    def load(self, keys: Sequence[str]) -> Recalled:
        """Load what was chosen; what was forgotten since is left out. Never raises: its note names failures."""
        ...

    def remember(
        self,
        records: Sequence[MemoryRecord],
        mark: JournalMark | None = None,
        trials: Sequence[Trial] = (),
        edit: EditLessons = edit_nothing,
    ) -> Remembered:
        """Save records by their keys, and what `edit` makes of the lessons.

        Raise MemoryFailed when they could not be saved.
        """
        ...

    def list_marks(self) -> Sequence[JournalMark]:
        """The saved sessions, and how much of each."""
        ...

    def list_records(self) -> Sequence[MemoryRecord]: ...


class NoMemory:
    """Remembers nothing."""

    def choose(self, request: RecallRequest) -> Choice:  # noqa: ARG002 (of the protocol)
        return Choice()

    def choose_shared(self, budget: int) -> tuple[Lesson, ...]:  # noqa: ARG002 (of the protocol)
        return ()

    def load(self, keys: Sequence[str]) -> Recalled:  # noqa: ARG002 (of the protocol)
        return Recalled()

    def remember(
        self,
        records: Sequence[MemoryRecord],  # noqa: ARG002 (of the protocol)
        mark: JournalMark | None = None,  # noqa: ARG002
        trials: Sequence[Trial] = (),  # noqa: ARG002
        edit: EditLessons = edit_nothing,  # noqa: ARG002
    ) -> Remembered:
        return Remembered()

    def list_marks(self) -> Sequence[JournalMark]:
        return ()

    def list_records(self) -> Sequence[MemoryRecord]:
        return ()


NO_MEMORY = NoMemory()
