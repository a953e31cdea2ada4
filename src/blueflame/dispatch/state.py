"""The state of the house: the requests that have not ended, from events. A request that ends is forgotten.

Law: applying events one by one gives the same as reading only those of the requests that have not ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import InternalError
from blueflame.model.event import GateAnswered, GateOpened, GateWithdrawn
from blueflame.model.gate import Gate
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.house.event import (
    HOUSE,
    CancelRequested,
    HouseEntry,
    HouseEvent,
    RequestCancelled,
    RequestEnded,
    RequestQueued,
    RequestReceived,
    RequestRefused,
    RequestState,
    SessionFound,
    SessionStopped,
    StartFailed,
    StartIntended,
)

LASTING_SECONDS = 600.0  # a process that lived so long did not fail at its start
_S = RequestState
BEGUN = (_S.STARTING, _S.RUNNING, _S.STOPPED)
"""States in which a session exists or may exist: its repository is taken."""

TRANSITIONS: Mapping[type[HouseEvent], Mapping[RequestState, RequestState]] = {
    GateOpened: {_S.RECEIVED: _S.ASKED},
    GateAnswered: {_S.ASKED: _S.ASKED},
    GateWithdrawn: {_S.ASKED: _S.ASKED},
    RequestQueued: {_S.RECEIVED: _S.QUEUED, _S.ASKED: _S.QUEUED},
    StartIntended: {_S.QUEUED: _S.STARTING, _S.RUNNING: _S.RUNNING, _S.STOPPED: _S.RUNNING},
    StartFailed: {_S.STARTING: _S.QUEUED, _S.RUNNING: _S.STOPPED},
    SessionFound: {_S.QUEUED: _S.RUNNING, _S.STARTING: _S.RUNNING, _S.STOPPED: _S.RUNNING},
    SessionStopped: {_S.RUNNING: _S.STOPPED},
    CancelRequested: {_S.QUEUED: _S.STARTING, _S.STARTING: _S.STARTING, _S.RUNNING: _S.RUNNING},
    RequestCancelled: dict.fromkeys((_S.ASKED, _S.QUEUED, _S.STARTING, _S.RUNNING, _S.STOPPED), _S.CANCELLED),
    RequestRefused: dict.fromkeys((_S.RECEIVED, _S.ASKED, _S.QUEUED, _S.STARTING), _S.REFUSED),
    RequestEnded: dict.fromkeys((_S.RUNNING, _S.STOPPED), _S.ENDED),
}
"""What each event does to a request, by the state that it is in. What is not here cannot happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    id: str
    request: IncomingRequest
    repository: str
    state: RequestState
    received_at: float
    changed_at: float
    gate: Gate | None = None  # the open question of the house about it
    gate_opened_at: float = 0.0
    session: str = ""
    starts: int = 0  # processes in a row that gave no session, or did not end it
    problem: str = ""  # why it cannot start or is stopped
    resumed_after: int = 0  # the last event of its session when a person ordered that it goes on
    cancelled_by: str = ""
    outcome: str = ""  # of its session, at the end
    usd: float = 0.0


@dataclass(slots=True)
class House:
    """The requests that have not ended, by id, in the order of their arrival."""

    requests: dict[str, RequestRecord] = field(default_factory=dict)

    def apply(self, entry: HouseEntry) -> None:
        if entry.stream == HOUSE or type(entry.event) not in _APPLIED:
            return
        record = advance_request(self.requests.get(entry.stream), entry)
        if record.state in FINAL_STATES:
            del self.requests[entry.stream]
        else:
            self.requests[entry.stream] = record

    def list_of(self, repository: str) -> tuple[RequestRecord, ...]:
        return tuple(record for record in self.requests.values() if record.repository == repository)


FINAL_STATES = (_S.ENDED, _S.REFUSED, _S.CANCELLED)
_APPLIED = frozenset({RequestReceived, *TRANSITIONS})


def replay_house(entries: Iterable[HouseEntry]) -> House:
    house = House()
    for entry in entries:
        house.apply(entry)
    return house


def fold_request(entries: Iterable[HouseEntry]) -> RequestRecord | None:
    """The request of one stream, also one that has ended."""
    record: RequestRecord | None = None
    for entry in entries:
        if type(entry.event) in _APPLIED:
            record = advance_request(record, entry)
    return record


def advance_request(record: RequestRecord | None, entry: HouseEntry) -> RequestRecord:
    if isinstance(entry.event, RequestReceived):
        return _begin(entry, entry.event)
    after = TRANSITIONS[type(entry.event)].get(record.state) if record is not None else None
    if record is None or after is None:
        state = record.state.value if record is not None else "unknown"
        raise InternalError(f"{type(entry.event).__name__} cannot follow in {entry.stream}, which is {state}")
    return replace(_note(record, entry), state=after, changed_at=entry.at)


def _begin(entry: HouseEntry, event: RequestReceived) -> RequestRecord:
    return RequestRecord(
        id=entry.stream,
        request=event.request,
        repository=event.repository,
        state=_S.RECEIVED,
        received_at=entry.at,
        changed_at=entry.at,
    )


def _note(record: RequestRecord, entry: HouseEntry) -> RequestRecord:
    """Note what the event says besides the state."""
    match entry.event:
        case GateOpened(gate=gate):
            return replace(record, gate=gate, gate_opened_at=entry.at)
        case GateAnswered() | GateWithdrawn() | RequestQueued():
            return replace(record, gate=None, gate_opened_at=0.0)
        case StartIntended(after=after):
            in_a_row = entry.at - record.changed_at < LASTING_SECONDS
            starts = record.starts + 1 if in_a_row else 1
            return replace(record, starts=starts, resumed_after=max(after, record.resumed_after))
        case StartFailed(reason=reason) | SessionStopped(reason=reason):
            return replace(record, problem=reason)
        case SessionFound(session=session):
            return replace(
                record, session=session, problem="", starts=0 if session != record.session else record.starts
            )
        case CancelRequested(by=by) | RequestCancelled(by=by):
            return replace(record, cancelled_by=by)
        case RequestRefused(reason=reason):
            return replace(record, problem=reason)
        case RequestEnded(outcome=outcome, reason=reason, usd=usd):
            return replace(record, outcome=outcome, problem=reason, usd=usd)
    return record
