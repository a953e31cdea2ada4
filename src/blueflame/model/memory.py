"""What later sessions should know. The text is data, never an instruction, no matter who wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from blueflame.lazy_dataclass import dataclass
from blueflame.model.seat import Seat
from blueflame.model.sizing import ChosenBy, Tier

SCHEMA_VERSION = 1


class Source(StrEnum):
    """Who wrote the text of a record. None is trusted: it reaches a model only between delimiters."""

    AGENT = "agent"
    PERSON = "person"
    MACHINE = "machine"  # counted by us
    IMPORT = "import"  # came in a file, or out of another memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a record comes from, and how useful it was."""

    session: str
    task: str = ""
    attempt: str = ""
    commit: str = ""
    at: float = 0.0
    micro_usd: int = 0
    files: tuple[str, ...] = ()
    source: Source = Source.AGENT
    used: int = 0  # attempts that were given it
    helped: int = 0  # first attempts among them that passed at once


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """A task that landed."""

    key: str
    origin: Origin
    title: str
    result: str = "merged"
    notes: str = ""  # the validator's
    group: str = ""
    attempts: int = 0
    faded: bool = False  # only one line of it is left


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """A task that failed, or came back before it landed."""

    key: str
    origin: Origin
    title: str
    reason: str = ""
    retries: int = 0
    history: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()  # what the watcher refused
    overcome: bool = False  # it landed in the end
    faded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpend:
    """What each attempt of a role cost, in millionths of a dollar; only those that cost anything."""

    role: str
    attempts: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()  # how long each took; none in records of earlier versions


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    key: str
    origin: Origin
    request: str
    outcome: str = ""  # empty while it can continue
    reason: str = ""
    tasks: int = 0
    merged: int = 0
    failed: int = 0
    cycles: int = 0
    seconds: float = 0.0
    tokens: int = 0
    spent: tuple[RoleSpend, ...] = ()
    tier: Tier | None = None  # None where the request was not sized
    chosen_by: ChosenBy | None = None
    seats: tuple[Seat, ...] = ()  # what each did in this session
    faded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What was learned: an entry of a knowledge file. Its subject is `origin.files` and `symbols`."""

    key: str
    origin: Origin
    text: str
    about: str = "note"  # a key of KNOWLEDGE_FILES
    domain: str = ""  # the part of the code base it is about; then it is in that domain's file
    symbols: tuple[str, ...] = ()  # that it is about
    confirmed: bool = False  # a person wrote it, or agreed to it
    superseded_by: str = ""  # key of the lesson that replaces it
    stale: bool = False  # its subject has changed often since
    archived: str = ""  # why it is no longer in its file; empty while it is
    faded: bool = False

    @property
    def is_active(self) -> bool:
        return not self.archived


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeFile:
    """A file of lessons that people read and edit, and how many tokens it may have."""

    name: str
    tokens: int


INSIGHTS = KnowledgeFile(name="codebase-insights", tokens=2_000)
PATTERNS = KnowledgeFile(name="patterns", tokens=1_000)
MISTAKES = KnowledgeFile(name="mistakes", tokens=1_000)
PREFERENCES = KnowledgeFile(name="user-preferences", tokens=500)
ALLOCATION = KnowledgeFile(name="allocation-learnings", tokens=500)
DOMAIN_TOKENS = 800

KNOWLEDGE_FILES: Mapping[str, KnowledgeFile] = {
    "note": INSIGHTS,
    "insight": INSIGHTS,
    "pattern": PATTERNS,
    "mistake": MISTAKES,
    "fix": MISTAKES,
    "wish": PREFERENCES,
    "allocation": ALLOCATION,
}
"""The file of each kind of lesson. A kind that is not known is a note."""


FILE_KINDS: Mapping[str, str] = {
    INSIGHTS.name: "insight",
    PATTERNS.name: "pattern",
    MISTAKES.name: "mistake",
    PREFERENCES.name: "wish",
    ALLOCATION.name: "allocation",
}
"""The kind of what a person writes into each file, and the files in their order."""

DOMAIN_FOLDER = "domain"
BY_HAND = "by-hand"
"""In place of a session: a person wrote it."""


def get_knowledge_file(lesson: Lesson) -> KnowledgeFile:
    if lesson.domain:
        return KnowledgeFile(name=f"{DOMAIN_FOLDER}/{lesson.domain}", tokens=DOMAIN_TOKENS)
    return KNOWLEDGE_FILES.get(lesson.about, INSIGHTS)


MemoryRecord: TypeAlias = TaskResult | TaskFailure | SessionSummary | Lesson

RECORD_TYPES: Mapping[str, type[MemoryRecord]] = {
    "task-result": TaskResult,
    "task-failure": TaskFailure,
    "session-summary": SessionSummary,
    "lesson": Lesson,
}
"""The names under which memories keep each kind."""

RECORD_KIND_NAMES: Mapping[type, str] = {kind: name for name, kind in RECORD_TYPES.items()}


def get_headline(record: MemoryRecord) -> str:
    """The line that represents a record in a list."""
    if isinstance(record, SessionSummary):
        return record.request
    return record.text if isinstance(record, Lesson) else record.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """How memories fade, in sessions."""

    enabled: bool = True
    results_after: int = 3
    failures_after: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeEdit:
    """A change of a knowledge file that an agent proposes: entries that other words replace, or that are dropped."""

    file: str
    keys: tuple[str, ...]
    old: tuple[str, ...]  # their words at that time: an entry that was changed since stays
    text: str = ""  # what replaces them; "": nothing
    why: str = ""


class LeftOut(StrEnum):
    """Why an attempt is not given a record that is about its work."""

    BUDGET = "budget"  # better ones used up the tokens
    CONTROL = "control"  # on purpose, to compare attempts with and without it


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLesson:
    """A record that was chosen for an attempt, and why."""

    key: str
    files: tuple[str, ...] = ()  # of its subject, that the work touches
    domain: str = ""  # that both are about; only for what names no files
    words: tuple[str, ...] = ()  # that it has in common with the work
    score: float = 0.0
    left_out: LeftOut | None = None
