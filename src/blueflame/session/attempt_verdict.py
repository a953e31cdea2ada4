"""How an attempt is said to have ended: by what its process did and what it left, never by what it claims."""

from __future__ import annotations

from dataclasses import dataclass

from blueflame.model.attempt import MERGER, WORKER, Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """What is known of an attempt whose process is gone."""

    role: str
    reason: str  # as the warden recorded it
    exit_code: int | None = None
    signal: int | None = None
    commits: int = 0
    violations: int = 0
    has_output: bool = False
    unwatched: int = 0  # tool calls that the watcher did not see
    failure: str = ""  # how the agent itself says that it failed, in one of FAILURES


ENDING_BY_REASON = {
    "timeout": Ending.TIMEOUT,
    "silent": Ending.STALLED,
    "output": Ending.FAILED,
    "cancelled": Ending.CANCELLED,
    "setup_failed": Ending.SETUP,
    "spawn_failed": Ending.SETUP,
    "lost": Ending.LOST,
    "budget": Ending.BUDGET,
    "outage": Ending.OUTAGE,
    "unwatched": Ending.UNWATCHED,
    "memory": Ending.RESOURCES,
    "processes": Ending.RESOURCES,
    "disk": Ending.RESOURCES,
}


ENDING_BY_FAILURE = {"budget": Ending.BUDGET, "outage": Ending.OUTAGE, "output": Ending.BAD_OUTPUT}
"""What an agent's own last word says of a failure; any other word is a plain one."""


def judge_attempt(facts: AttemptFacts) -> Ending:
    """Fixed order: what happened to the process, its exit code, then commits or output, then the policy."""
    if facts.reason != "exited":
        return ENDING_BY_REASON[facts.reason]
    if facts.unwatched:
        return Ending.UNWATCHED
    if facts.signal is not None:
        return Ending.CRASHED
    if facts.failure:
        return ENDING_BY_FAILURE.get(facts.failure, Ending.FAILED)
    if facts.exit_code != 0:
        return Ending.FAILED
    if facts.role not in (WORKER, MERGER):
        if facts.violations:
            return Ending.POSTCHECK
        return Ending.PASSED if facts.has_output else Ending.BAD_OUTPUT
    if not facts.commits:
        return Ending.NO_COMMITS
    return Ending.POSTCHECK if facts.violations else Ending.PASSED
