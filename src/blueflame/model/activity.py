"""What one agent is doing now, and whether it is well, as seen from outside."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt
from blueflame.model.spend import NO_SPEND, Budget, Spend


class AgentState(StrEnum):
    STARTING = "starting"  # intended, or its checkout is being prepared
    SETUP = "setup"  # the setup commands run
    WORKING = "working"
    SILENT = "silent"  # working, without output for longer than limits.stall_timeout
    PARKED = "parked"  # its model is unavailable
    ASKING = "asking"  # it waits for an answer to its question
    ENDING = "ending"  # it was asked to end, or its result is being checked
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """The state an agent is in, since when and why; `until` is when it ends, if that is known."""

    state: AgentState = AgentState.STARTING
    since: float | None = None
    reason: str = ""
    until: float | None = None
    kind: str = ""  # of what it is parked for: rate_limit | outage | network


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    attempt: Attempt
    status: AgentStatus = field(default_factory=AgentStatus)
    tool: str = ""  # of its latest call
    target: str = ""
    last_words: str = ""  # the latest text of the agent
    spoke_last: bool = False  # the words are newer than the call
    calls: int = 0
    refused: int = 0
    spend: Spend = NO_SPEND

    @property
    def call(self) -> str:
        return f"{self.tool} {self.target}".strip()

    @property
    def tightest_budget(self) -> Budget | None:
        """The most used one of its budget and what the task, session and day budgets leave to it."""
        budgets = (self.attempt.budget, *(ceiling.budget for ceiling in self.attempt.ceilings))
        limits = [budget for budget in budgets if not budget.unlimited]
        return max(limits, key=self._compute_share, default=None)

    @property
    def used_share(self) -> float:
        """How much of the tightest is used: 1.0 is all of it; 0.0 without a limit."""
        tightest = self.tightest_budget
        return self._compute_share(tightest) if tightest else 0.0

    def _compute_share(self, budget: Budget) -> float:
        return budget.measure(self.spend) / budget.limit


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
