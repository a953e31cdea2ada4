"""Which agent gets a free slot of the pool: slots over all repositories, in total and for each role.

Fair between repositories: the one with the fewest agents at work goes first, then who has waited longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

WANT_SECONDS = 30.0  # an orchestrator that waits asks every few seconds; a want that is older is given up
YOUNG_SECONDS = 60.0  # for so long an agent has not yet taken the memory that it will take


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    agents: int = 8
    roles: Mapping[str, int] = field(default_factory=dict)
    memory_per_agent: int = 0  # bytes; 0: memory is not counted
    day_micro_usd: int = 0  # 0: unlimited


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """An agent that is at work, or is about to be."""

    attempt: str
    role: str
    repository: str
    session: str
    since: float
    micro_usd: int = 0  # that it may spend


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


def decide_grant(want: Want, state: PoolState, limits: PoolLimits) -> Grant:
    """Decide whether a want gets a slot now. Those that rank before it get theirs first."""
    now = want.asked_at
    if limits.day_micro_usd:
        used = state.day_micro_usd + sum(lease.micro_usd for lease in state.leases)
        if used + want.micro_usd > limits.day_micro_usd:
            return Grant(False, "the house's budget of the day is used up or reserved (pool.max_day_cost_usd)")
    others = [each for each in state.wants if each.attempt != want.attempt and now - each.asked_at <= WANT_SECONDS]
    before = [each for each in others if _rank(each, state.leases) < _rank(want, state.leases)]
    same_role = [each for each in before if each.role == want.role]
    total, of_role = len(state.leases), sum(lease.role == want.role for lease in state.leases)
    most = limits.roles.get(want.role)
    if most is not None and of_role + len(same_role) >= most:
        return Grant(False, f"{of_role} of {most} {want.role} agents work (pool.roles)", len(same_role))
    able = [each for each in before if _has_role_slot(each, state.leases, limits)]
    if total + len(able) >= limits.agents:
        return Grant(False, f"{total} of {limits.agents} agents work (pool.agents)", len(able))
    young = sum(now - lease.since < YOUNG_SECONDS for lease in state.leases)
    needed = limits.memory_per_agent * (young + len(able) + 1)
    if total and limits.memory_per_agent and state.free_memory < needed:
        free = f"{state.free_memory // 2**20:,} MB of memory are free"
        return Grant(False, f"{free}, {needed // 2**20:,} MB are needed (pool.min_ram_per_agent_mb)", len(able))
    return Grant(True)


def _rank(want: Want, leases: Sequence[Lease]) -> tuple[int, float, str]:
    own = sum(lease.repository == want.repository for lease in leases)
    return own, want.since, want.attempt


def _has_role_slot(want: Want, leases: Sequence[Lease], limits: PoolLimits) -> bool:
    most = limits.roles.get(want.role)
    return most is None or sum(lease.role == want.role for lease in leases) < most


def estimate_slot_wait(
    want: Want, state: PoolState, limits: PoolLimits, durations: Mapping[str, Sequence[float]], now: float
) -> float | None:
    """Seconds until it gets a slot, by what agents of the role usually take; None without any to go by."""
    usual = sorted(durations.get(want.role, ()))
    grant = decide_grant(want, state, limits)
    if grant.given:
        return 0.0
    if not usual:
        return None
    typical = usual[len(usual) // 2]
    busy = [lease for lease in state.leases if want.role not in limits.roles or lease.role == want.role]
    left = sorted(max(0.0, typical - (now - lease.since)) for lease in busy) or [typical]
    turn, place = divmod(grant.ahead, len(left))
    return left[place] + turn * typical
