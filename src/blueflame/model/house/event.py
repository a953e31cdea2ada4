"""What the house records: requests and what became of them, answers that it passed on, its own state."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from blueflame.lazy_dataclass import dataclass
from blueflame.model.event import GateAnswered, GateOpened, GateWithdrawn
from blueflame.model.gate import Gate
from blueflame.model.house.arrival import IncomingRequest, Sender

HOUSE = "house"  # the stream of events that concern no single request


class RequestState(StrEnum):
    """Where a request is. The last three are final."""

    RECEIVED = "received"  # just now: what becomes of it is recorded together with it
    ASKED = "asked"  # an owner is asked whether it may start
    QUEUED = "queued"  # waits for its repository
    STARTING = "starting"  # a process was started, its session is not known yet
    RUNNING = "running"  # its session is known
    STOPPED = "stopped"  # its session was stopped and can be resumed
    ENDED = "ended"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class Refusal(StrEnum):
    """Why a request was not accepted."""

    UNKNOWN_REPOSITORY = "unknown_repository"
    EMPTY = "empty"
    DUPLICATE = "duplicate"
    RATE = "rate"
    QUEUE_FULL = "queue_full"
    NOT_APPROVED = "not_approved"
    CANNOT_START = "cannot_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """The first event of a request; its stream has its id."""

    request: IncomingRequest
    repository: str  # as resolved; empty for one that is refused because of it


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused:
    why: Refusal
    reason: str  # for the sender: what is wrong and what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQueued:
    by: str = ""  # who approved it; empty: the sender may start work


@dataclass(frozen=True, slots=True, kw_only=True)
class StartIntended:
    """Recorded before a process is started. The session opens at most once for each request."""

    resumes: str = ""  # the session that is continued; empty: a new one
    after: int = 0  # on a person's order: the number of the last event of the session


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    """The process ended without a session, or could not be started; the request waits in the queue again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFound:
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStopped:
    """Its process ended before its session did, and a person decides how it goes on."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnded:
    outcome: str  # of the session
    reason: str = ""
    usd: float = 0.0
    seconds: float = 0.0  # from the opening of the session to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """Its session is being stopped."""

    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled:
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettled:
    """What became of an answer to a gate: accepted, or not and why (too late, not a choice)."""

    source: str
    key: str  # of the arrival
    sender: Sender
    repository: str  # empty: a gate of the house
    session: str
    gate: str
    choice: str
    accepted: bool
    reply: str
    reply_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettled:
    """What became of a command about what runs."""

    source: str
    key: str  # of the arrival
    sender: Sender
    verb: str
    subject: str
    accepted: bool
    reply: str
    reply_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseStarted:
    pid: int
    version: str
    repositories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseStopped:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWarned:
    """Something is wrong with a source; it is tried again."""

    source: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryHeld:
    """No session can be started there until this is fixed; other repositories are not affected."""

    repository: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFreed:
    repository: str


HouseEvent: TypeAlias = (
    RequestReceived
    | RequestRefused
    | RequestQueued
    | StartIntended
    | StartFailed
    | SessionFound
    | SessionStopped
    | RequestEnded
    | CancelRequested
    | RequestCancelled
    | GateOpened
    | GateAnswered
    | GateWithdrawn
    | AnswerSettled
    | CommandSettled
    | HouseStarted
    | HouseStopped
    | SourceWarned
    | RepositoryHeld
    | RepositoryFreed
)
FINAL = (RequestRefused, RequestEnded, RequestCancelled)
"""The last event of a request: its stream is not read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseEntry:
    """An event as the house's journal holds it; `n` counts over all streams."""

    n: int
    stream: str  # the id of a request, or HOUSE
    at: float
    event: HouseEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGate:
    """A gate that waits for an answer: of a session, or of the house itself (`repository` and `session` empty)."""

    repository: str
    session: str
    request: str  # the request that it belongs to; empty for a session that a person started
    gate: Gate
    opened_at: float
