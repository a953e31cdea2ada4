"""When the model cannot be had: how long a runtime rests, when a person is asked, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

from blueflame.model.attempt import Attempt, AttemptOutcome
from blueflame.model.event import RuntimeParked
from blueflame.model.limits import Limits
from blueflame.session.retries import truncate_text
from blueflame.session.state import Session

RATE_LIMIT, OUTAGE, NETWORK = "rate_limit", "outage", "network"
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 30.0, 600.0  # seconds
JITTER = 0.25  # of a rest: several sessions that failed together do not come back together
ASK_AFTER_OUTAGES = 5  # outages in a row

OUTAGE_WORDS: Mapping[str, str] = {
    RATE_LIMIT: "the provider says too much for now",
    OUTAGE: "the provider does not answer as it should",
    NETWORK: "the provider cannot be reached from here; the agents are well, the network is not",
}


def park_after_outage(session: Session, attempt: Attempt, ended: AttemptOutcome, now: float) -> Iterator[RuntimeParked]:
    """An agent gave up waiting for its model. None is started for a while, longer each time in a row.

    Agents that give up together are one outage: while the runtime rests already, nothing is added.
    """
    parked = session.parked.get(attempt.runtime)
    if parked is not None and parked.until is not None and parked.until > now:
        return
    times = session.outages.get(attempt.runtime, 0) + 1
    yield RuntimeParked(
        runtime=attempt.runtime,
        kind=ended.cause if ended.cause in OUTAGE_WORDS else parked.kind if parked is not None else OUTAGE,
        reason=truncate_text(ended.notes),
        until=now + compute_wait(times, attempt.id),
        agents=1,
        outages=times,
    )


def compute_wait(times: int, attempt: str) -> float:
    """Seconds; doubled each time, with a spread that is always the same for the same attempt."""
    dice = sha256(attempt.encode()).digest()[0] / 255
    return min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(times - 1, 10)) * (1 + JITTER * dice)


def should_ask(limits: Limits, parked: RuntimeParked, now: float) -> bool:
    """Where a person wants to be asked, and where waiting is no longer reasonable.

    An agent gives up on a rate limit only when it lasts longer than limits.rate_limit_wait.
    """
    if parked.kind == RATE_LIMIT and (limits.on_rate_limit == "ask" or parked.outages):
        return True
    too_long = parked.until is not None and parked.until - now > limits.rate_limit_wait
    return too_long or parked.outages >= ASK_AFTER_OUTAGES


def describe_parked(parked: RuntimeParked) -> str:
    """`claude: the provider says too much for now; 3 agents wait`"""
    return f"{parked.runtime}: {OUTAGE_WORDS.get(parked.kind, parked.kind)}{_describe_waiting_agents(parked)}"


def _describe_waiting_agents(parked: RuntimeParked) -> str:
    if parked.outages:
        times = "" if parked.outages == 1 else f", for the {_format_ordinal(parked.outages)} time in a row"
        return f"; agents have given up{times}, and new ones wait"
    if not parked.agents:
        return "; new agents wait"
    return "; 1 agent waits" if parked.agents == 1 else f"; {parked.agents} agents wait"


def _format_ordinal(n: int) -> str:
    return {2: "second", 3: "third"}.get(n, f"{n}th")
