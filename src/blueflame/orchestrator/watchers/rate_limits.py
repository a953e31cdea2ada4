"""Find out whether a runtime's model is available, from the gateways' status and the file that they share.

Nothing is kept in memory: after a crash the next orchestrator reads the same files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blueflame.model.event import Event, RuntimeParked, RuntimeResumed
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.engine.interface import Running
from blueflame.session.effects import AwaitRuntime
from blueflame.session.rate_limits import OUTAGE, RATE_LIMIT
from blueflame.session.state import Session
from blueflame.system.files import build_file_error

POLL_SECONDS = 1.0  # seconds
RETRY_SECONDS = 5.0  # seconds
STALE_SECONDS = 60.0  # a shared wait without an end expires, when no agent waits


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
        resting = parked.outages > 0 and parked.until is not None and now < parked.until
        if not resting and not await find_waits(context, session, effect.runtime, now):
            remove_shared_wait(context.paths.parked(effect.runtime))
            return [RuntimeResumed(runtime=effect.runtime, reason=_format_end(parked))]
        await context.clock.sleep(POLL_SECONDS)
    return []


def _format_end(parked: RuntimeParked) -> str:
    return "the rest is over" if parked.outages else "no agent waits for it any more"


async def find_waits(context: SessionContext, session: Session, runtime: str, now: float) -> list[RateLimitWait]:
    """What holds the runtime up: what its agents say, else the word that one of them has left.

    Right after a person chose to retry, nothing does: waiting agents need a moment to try.
    """
    if 0 <= now - session.tried_at.get(runtime, float("-inf")) < RETRY_SECONDS:
        return []
    shared = read_shared_wait(context.paths.parked(runtime), now)
    return await _find_agent_waits(context, session, runtime) or ([shared] if shared is not None else [])


async def _find_agent_waits(context: SessionContext, session: Session, runtime: str) -> list[RateLimitWait]:
    names = [name for name, attempt in tuple(session.live.items()) if attempt.runtime == runtime]
    standings = [await context.engine.inspect(name) for name in names]
    found = (
        _parse_wait(standing.parked) for standing in standings if isinstance(standing, Running) and standing.parked
    )
    return [park for park in found if park is not None]


def read_shared_wait(path: Path, now: float) -> RateLimitWait | None:
    """The word that the gateways of a runtime share; None when there is none, or when its time is over."""
    try:
        park = _parse_wait(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):  # it is written and removed while we look; the next look is soon
        return None
    if park is None:
        return None
    return park if now < (park.until if park.until is not None else park.since + STALE_SECONDS) else None


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
    """So that gateways try again now."""
    try:
        path.unlink(missing_ok=True)
    except OSError as e:
        raise build_file_error("remove", path, e) from e


def build_parked_event(runtime: str, found: Sequence[RateLimitWait], waiting: int) -> RuntimeParked:
    """One for all who wait: the provider's word goes before a failing connection, the latest end before others."""
    first = next((park for park in found if park.kind == RATE_LIMIT), found[0])
    return RuntimeParked(
        runtime=runtime, kind=first.kind, reason=first.reason, until=_find_latest_end(found, first.kind), agents=waiting
    )


def _find_latest_end(found: Iterable[RateLimitWait], kind: str) -> float | None:
    return max((park.until for park in found if park.kind == kind and park.until is not None), default=None)
