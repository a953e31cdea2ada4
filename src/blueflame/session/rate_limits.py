"""When a model is unavailable: how long its runtime is parked, when a person is asked, and how that is described."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.event import RuntimeParked
from blueflame.model.limits import Limits
from blueflame.session.next_try import compute_wait
from blueflame.session.retries import truncate_text
from blueflame.session.state import Session

RATE_LIMIT, OUTAGE, NETWORK = "rate_limit", "outage", "network"
LOGIN, CREDIT, MODEL, UNSUPPORTED = "login", "credit", "model", "unsupported"
ACCOUNT_KINDS = frozenset({LOGIN, CREDIT, MODEL, UNSUPPORTED})
"""What only a person can change. `until` is then None, or when they asked to try again."""
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 30.0, 600.0
ASK_AFTER_OUTAGES = 5  # outages in a row

OUTAGE_WORDS: Mapping[str, str] = {
    RATE_LIMIT: "rate-limited by the provider",
    OUTAGE: "the provider reports an error",
    NETWORK: "the provider cannot be reached or does not answer as it should, the agents are not at fault",
    LOGIN: "the provider refuses the login",
    CREDIT: "the account has no credit left",
    MODEL: "the model does not exist for this account",
    UNSUPPORTED: "the provider does not accept the calls of this program",
}


def describe_account_fix(kind: str, *, role: str, model: str, runtime: str, how_to_log_in: str) -> str:
    """Describe what a person has to do about the account before agents can work again."""
    if kind == MODEL:
        return f"change roles.{role}.model, now {model}, to one that your account has"
    if kind == UNSUPPORTED:
        return f"update the program of the runtime {runtime}, or correct the address of its provider"
    if kind == CREDIT:
        return f"add credit at the provider, or another account for the runtime {runtime}"
    how = how_to_log_in or f"check the credential of the runtime {runtime}"
    return f"{how}; a variable that you set now needs `blueflame resume`"


def park_after_outage(session: Session, attempt: Attempt, ended: AttemptOutcome, now: float) -> Iterator[RuntimeParked]:
    """Park the runtime of an agent that stopped waiting for its model, longer for each outage in a row.

    Agents that stop waiting together are one outage: a runtime that is parked already stays as it is.
    For an error of the account there is no end to wait for.
    """
    parked = session.parked.get(attempt.runtime)
    if ended.ending is Ending.ACCOUNT:
        if parked is None or parked.kind not in ACCOUNT_KINDS or parked.until is not None:
            kind = ended.cause if ended.cause in ACCOUNT_KINDS else LOGIN
            yield RuntimeParked(runtime=attempt.runtime, kind=kind, reason=truncate_text(ended.notes))
        return
    if parked is not None and parked.until is not None and parked.until > now:
        return
    times = session.outages.get(attempt.runtime, 0) + 1
    yield RuntimeParked(
        runtime=attempt.runtime,
        kind=ended.cause if ended.cause in OUTAGE_WORDS else parked.kind if parked is not None else OUTAGE,
        reason=truncate_text(ended.notes),
        until=now + compute_wait(times, attempt.id, first=FIRST_WAIT_SECONDS, most=MAX_WAIT_SECONDS),
        agents=1,
        outages=times,
    )


def try_account_again(session: Session, runtime: str, now: float) -> Iterator[RuntimeParked]:
    """End the wait for a person who is back. The configuration is read again first: it may be what they fixed."""
    parked = session.parked[runtime]
    if parked.until is None:
        yield replace(parked, until=now)


def should_ask(limits: Limits, parked: RuntimeParked, now: float) -> bool:
    """Whether to ask a person: because the configuration says so, or because the wait is too long.

    An agent stops waiting for a rate limit only when it lasts longer than limits.rate_limit_wait.
    """
    if parked.kind in ACCOUNT_KINDS:
        return parked.until is None
    if parked.kind == RATE_LIMIT and (limits.on_rate_limit == "ask" or parked.outages):
        return True
    too_long = parked.until is not None and parked.until - now > limits.rate_limit_wait
    return too_long or parked.outages >= ASK_AFTER_OUTAGES


def describe_parked(parked: RuntimeParked) -> str:
    """`claude: rate-limited by the provider; 3 agents wait`"""
    if parked.kind in ACCOUNT_KINDS:
        held = "no agent of it is started until that is fixed" if parked.until is None else "it is tried again now"
        return f"{parked.runtime}: {OUTAGE_WORDS[parked.kind]}; {held}"
    return f"{parked.runtime}: {OUTAGE_WORDS.get(parked.kind, parked.kind)}; {_describe_waiting_agents(parked)}"


def _describe_waiting_agents(parked: RuntimeParked) -> str:
    if parked.outages:
        times = "" if parked.outages == 1 else f" {parked.outages} times in a row"
        return f"agents have stopped waiting{times}, and new ones are not started"
    if not parked.agents:
        return "new agents wait"
    return "1 agent waits" if parked.agents == 1 else f"{parked.agents} agents wait"
