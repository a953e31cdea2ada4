"""The health of a running agent, as seen from outside."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from blueflame.model.spend import NO_SPEND, Spend


class Health(StrEnum):
    STARTING = "starting"  # intended, or its checkout is being prepared
    WORKING = "working"
    SILENT = "silent"  # running, without output for limits.stall_timeout
    PARKED = "parked"  # running, and waits for its model
    ASKING = "asking"  # running, and waits for an answer of a person
    STOPPING = "stopping"  # it was asked to end
    ENDED = "ended"
    LOST = "lost"  # it was started, and its warden is gone
    UNKNOWN = "unknown"  # it cannot be determined; must not be treated as healthy


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The result of one probe of an agent."""

    state: Health
    why: str = ""
    warden_pid: int | None = None
    agent_pid: int | None = None
    last_output: float | None = None
    said: str = ""
    spend: Spend = NO_SPEND
