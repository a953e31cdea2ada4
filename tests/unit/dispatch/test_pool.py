"""Which agent gets a free slot of the pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.dispatch.pool import (
    WANT_SECONDS,
    Grant,
    Lease,
    PoolLimits,
    PoolState,
    Want,
    decide_grant,
    describe_wait,
)
from blueflame.model.limits import SlotWait

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


def test_where_the_clock_was_set_back_no_want_or_young_agent_stays_so_for_hours() -> None:
    state = PoolState(leases=[lease("a", since=3600)], wants=[want("old", at=3600)], free_memory=100 * MB)
    assert decide_grant(want("b"), state, PoolLimits(agents=2, memory_per_agent=100 * MB)).given


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
    reserved = describe_wait(replace(want("b"), micro_usd=1_000_001), state, limits, {"worker": [60.0]})
    assert reserved is not None
    assert reserved.reason.startswith("$6.00 of $10.00 are spent today, and running agents may spend the rest")


def test_a_spent_day_says_when_it_goes_on_and_estimates_nothing() -> None:
    state = PoolState(leases=[lease("a")], wants=[], day_micro_usd=9_500_000)
    limits = PoolLimits(agents=9, day_micro_usd=10_000_000)
    wait = describe_wait(replace(want("b"), micro_usd=1_000_000), state, limits, {"worker": [60.0]})
    assert wait is not None
    assert (wait.seconds, wait.for_money, wait.is_late) == (None, True, True)
    assert "$9.50 of $10.00 are spent today, and an agent may take $1.00: it goes on tomorrow" in wait.reason


def test_the_wait_is_estimated_by_what_agents_of_the_role_usually_take() -> None:
    state = PoolState(leases=[lease("a", since=-300.0)], wants=[])
    limits = PoolLimits(agents=1)
    behind = replace(state, wants=[want("first", since=-9.0)])
    found = [
        describe_wait(want("b"), state, limits, {"worker": [900.0, 1200.0, 600.0]}),
        describe_wait(want("b"), state, limits, {}),
        describe_wait(want("b"), behind, limits, {"worker": [900.0]}),
    ]
    assert [wait and wait.seconds for wait in found] == [600.0, None, 600.0 + 900.0]
    assert [wait and wait.queue for wait in found] == [
        "about 10 min, next in the queue",
        "next in the queue",
        "about 25 min, 1 task ahead",
    ]
    assert describe_wait(want("b"), PoolState(leases=[], wants=[]), limits, {}) is None


QA = PoolLimits(agents=9, roles={"qa": 1}, max_queue_length=1, max_adhoc_per_type=2, max_total_adhoc=3)
BUSY = lease("ses-1.task-003.qa.1", "/home/ann/shop", role="qa", since=-600.0)
QUEUE = [want("first", "a", role="qa", since=-9.0), want("second", "b", role="qa", since=-8.0)]


def beside(n: int, role: str = "qa") -> Lease:
    return replace(lease(f"beside-{role}-{n}", f"r-{role}-{n}", role=role), ad_hoc=True)


@pytest.mark.parametrize(
    ("leases", "wants", "limits", "expected"),
    [
        ([BUSY], [], QA, (False, False)),  # fewer than max_queue_length wait: it queues
        ([BUSY], QUEUE[:1], QA, (True, True)),
        ([BUSY, beside(1), beside(2)], QUEUE[:1], QA, (True, False)),  # no further one of this role
        ([BUSY, *(beside(n, "db") for n in range(3))], QUEUE[:1], QA, (True, False)),  # nor of any
        ([BUSY, *(lease(str(n)) for n in range(8))], QUEUE[:1], QA, (True, False)),  # all agents work
        ([BUSY], QUEUE[:1], replace(QA, max_queue_length=2), (False, False)),
        ([BUSY], QUEUE, replace(QA, max_queue_length=2), (True, True)),
        ([BUSY], [], replace(QA, max_queue_length=0), (True, True)),
        ([BUSY], QUEUE, replace(QA, max_adhoc_per_type=0), (True, False)),
    ],
)
def test_behind_a_full_queue_a_person_is_asked_or_informed(
    leases: list[Lease], wants: list[Want], limits: PoolLimits, expected: tuple[bool, bool]
) -> None:
    wait = describe_wait(want("new", "c", role="qa", since=-1.0), PoolState(leases=leases, wants=wants), limits, {})
    assert wait is not None
    assert (wait.is_late, wait.may_spawn) == expected


def test_a_wait_names_task_project_and_occupants() -> None:
    state = PoolState(leases=[BUSY, beside(1)], wants=QUEUE)
    asked = want("ses-2.task-015.qa.1", "/home/ann/blog", role="qa", since=-1.0)
    assert describe_wait(asked, state, QA, {"qa": [900.0]}) == SlotWait(
        subject="task-015",
        reason="1 of 1 qa agents work (pool.roles)",
        project="blog",
        ahead=2,
        seconds=300.0 + 2 * 900.0,
        occupants=("shop task-003",),
        is_late=True,
        may_spawn=True,
    )


def test_an_ad_hoc_agent_works_beside_those_of_its_role() -> None:
    spawned = replace(want("new", "c", role="qa"), ad_hoc=True)
    free, busy = PoolState(leases=[], wants=[]), PoolState(leases=[BUSY], wants=QUEUE)
    assert decide_grant(spawned, free, QA) == Grant(True), "a free core slot is taken first"
    assert decide_grant(spawned, busy, QA) == Grant(True, ad_hoc=True), "it does not wait behind others"
    full = replace(busy, leases=[BUSY, beside(1), beside(2)])
    refused = decide_grant(spawned, full, QA)
    assert (refused.given, refused.cause) == (False, "role")
    assert "2 ad hoc agents" in refused.reason
    left = replace(full, leases=[beside(1), beside(2)], wants=[])
    assert decide_grant(want("core", "c", role="qa"), left, QA) == Grant(True), "ad hoc agents take no core slot"


def test_work_that_has_no_money_left_is_late_at_once() -> None:
    asked, state = replace(want("b"), micro_usd=2), PoolState(leases=[], wants=[])
    wait = describe_wait(asked, state, PoolLimits(day_micro_usd=1), {})
    assert wait is not None
    assert (wait.is_late, wait.may_spawn) == (True, False)


ROLES = ("worker", "validator", "qa")
ASKED = st.tuples(st.sampled_from("abc"), st.sampled_from(ROLES), st.booleans())


@given(st.lists(ASKED, max_size=25), st.randoms(use_true_random=False))
def test_the_limits_hold_and_every_want_is_granted_when_agents_end(
    asked: list[tuple[str, str, bool]], dice: Random
) -> None:
    """Everyone asks in turn, as the orchestrators do; when no want is granted any more, an agent ends."""
    limits = PoolLimits(agents=5, roles={"validator": 2, "qa": 1}, max_adhoc_per_type=1, max_total_adhoc=2)
    leases: list[Lease] = []
    wants = {
        str(n): replace(want(str(n), repository, role, since=float(n)), ad_hoc=ad_hoc)
        for n, (repository, role, ad_hoc) in enumerate(asked)
    }
    while wants:
        state = PoolState(leases=leases, wants=tuple(wants.values()))
        grants = ((each, decide_grant(each, state, limits)) for each in wants.values())
        given = next(((each, grant) for each, grant in grants if grant.given), None)
        if given is None:
            check_idle_slots(wants.values(), leases, limits)
            assert leases, "while no agent works, one is granted a slot"
            leases.remove(dice.choice(leases))
            continue
        each, grant = given
        del wants[each.attempt]
        leases.append(replace(lease(each.attempt, each.repository, each.role), ad_hoc=grant.ad_hoc))
        check_limits(leases, limits)


def check_limits(leases: Sequence[Lease], limits: PoolLimits) -> None:
    core = Counter(each.role for each in leases if not each.ad_hoc)
    ad_hoc = Counter(each.role for each in leases if each.ad_hoc)
    assert len(leases) <= limits.agents
    assert all(core[role] <= most for role, most in limits.roles.items())
    assert all(count <= limits.max_adhoc_per_type for count in ad_hoc.values())
    assert ad_hoc.total() <= limits.max_total_adhoc


def check_idle_slots(wants: Iterable[Want], leases: Sequence[Lease], limits: PoolLimits) -> None:
    """No slot stays free that an agent could use which waits."""
    core = Counter(each.role for each in leases if not each.ad_hoc)
    ad_hoc = Counter(each.role for each in leases if each.ad_hoc)
    for each in wants:
        full = each.role in limits.roles and core[each.role] == limits.roles[each.role]
        beside = ad_hoc[each.role] < limits.max_adhoc_per_type and ad_hoc.total() < limits.max_total_adhoc
        assert len(leases) == limits.agents or (full and not (each.ad_hoc and beside))
