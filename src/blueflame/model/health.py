"""The health of a running agent, as seen from outside."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from blueflame.model.spend import NO_SPEND, Spend


class Health(StrEnum):
    STARTING = "starting"  # intended, or its checkout is being made ready
    WORKING = "working"
    SILENT = "silent"  # at work, and has said nothing for limits.stall_timeout
    PARKED = "parked"  # at work, and waits for its model
    STOPPING = "stopping"  # it was asked to end
    ENDED = "ended"
    LOST = "lost"  # it was started, and nobody watches over it any more
    UNKNOWN = "unknown"  # we cannot tell; never to be taken for well


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """What was found when an agent was looked at."""

    state: Health
    why: str = ""
    warden_pid: int | None = None
    agent_pid: int | None = None
    warden_since: float | None = None
    last_output: float | None = None
    said: str = ""
    spend: Spend = NO_SPEND
