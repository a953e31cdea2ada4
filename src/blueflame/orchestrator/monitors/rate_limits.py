"""Find out whether the model of a runtime is available, from the gateways' status and their shared file.

No state is kept: after a crash the next orchestrator reads the same files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from blueflame.lazy_dataclass import dataclass
from blueflame.model.event import Event, RuntimeParked, RuntimeResumed
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.cycle_boundary import find_drift
from blueflame.orchestrator.engine.interface import Running
from blueflame.orchestrator.monitors.accounts import find_shared_wait
from blueflame.session.effects import AwaitRuntime
from blueflame.session.rate_limits import ACCOUNT_KINDS, OUTAGE, RATE_LIMIT
from blueflame.session.state import Session
from blueflame.system.files import explain_file_errors

POLL_SECONDS = 1.0
RETRY_SECONDS = 5.0
REST_OVER = "the rest is over"
STALE_SECONDS = 60.0  # then a shared wait without an end expires


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitWait:
    """Why an agent waits for its model, as its gateway reports it."""

    kind: str
    reason: str
    since: float
    until: float | None = None


async def await_runtime(
    context: SessionContext, session: Session, effect: AwaitRuntime, _emit: Emit
) -> Sequence[Event]:
    while (parked := session.parked.get(effect.runtime)) is not None:
        now = context.clock.now()
        if parked.kind in ACCOUNT_KINDS:
            drift = await find_drift(context, session)
            return [drift or RuntimeResumed(runtime=effect.runtime, reason="a person asked to try again")]
        resting = parked.outages > 0 and parked.until is not None and now < parked.until
        if not resting and not await find_waits(context, session, effect.runtime, now):
            remove_shared_wait(find_shared_wait(context, effect.runtime))
            if parked.outages:  # the address of the provider may be what a person corrected
                return [await find_drift(context, session) or RuntimeResumed(runtime=effect.runtime, reason=REST_OVER)]
            return [RuntimeResumed(runtime=effect.runtime, reason="no agent waits for it any more")]
        await context.clock.sleep(POLL_SECONDS)
    return []


async def find_waits(context: SessionContext, session: Session, runtime: str, now: float) -> list[RateLimitWait]:
    """Return why the runtime waits: from its agents, else from the shared file.

    Empty right after a person chose to retry: waiting agents need a moment to try.
    """
    if 0 <= now - session.tried_at.get(runtime, float("-inf")) < RETRY_SECONDS:
        return []
    shared = read_shared_wait(find_shared_wait(context, runtime), now)
    return await _find_agent_waits(context, session, runtime) or ([shared] if shared is not None else [])


async def _find_agent_waits(context: SessionContext, session: Session, runtime: str) -> list[RateLimitWait]:
    names = [name for name, attempt in tuple(session.live.items()) if attempt.runtime == runtime]
    statuses = [await context.engine.inspect(name) for name in names]
    found = (_parse_wait(status.parked) for status in statuses if isinstance(status, Running) and status.parked)
    return [wait for wait in found if wait is not None]


def read_shared_wait(path: Path, now: float) -> RateLimitWait | None:
    """Read the wait that the gateways of a runtime share; None without a wait, or when it has expired."""
    try:
        wait = _parse_wait(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):  # written or removed meanwhile: the next poll reads it
        return None
    if wait is None:
        return None
    return wait if now < (wait.until if wait.until is not None else wait.since + STALE_SECONDS) else None


def _parse_wait(found: object) -> RateLimitWait | None:
    if not isinstance(found, Mapping):
        return None
    return RateLimitWait(
        kind=str(found.get("kind") or OUTAGE),
        reason=str(found.get("reason") or ""),
        since=_parse_time(found.get("since")) or 0.0,
        until=_parse_time(found.get("until")),
    )


def _parse_time(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def remove_shared_wait(path: Path) -> None:
    """Remove the shared wait, so that gateways try again at once."""
    with explain_file_errors("remove", path):
        path.unlink(missing_ok=True)


def build_parked_event(runtime: str, found: Sequence[RateLimitWait], waiting: int) -> RuntimeParked:
    """One event for all waits: a rate limit counts before an outage, the latest end before others."""
    first = next((wait for wait in found if wait.kind == RATE_LIMIT), found[0])
    ends = [wait.until for wait in found if wait.kind == first.kind and wait.until is not None]
    return RuntimeParked(
        runtime=runtime, kind=first.kind, reason=first.reason, until=max(ends, default=None), agents=waiting
    )
