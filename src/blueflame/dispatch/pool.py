"""Which agent gets a free slot of the pool: slots over all repositories, in total and for each role.

Fair between repositories: the one with the fewest agents at work goes first, then who has waited longest.
A role with a number has so many core slots. An ad hoc agent works beside them: only where a person chose it, and within
limits of its own. The total, memory and money hold for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from blueflame.lazy_dataclass import dataclass
from blueflame.model.limits import SlotWait
from blueflame.text.format import format_dollars

WANT_SECONDS = 30.0  # an orchestrator that waits asks every few seconds; a want that is older is given up
YOUNG_SECONDS = 60.0  # for so long an agent has not yet taken the memory that it will take


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    agents: int = 8
    roles: Mapping[str, int] = field(default_factory=dict)
    memory_per_agent: int = 0  # bytes; 0: memory is not counted
    day_micro_usd: int = 0  # 0: unlimited
    max_queue_length: int = 3  # for one role, before a person is asked or informed
    max_adhoc_per_type: int = 2  # of one role
    max_total_adhoc: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """An agent that is at work, or is about to be."""

    attempt: str
    role: str
    repository: str
    session: str
    since: float
    micro_usd: int = 0  # that it may spend
    ad_hoc: bool = False  # it has none of the core slots of its role


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """An agent that waits for a slot."""

    attempt: str
    role: str
    repository: str
    session: str
    since: float  # when it was asked for first
    asked_at: float  # when it was asked for last
    micro_usd: int = 0  # that it would reserve
    ad_hoc: bool = False  # a person chose that it may be one


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """All that is counted once for the house."""

    leases: Sequence[Lease]
    wants: Sequence[Want]
    free_memory: int = 0  # bytes
    day_micro_usd: int = 0  # spent today, by all sessions


class Grant(NamedTuple):
    given: bool
    reason: str = ""  # why it waits
    ahead: int = 0  # how many wait before it
    ad_hoc: bool = False  # given beside the core slots
    cause: str = ""  # money | role | agents | memory: what it waits for


def decide_grant(want: Want, state: PoolState, limits: PoolLimits) -> Grant:
    """Decide whether a want gets a slot now. Those that rank before it get theirs first."""
    now = want.asked_at
    if limits.day_micro_usd:
        reserved = sum(lease.micro_usd for lease in state.leases)
        if state.day_micro_usd + reserved + want.micro_usd > limits.day_micro_usd:
            return Grant(False, _describe_money(want, state, limits), cause="money")
    others = [
        each for each in state.wants if each.attempt != want.attempt and _is_near(each.asked_at, now, WANT_SECONDS)
    ]
    before = [each for each in others if _rank(each, state.leases) < _rank(want, state.leases)]
    able = [each for each in before if _has_slot(each, state.leases, limits, ())]
    beside = not _has_core_slot(want.role, state.leases, limits, before)
    if beside and not (want.ad_hoc and _has_ad_hoc_slot(want.role, state.leases, limits, able)):
        return Grant(False, _describe_role(want, state.leases, limits), _count(before, want.role), cause="role")
    total = len(state.leases)
    if total + len(able) >= limits.agents:
        return Grant(False, f"{total} of {limits.agents} agents work (pool.agents)", len(able), cause="agents")
    young = sum(_is_near(lease.since, now, YOUNG_SECONDS) for lease in state.leases)
    needed = limits.memory_per_agent * (young + len(able) + 1)
    if total and limits.memory_per_agent and state.free_memory < needed:
        free = f"{state.free_memory // 2**20:,} MB of memory are free"
        reason = f"{free}, {needed // 2**20:,} MB are needed (pool.min_ram_per_agent_mb)"
        return Grant(False, reason, len(able), cause="memory")
    return Grant(True, ad_hoc=beside)


def _is_near(at: float, now: float, seconds: float) -> bool:
    """Whether it was within these seconds; where the clock was set back meanwhile, it was before them."""
    return abs(now - at) <= seconds


def _rank(want: Want, leases: Sequence[Lease]) -> tuple[int, float, str]:
    own = sum(lease.repository == want.repository for lease in leases)
    return own, want.since, want.attempt


def _count(agents: Sequence[Lease | Want], role: str) -> int:
    return sum(each.role == role for each in agents)


def _has_slot(want: Want, leases: Sequence[Lease], limits: PoolLimits, before: Sequence[Want]) -> bool:
    core = _has_core_slot(want.role, leases, limits, before)
    return core or (want.ad_hoc and _has_ad_hoc_slot(want.role, leases, limits, before))


def _has_core_slot(role: str, leases: Sequence[Lease], limits: PoolLimits, before: Sequence[Want]) -> bool:
    most = limits.roles.get(role)
    core = [lease for lease in leases if not lease.ad_hoc]
    return most is None or _count(core, role) + _count(before, role) < most


def _has_ad_hoc_slot(role: str, leases: Sequence[Lease], limits: PoolLimits, before: Sequence[Want]) -> bool:
    taken = [each.role for each in leases if each.ad_hoc] + [each.role for each in before if each.ad_hoc]
    return taken.count(role) < limits.max_adhoc_per_type and len(taken) < limits.max_total_adhoc


def _describe_money(want: Want, state: PoolState, limits: PoolLimits) -> str:
    spent = f"{format_dollars(state.day_micro_usd)} of {format_dollars(limits.day_micro_usd)} are spent today"
    if state.day_micro_usd + want.micro_usd <= limits.day_micro_usd:
        return f"{spent}, and running agents may spend the rest (pool.max_day_cost_usd)"
    needed = f"an agent may take {format_dollars(want.micro_usd)}"
    return f"{spent}, and {needed}: it goes on tomorrow, or after a restart with a higher pool.max_day_cost_usd"


def _describe_role(want: Want, leases: Sequence[Lease], limits: PoolLimits) -> str:
    at_work = _count([lease for lease in leases if not lease.ad_hoc], want.role)
    core = f"{at_work} of {limits.roles[want.role]} {want.role} agents work (pool.roles)"
    if not want.ad_hoc:
        return core
    ad_hoc = sum(lease.ad_hoc for lease in leases)
    return f"{core}, and {ad_hoc} ad hoc agents (pool.max_adhoc_per_type, pool.max_total_adhoc)"


def describe_wait(
    want: Want, state: PoolState, limits: PoolLimits, durations: Mapping[str, Sequence[float]]
) -> SlotWait | None:
    """Describe why a want waits, for its session and for people; None if it gets a slot now."""
    grant = decide_grant(want, state, limits)
    if grant.given:
        return None
    is_late = grant.cause == "money" or grant.ahead >= limits.max_queue_length
    for_role = grant.cause == "role"
    is_spent = grant.cause == "money" and state.day_micro_usd + want.micro_usd > limits.day_micro_usd
    usual = () if is_spent else sorted(durations.get(want.role, ()))  # no agent that ends makes room
    busy = [lease for lease in state.leases if not for_role or (lease.role == want.role and not lease.ad_hoc)]
    return SlotWait(
        subject=_find_subject(want.attempt),
        reason=grant.reason,
        project=_find_folder_name(want.repository),
        ahead=grant.ahead,
        seconds=_estimate_wait(grant, busy, usual, want.asked_at),
        occupants=tuple(map(describe_occupant, busy)),
        is_late=is_late,
        may_spawn=for_role and is_late and decide_grant(replace(want, ad_hoc=True), state, limits).given,
        ad_hoc=want.ad_hoc,
        for_money=grant.cause == "money",
    )


def describe_occupant(lease: Lease) -> str:
    """`shop task-003`"""
    words = f"{_find_folder_name(lease.repository)} {_find_subject(lease.attempt)}"
    return f"{words} (ad hoc)" if lease.ad_hoc else words


def _find_subject(attempt: str) -> str:
    """`task-001` of `ses-….task-001.worker.1`"""
    return [*attempt.split("."), attempt][1]


def _find_folder_name(repository: str) -> str:
    return repository.rpartition("/")[2]


def _estimate_wait(grant: Grant, busy: Sequence[Lease], usual: Sequence[float], now: float) -> float | None:
    """Seconds until it gets a slot, by what agents of the role usually take; None without any to go by."""
    if not usual:
        return None
    typical = usual[len(usual) // 2]
    left = sorted(max(0.0, typical - (now - lease.since)) for lease in busy) or [typical]
    turn, place = divmod(grant.ahead, len(left))
    return left[place] + turn * typical
