"""Which request starts next: by priority, older ones rising, and fair between repositories."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from blueflame.dispatch.state import BEGUN, House, RequestRecord
from blueflame.model.house.event import RequestState

AGEING_SECONDS = 600.0  # of waiting are worth one step of priority: no request waits for ever


def measure_rank(record: RequestRecord, priority: int, now: float) -> float:
    """Higher goes first. `priority`: of its repository."""
    return record.request.priority + priority + max(0.0, now - record.received_at) / AGEING_SECONDS


def sort_queue(house: House, repository: str, now: float) -> list[RequestRecord]:
    """The queued requests of a repository, the next one first."""
    queued = [each for each in house.list_of(repository) if each.state is RequestState.QUEUED]
    return sorted(queued, key=lambda each: (-measure_rank(each, 0, now), each.received_at, each.id))


def choose_starts(
    house: House,
    priorities: Mapping[str, int],
    *,
    closed: Collection[str],
    last_starts: Mapping[str, float],
    slots: int,
    now: float,
) -> tuple[RequestRecord, ...]:
    """The requests to start now: at most one of a repository, those that rank highest.

    `closed`: repositories in which no session can start. `last_starts`: when each began its last session; among
    equals the repository that has waited longest goes first.
    """
    begun = [each.repository for each in house.requests.values() if each.state in BEGUN]
    free = slots - sum(takes_slot(each) for each in house.requests.values())
    heads = [
        queue[0]
        for name in priorities
        if name not in closed and name not in begun and (queue := sort_queue(house, name, now))
    ]
    heads.sort(
        key=lambda each: (
            -measure_rank(each, priorities[each.repository], now),
            last_starts.get(each.repository, 0.0),
            each.received_at,
            each.id,
        )
    )
    return tuple(heads[: max(0, free)])


def takes_slot(record: RequestRecord) -> bool:
    """Whether it takes one of the slots for sessions; one that was stopped does not."""
    return record.state in (RequestState.STARTING, RequestState.RUNNING)


def count_ahead(house: House, record: RequestRecord, now: float) -> int:
    """How many requests of its repository come before it, the running one included."""
    order = [each.id for each in sort_queue(house, record.repository, now)]
    begun = sum(each.state in BEGUN for each in house.list_of(record.repository))
    return begun + (order.index(record.id) if record.id in order else 0)


def estimate_wait(ahead: int, durations: Sequence[float], running_for: float) -> float | None:
    """Seconds until a request starts, by the median of recent sessions; None without any to go by."""
    if not durations:
        return None
    usual = sorted(durations)[len(durations) // 2]
    return max(0.0, ahead * usual - min(running_for, usual)) if ahead else 0.0
