"""Which agent gets a free slot of the pool."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from blueflame.dispatch.pool import (
    WANT_SECONDS,
    Lease,
    PoolLimits,
    PoolState,
    Want,
    decide_grant,
    estimate_slot_wait,
)

MB = 2**20


def lease(name: str, repository: str = "shop", role: str = "worker", since: float = -1000.0, usd: int = 0) -> Lease:
    return Lease(attempt=name, role=role, repository=repository, session="s", since=since, micro_usd=usd)


def want(name: str, repository: str = "shop", role: str = "worker", since: float = 0.0, at: float = 0.0) -> Want:
    return Want(attempt=name, role=role, repository=repository, session="s", since=since, asked_at=at)


def test_a_free_slot_is_given() -> None:
    state = PoolState(leases=[lease("a")], wants=[])
    assert decide_grant(want("b"), state, PoolLimits(agents=2)).given
    refused = decide_grant(want("b"), state, PoolLimits(agents=1))
    assert (refused.given, refused.reason) == (False, "1 of 1 agents work (pool.agents)")


def test_a_role_has_slots_of_its_own() -> None:
    state = PoolState(leases=[lease("a", role="validator")], wants=[])
    limits = PoolLimits(agents=9, roles={"validator": 1})
    assert not decide_grant(want("b", role="validator"), state, limits).given
    assert decide_grant(want("b"), state, limits).given


def test_the_repository_with_the_fewest_agents_goes_first() -> None:
    state = PoolState(leases=[lease("a"), lease("b")], wants=[want("old", since=-50), want("new", "blog", since=-1)])
    limits = PoolLimits(agents=3)
    assert decide_grant(want("new", "blog", since=-1), state, limits).given
    assert decide_grant(want("old", since=-50), state, limits).ahead == 1


def test_within_a_repository_who_waited_longest_goes_first() -> None:
    state = PoolState(leases=[], wants=[want("first", since=-50), want("second", since=-1)])
    assert not decide_grant(want("second", since=-1), state, PoolLimits(agents=1)).given
    assert decide_grant(want("first", since=-50), state, PoolLimits(agents=1)).given


def test_a_want_that_is_not_asked_for_any_more_holds_no_slot_back() -> None:
    gone = want("gone", "blog", since=-90, at=-WANT_SECONDS - 1)
    assert decide_grant(want("a"), PoolState(leases=[], wants=[gone]), PoolLimits(agents=1)).given


def test_a_want_that_waits_for_its_role_does_not_hold_others_back() -> None:
    waiting = want("v", "blog", role="validator", since=-90)
    state = PoolState(leases=[lease("x", role="validator")], wants=[waiting])
    assert decide_grant(want("w"), state, PoolLimits(agents=2, roles={"validator": 1})).given


def test_memory_counts_agents_that_have_not_taken_theirs_yet() -> None:
    limits = PoolLimits(agents=9, memory_per_agent=600 * MB)
    young = lease("a", since=-1)
    state = PoolState(leases=[young], wants=[], free_memory=1000 * MB)
    assert not decide_grant(want("b"), state, limits).given
    assert decide_grant(want("b"), replace(state, leases=[lease("a")]), limits).given
    assert decide_grant(want("b"), PoolState(leases=[], wants=[], free_memory=0), limits).given, "one always works"


def test_the_budget_of_the_day_counts_what_running_agents_may_spend() -> None:
    state = PoolState(leases=[lease("a", usd=3_000_000)], wants=[], day_micro_usd=6_000_000)
    limits = PoolLimits(agents=9, day_micro_usd=10_000_000)
    assert decide_grant(replace(want("b"), micro_usd=1_000_000), state, limits).given
    assert "budget of the day" in decide_grant(replace(want("b"), micro_usd=1_000_001), state, limits).reason


def test_the_wait_is_estimated_by_what_agents_of_the_role_usually_take() -> None:
    state = PoolState(leases=[lease("a", since=-300.0)], wants=[])
    limits = PoolLimits(agents=1)
    assert estimate_slot_wait(want("b"), state, limits, {"worker": [900.0, 1200.0, 600.0]}, 0.0) == 600.0
    assert estimate_slot_wait(want("b"), state, limits, {}, 0.0) is None
    behind = replace(state, wants=[want("first", since=-9.0)])
    assert estimate_slot_wait(want("b"), behind, limits, {"worker": [900.0]}, 0.0) == 600.0 + 900.0
    assert estimate_slot_wait(want("b"), PoolState(leases=[], wants=[]), limits, {}, 0.0) == 0.0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["worker", "validator"])), max_size=25))
def test_the_limits_hold_and_no_slot_stays_free_while_an_agent_waits(asked: list[tuple[str, str]]) -> None:
    """Everyone asks in turn until no one is granted a slot: that is what the orchestrators do."""
    limits = PoolLimits(agents=5, roles={"validator": 2})
    leases: list[Lease] = []
    wants = {str(n): want(str(n), repository, role, since=float(n)) for n, (repository, role) in enumerate(asked)}
    while True:
        state = PoolState(leases=leases, wants=tuple(wants.values()))
        given = next((each for each in wants.values() if decide_grant(each, state, limits).given), None)
        if given is None:
            break
        leases.append(lease(given.attempt, given.repository, given.role))
        del wants[given.attempt]
    validators = sum(each.role == "validator" for each in leases)
    assert len(leases) <= 5
    assert validators <= 2
    workers_wait = any(each.role == "worker" for each in wants.values())
    assert not wants or len(leases) == 5 or (validators == 2 and not workers_wait)
