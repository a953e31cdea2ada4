"""Which request starts next."""

from __future__ import annotations

from blueflame.dispatch.queue import AGEING_SECONDS, choose_starts, count_ahead, estimate_wait, sort_queue
from blueflame.dispatch.state import House, replay_house
from blueflame.model.house.event import HouseEvent, RequestQueued, RequestReceived, SessionFound, StartIntended
from support.house_requests import build_entries, build_request

RUNNING: tuple[HouseEvent, ...] = (StartIntended(), SessionFound(session="ses-1"))


def build_house(*requests: tuple[str, str, float, int], begun: tuple[str, ...] = ()) -> House:
    """Requests as (id, repository, when, priority); `begun`: the ids of those that run."""
    return replay_house(
        entry
        for name, repository, at, priority in requests
        for entry in build_entries(
            name,
            RequestReceived(request=build_request(name, priority=priority), repository=repository),
            RequestQueued(),
            *(RUNNING if name in begun else ()),
            at=at,
        )
    )


def choose(house: House, *, now: float = 0.0, slots: int = 9, **options: object) -> list[str]:
    priorities = {"shop": 0, "blog": 0, "site": 0}
    given: dict[str, object] = {"closed": (), "last_starts": {}} | options
    chosen = choose_starts(house, priorities, slots=slots, now=now, **given)  # type: ignore[arg-type] # of the test
    return [each.id for each in chosen]


def test_the_higher_priority_goes_first_then_the_older_one() -> None:
    house = build_house(("a", "shop", 1, 0), ("b", "shop", 0, 0), ("c", "shop", 2, 5))
    assert [each.id for each in sort_queue(house, "shop", 2.0)] == ["c", "b", "a"]


def test_an_old_request_rises_above_newer_ones_of_higher_priority() -> None:
    house = build_house(("old", "shop", 0, 0), ("new", "shop", 2 * AGEING_SECONDS, 1))
    assert [each.id for each in sort_queue(house, "shop", 2 * AGEING_SECONDS)] == ["old", "new"]


def test_one_session_at_a_time_runs_in_a_repository() -> None:
    house = build_house(("a", "shop", 0, 0), ("b", "shop", 1, 9), ("c", "blog", 2, 0), begun=("a",))
    assert choose(house) == ["c"]


def test_slots_are_shared_over_all_repositories() -> None:
    house = build_house(("a", "shop", 0, 0), ("b", "blog", 1, 0), ("c", "site", 2, 0), begun=("a",))
    assert choose(house, slots=2) == ["b"]
    assert choose(house, slots=1) == []


def test_among_equals_the_repository_that_waited_longest_goes_first() -> None:
    house = build_house(("a", "shop", 0, 0), ("b", "blog", 0, 0))
    assert choose(house, last_starts={"shop": 50.0, "blog": 10.0}) == ["b", "a"]


def test_nothing_starts_in_a_closed_repository() -> None:
    house = build_house(("a", "shop", 0, 9), ("b", "blog", 0, 0))
    assert choose(house, closed={"shop"}) == ["b"]


def test_no_request_waits_for_ever_however_many_come_after_it() -> None:
    """One slot, and a new request of higher priority with each start: the old one is started all the same."""
    requests, started, now = [("old", "shop", 0.0, 0)], list[str](), 0.0
    for n in range(60):
        now += AGEING_SECONDS / 4
        requests.append((f"new-{n}", "blog", now, 3))
        house = build_house(*(each for each in requests if each[0] not in started))
        started += choose(house, now=now, slots=1)
    assert "old" in started[:20]


def test_the_wait_is_estimated_by_what_sessions_usually_take() -> None:
    house = build_house(("a", "shop", 0, 0), ("b", "shop", 1, 0), ("c", "shop", 2, 0), begun=("a",))
    assert count_ahead(house, house.requests["c"], 2.0) == 2
    assert estimate_wait(2, [600.0, 900.0, 1200.0], running_for=300.0) == 1500.0
    assert estimate_wait(1, [600.0], running_for=9999.0) == 0.0
    assert estimate_wait(1, [], running_for=0.0) is None
