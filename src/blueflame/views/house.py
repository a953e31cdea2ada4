"""The house as plain data: its requests, repositories and gates; `--json` prints it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from blueflame.dispatch.pool import WANT_SECONDS, Lease, PoolLimits, Want, describe_occupant, describe_wait
from blueflame.dispatch.queue import count_ahead, estimate_wait
from blueflame.dispatch.state import BEGUN, House, RequestRecord, fold_request, replay_house
from blueflame.house.client import HouseClient, list_kept
from blueflame.house.repository import WatchedRepository, list_open_gates
from blueflame.journal.house import HouseJournal
from blueflame.journal.pool import PoolJournal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.house.event import (
    HOUSE,
    HouseStarted,
    OpenGate,
    RepositoryFreed,
    RepositoryHeld,
    RequestState,
    SourceWarned,
)
from blueflame.model.limits import SlotWait
from blueflame.system.clock import find_local_day
from blueflame.system.machine import measure_free
from blueflame.text.format import format_count, format_dollars
from blueflame.views.parts import NamedValue, pick

MAX_DURATIONS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    record: RequestRecord
    ahead: int = 0  # requests that come before it in its repository
    wait_seconds: float | None = None  # about how long until it starts; None if that is not known

    @property
    def is_open(self) -> bool:
        return self.record.state not in (RequestState.ENDED, RequestState.REFUSED, RequestState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryRow:
    name: str
    folder: str
    state: str  # free | working | busy | held
    detail: str  # what runs there, or what has to be fixed
    queued: int
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    limits: PoolLimits
    leases: tuple[Lease, ...]
    waits: tuple[tuple[Want, SlotWait], ...]
    day_micro_usd: int  # spent today


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseView:
    folder: str
    pid: int | None  # None while it is not served
    repositories: tuple[RepositoryRow, ...]
    requests: tuple[RequestRow, ...]  # that have not ended
    kept: int  # requests that no house has taken yet
    gates: tuple[OpenGate, ...]
    pool: PoolView
    warnings: tuple[SourceWarned, ...]  # of sources, since the house was started


def list_requests(journal: HouseJournal, now: float, *, last: int) -> tuple[RequestRow, ...]:
    """The open requests and the newest others, newest first."""
    house = replay_house(journal.read_open_streams())
    ended = [name for name in journal.list_streams(last) if name not in house.requests]
    records = [
        *list_kept(journal),
        *house.requests.values(),
        *(found for name in ended if (found := fold_request(journal.read_stream(name)))),
    ]
    records.sort(key=lambda each: (each.received_at, each.id), reverse=True)
    return tuple(build_request_row(journal, house, record, now) for record in records)


def count_kept(journal: HouseJournal) -> int:
    """How many requests wait for a house that takes them."""
    return sum(isinstance(each.arrival, IncomingRequest) for each in journal.list_waiting())


def format_kept(kept: int) -> str:
    return f"kept for the house: {format_count(kept, 'request')}; 'blueflame serve' takes them"


def build_request_row(journal: HouseJournal, house: House, record: RequestRecord, now: float) -> RequestRow:
    if record.state is not RequestState.QUEUED:
        return RequestRow(record=record)
    ahead = count_ahead(house, record, now)
    durations = [seconds for name, seconds in journal.list_durations(MAX_DURATIONS) if name == record.repository]
    running = next((each for each in house.list_of(record.repository) if each.state in BEGUN), None)
    running_for = now - running.changed_at if running is not None else 0.0
    return RequestRow(record=record, ahead=ahead, wait_seconds=estimate_wait(ahead, durations, running_for))


def build_house_view(client: HouseClient, now: float) -> HouseView:
    with HouseJournal.open_read_only(client.paths.journal) as journal:
        house = replay_house(journal.read_open_streams())
        rows = tuple(build_request_row(journal, house, each, now) for each in house.requests.values())
        recent = [entry.event for entry in journal.read_stream_since(HOUSE, HouseStarted)]
        kept = count_kept(journal)
    held: dict[str, str] = {}
    for event in recent:
        if isinstance(event, RepositoryHeld):
            held[event.repository] = event.reason
        elif isinstance(event, RepositoryFreed):
            held.pop(event.repository, None)
    watched = {
        name: WatchedRepository(name, client.loaded.find_config(each))
        for name, each in client.loaded.settings.repositories.items()
    }
    for each in watched.values():
        each.look()
    warned = {event.source: event for event in recent if isinstance(event, SourceWarned)}
    return HouseView(
        folder=str(client.paths.root),
        pid=client.find_pid(),
        repositories=tuple(_build_repository_row(each, house, held.get(name, "")) for name, each in watched.items()),
        requests=rows,
        kept=kept,
        gates=tuple(list_open_gates(house, watched.values())),
        pool=read_pool(client.paths.journal, now),
        warnings=tuple(warned.values()),
    )


def read_pool(journal: Path, now: float) -> PoolView:
    with PoolJournal.open_read_only(journal) as pool:
        limits, durations = pool.read_limits() or PoolLimits(), pool.read_durations()
        state = pool.read_state(find_local_day(now).date, measure_free(journal.parent).memory)
    wants = [replace(want, asked_at=now) for want in state.wants if now - want.asked_at <= WANT_SECONDS]
    waits = ((want, describe_wait(want, state, limits, durations)) for want in wants)
    return PoolView(
        limits=limits,
        leases=tuple(state.leases),
        waits=tuple((want, wait) for want, wait in waits if wait is not None),
        day_micro_usd=state.day_micro_usd,
    )


def format_day_cost(pool: PoolView) -> str:
    """`$3.64 of $15.00 spent today`"""
    limit = f" of {format_dollars(pool.limits.day_micro_usd)}" if pool.limits.day_micro_usd else ""
    return f"{format_dollars(pool.day_micro_usd)}{limit} spent today"


class PoolRole(NamedTuple):
    """The agents of a role over all repositories."""

    role: str
    core: int | None  # at most so many, besides ad hoc ones; None: only the total limits them
    at_work: tuple[str, ...]  # `shop task-003`, with `(ad hoc)`
    ad_hoc: int  # how many of them are
    waiting: int
    wait_seconds: float | None  # about how long the last in its queue waits


def list_pool_roles(pool: PoolView) -> tuple[PoolRole, ...]:
    """The roles that have a number, an agent at work or one that waits."""
    waits = {role: [wait for want, wait in pool.waits if want.role == role] for role in _list_roles(pool)}
    leases = {role: [lease for lease in pool.leases if lease.role == role] for role in waits}
    return tuple(
        PoolRole(
            role=role,
            core=pool.limits.roles.get(role),
            at_work=tuple(map(describe_occupant, leases[role])),
            ad_hoc=sum(lease.ad_hoc for lease in leases[role]),
            waiting=len(waits[role]),
            wait_seconds=max((wait.seconds for wait in waits[role] if wait.seconds is not None), default=None),
        )
        for role in waits
    )


def _list_roles(pool: PoolView) -> list[str]:
    at_work, waiting = (lease.role for lease in pool.leases), (want.role for want, _wait in pool.waits)
    return sorted({*pool.limits.roles, *at_work, *waiting})


def _build_repository_row(watched: WatchedRepository, house: House, held: str) -> RepositoryRow:
    state, detail = _describe_repository(watched, house, held)
    return RepositoryRow(
        name=watched.name,
        folder=str(watched.config.parent),
        state=state,
        detail=detail,
        queued=sum(each.state is RequestState.QUEUED for each in house.list_of(watched.name)),
        session=watched.unfinished,
    )


def _describe_repository(watched: WatchedRepository, house: House, held: str) -> tuple[str, str]:
    if watched.problem:
        return "held", watched.problem
    ours = next((each for each in house.list_of(watched.name) if each.state in BEGUN), None)
    if ours is not None and ours.state is RequestState.STOPPED:
        return "stopped", f"{ours.id}: {ours.problem}"
    if ours is not None and (watched.pid is not None or not held):
        return "working", f"{ours.id} {ours.session}".strip()
    if watched.pid is not None:
        return "busy", f"{watched.unfinished or 'a command'} was started in a terminal (pid {watched.pid})"
    return ("held", held) if held else ("free", "")


def build_request_json(row: RequestRow) -> dict[str, Any]:
    record, request = row.record, row.record.request
    return {
        "request": record.id,
        "state": record.state.value,
        "repository": record.repository,
        "session": record.session or None,
        "text": request.text,
        "title": request.title or None,
        "source": request.source,
        "sender": request.sender.name,
        "address": request.sender.address,
        "trust": request.sender.trust.value,
        "origin": request.origin or None,
        "priority": request.priority,
        "received_at": record.received_at,
        "changed_at": record.changed_at,
        "ahead": row.ahead,
        "wait_seconds": row.wait_seconds,
        "gate": record.gate.id if record.gate else None,
        "outcome": record.outcome or None,
        "problem": record.problem or None,
        "cancelled_by": record.cancelled_by or None,
        "cost_usd": record.usd,
    }


def build_house_json(view: HouseView) -> dict[str, Any]:
    return {
        "house": view.folder,
        "pid": view.pid,
        "repositories": [
            {
                **pick(row, "name folder state"),
                "detail": row.detail or None,
                "queued": row.queued,
                "session": row.session or None,
            }
            for row in view.repositories
        ],
        "requests": [build_request_json(row) for row in view.requests],
        "kept": view.kept,
        "gates": [build_open_gate_json(each) for each in view.gates],
        "pool": {
            "agents": view.pool.limits.agents,
            "at_work": len(view.pool.leases),
            "spent_today_usd": view.pool.day_micro_usd / 1e6,
            "roles": [row._asdict() for row in list_pool_roles(view.pool)],
            "waiting": [
                {
                    **pick(want, "role repository session"),
                    **pick(wait, "subject reason ahead"),
                    "wait_seconds": wait.seconds,
                }
                for want, wait in view.pool.waits
            ],
        },
        "warnings": [{"source": each.source, "text": each.text} for each in view.warnings],
    }


def build_open_gate_json(found: OpenGate) -> dict[str, Any]:
    return {
        "gate": found.gate.id,
        "kind": found.gate.kind.value,
        "title": found.gate.title,
        "options": [option.name for option in found.gate.options],
        "default": found.gate.default,
        "repository": found.repository or None,
        "session": found.session or None,
        "request": found.request or None,
        "opened_at": found.opened_at,
    }


def describe_state(row: RequestRow) -> str:
    """`queued, 2 ahead, about 15 min`, `running ses-…`, `refused: …`"""
    record = row.record
    match record.state:
        case RequestState.QUEUED:
            ahead = f", {row.ahead} ahead" if row.ahead else ""
            return f"queued{ahead}{format_wait(row.wait_seconds)}"
        case RequestState.RECEIVED:
            return "kept until the house runs"
        case RequestState.ASKED:
            return "an owner is asked"
        case RequestState.RUNNING if record.cancelled_by:
            return "being cancelled"
        case RequestState.ENDED:
            return record.outcome.replace("_", " ")
    return record.state.value


def format_wait(seconds: float | None) -> str:
    """`, about 15 min` or `, about 3 h`; empty if that is not known, or now."""
    minutes = max(1, round((seconds or 0.0) / 60))
    return f", about {f'{minutes} min' if minutes < 120 else f'{round(minutes / 60)} h'}" if seconds else ""


def list_request_facts(row: RequestRow) -> tuple[NamedValue, ...]:
    record, request = row.record, row.record.request
    facts = {
        "request": record.id,
        "state": describe_state(row),
        "asked for": request.text,
        "repository": record.repository,
        "session": record.session,
        "from": f"{request.sender.name} ({request.sender.address}, {request.sender.trust.value}) by {request.source}",
        "origin": request.origin,
        "why": record.problem,
    }
    return tuple(NamedValue(name, text) for name, text in facts.items() if text)
