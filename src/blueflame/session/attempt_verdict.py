"""Decide how an attempt ended: by its process and its result, never by what the agent claims."""

from __future__ import annotations

import re
import signal

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import COMMITTING, Duty, Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """What is known about an attempt whose process has ended."""

    duty: Duty
    reason: str  # as the warden recorded it
    exit_code: int | None = None
    signal: int | None = None
    commits: int = 0
    violations: int = 0
    has_output: bool = False
    unwatched: int = 0  # tool calls that the watcher did not see
    asks: bool = False  # it ended with a question to a person
    failure: str = ""  # the kind of failure that the agent itself reports
    crashed: bool = False  # its program did, which is not the agent's own
    asked: bool = True  # its model for anything; an agent that needs none has, too
    unanswered: bool = False  # its last call to its model got no whole answer, which is not its doing
    hook_failed: bool = False  # calls were refused because its hook died: no one decided that


CRASH_SIGNALS = frozenset(
    getattr(signal, f"SIG{name}") for name in ("ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "SYS")
)
"""By which a program ends that is broken, or whose machine is."""
SHELL_SIGNAL_BASE = 128  # a shell exits with this and the signal that ended its program


def find_crash(exit_code: int | None, number: int | None) -> int | None:
    """Return the signal by which a program crashed; None if it ended in another way."""
    number = (exit_code or 0) - SHELL_SIGNAL_BASE if number is None else number
    return number if number in CRASH_SIGNALS else None


ENDING_BY_REASON = {
    "timeout": Ending.TIMEOUT,
    "silent": Ending.STALLED,
    "output": Ending.FAILED,
    "cancelled": Ending.CANCELLED,
    "setup_failed": Ending.SETUP,
    "spawn_failed": Ending.ENVIRONMENT,
    "lost": Ending.LOST,
    "budget": Ending.BUDGET,
    "outage": Ending.OUTAGE,
    "account": Ending.ACCOUNT,
    "unwatched": Ending.UNWATCHED,
    "memory": Ending.RESOURCES,
    "processes": Ending.RESOURCES,
    "disk": Ending.RESOURCES,
}

ENDING_BY_FAILURE = {
    "budget": Ending.BUDGET,
    "outage": Ending.OUTAGE,
    "account": Ending.ACCOUNT,
    "output": Ending.BAD_OUTPUT,
}
"""By the failure that the agent reports; any other is Ending.FAILED."""


ACCOUNT_WORDS = re.compile(
    r"\b40[12]\b|insufficient_quota|credit balance|invalid.{0,9}api.?key|/login\b|model_not_found", re.IGNORECASE
)
OUTAGE_WORDS = re.compile(
    r"\b(429|5\d\d)\b|overloaded|rate.?limit|stream disconnected|error sending request|ECONN|connection|timed? ?out",
    re.IGNORECASE,
)


def classify_failure_words(detail: str) -> str:
    """Return the kind of failure that an agent's own words are about. The gateway's report goes before them."""
    if ACCOUNT_WORDS.search(detail):
        return "account"
    return "outage" if OUTAGE_WORDS.search(detail) else "error"


SPOILT_BY_MODEL = frozenset({Ending.FAILED, Ending.NO_COMMITS, Ending.BAD_OUTPUT, Ending.BUDGET})
"""Endings of an agent that had no whole answer to work with, or computed its own budget with a usage that is wrong."""

UNBEGUN = SPOILT_BY_MODEL | {Ending.CRASHED, Ending.TIMEOUT, Ending.STALLED}
"""Endings of a program that has asked its model nothing: it knows no task yet."""


def judge_attempt(facts: AttemptFacts) -> Ending:
    """Decide the ending, in a fixed order: the process, its exit code, commits or output, then the policy."""
    ending = _judge_process(facts)
    if not facts.asked and ending in UNBEGUN:
        return Ending.ENVIRONMENT
    if facts.reason != "exited" or ending not in SPOILT_BY_MODEL:
        return ending
    if facts.unanswered:
        return Ending.OUTAGE
    return Ending.LOST if facts.hook_failed and ending is not Ending.BUDGET else ending


def _judge_process(facts: AttemptFacts) -> Ending:
    if facts.reason != "exited":
        return ENDING_BY_REASON[facts.reason]
    if facts.crashed:
        return Ending.ENVIRONMENT
    if facts.unwatched:  # what was printed before the first question is no agent's
        return Ending.UNWATCHED if facts.asked else Ending.ENVIRONMENT
    if facts.signal is not None:
        return Ending.CRASHED
    if facts.failure:
        return ENDING_BY_FAILURE.get(facts.failure, Ending.FAILED)
    if facts.exit_code != 0:
        return Ending.FAILED
    if facts.asks and not facts.violations:
        return Ending.QUESTION
    if facts.duty not in COMMITTING:
        if facts.violations:
            return Ending.POSTCHECK
        return Ending.PASSED if facts.has_output else Ending.BAD_OUTPUT
    if not facts.commits:
        return Ending.NO_COMMITS
    return Ending.POSTCHECK if facts.violations else Ending.PASSED
