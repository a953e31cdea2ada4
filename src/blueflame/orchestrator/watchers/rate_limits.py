"""Looks whether a runtime's model can be had: what gateways say of themselves, and the word they leave for each other.

Nothing is remembered here: after a crash the next orchestrator sees the same files and comes to the same conclusion.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blueflame.model.event import Event, RuntimeParked, RuntimeResumed
from blueflame.orchestrator.context import Emit, Flame
from blueflame.orchestrator.engine.interface import Running
from blueflame.session.decide import AwaitRuntime
from blueflame.session.rate_limits import OUTAGE, RATE_LIMIT
from blueflame.session.state import Session
from blueflame.system.files import trouble

LOOK = 1.0  # seconds
TRYING = 5.0  # seconds
STALE = 60.0  # seconds after which a word that names no end counts for nothing, when nobody waits because of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Why somebody waits, as a gateway said it."""

    kind: str
    reason: str
    since: float
    until: float | None = None


async def await_runtime(flame: Flame, session: Session, effect: AwaitRuntime, _emit: Emit) -> Sequence[Event]:
    while (parked := session.parked.get(effect.runtime)) is not None:
        now = flame.clock.now()
        resting = parked.outages > 0 and parked.until is not None and now < parked.until
        if not resting and not await parks(flame, session, effect.runtime, now):
            forget(flame.places.parked(effect.runtime))
            return [RuntimeResumed(runtime=effect.runtime, reason=_over(parked))]
        await flame.clock.sleep(LOOK)
    return []


def _over(parked: RuntimeParked) -> str:
    return "the rest is over" if parked.outages else "no agent waits for it any more"


async def parks(flame: Flame, session: Session, runtime: str, now: float) -> list[Park]:
    """What holds the runtime up: what its agents say, else the word that one of them has left.

    Right after a person said to try now, nothing does: those who wait need a moment to try.
    """
    if 0 <= now - session.tried_at.get(runtime, float("-inf")) < TRYING:
        return []
    shared = read_park(flame.places.parked(runtime), now)
    return await _of_agents(flame, session, runtime) or ([shared] if shared is not None else [])


async def _of_agents(flame: Flame, session: Session, runtime: str) -> list[Park]:
    names = [name for name, attempt in tuple(session.live.items()) if attempt.runtime == runtime]
    standings = [await flame.engine.inspect(name) for name in names]
    found = (_park(standing.parked) for standing in standings if isinstance(standing, Running) and standing.parked)
    return [park for park in found if park is not None]


def read_park(path: Path, now: float) -> Park | None:
    """The word that the gateways of a runtime share; None when there is none, or when its time is over."""
    try:
        park = _park(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):  # it is written and removed while we look; the next look is soon
        return None
    if park is None:
        return None
    return park if now < (park.until if park.until is not None else park.since + STALE) else None


def _park(found: object) -> Park | None:
    if not isinstance(found, Mapping):
        return None
    return Park(
        kind=str(found.get("kind") or OUTAGE),
        reason=str(found.get("reason") or ""),
        since=_moment(found.get("since")) or 0.0,
        until=_moment(found.get("until")),
    )


def _moment(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def forget(path: Path) -> None:
    """So that gateways try again now."""
    try:
        path.unlink(missing_ok=True)
    except OSError as e:
        raise trouble("remove", path, e) from e


def parked_event(runtime: str, found: Sequence[Park], waiting: int) -> RuntimeParked:
    """One for all who wait: the provider's word goes before a failing connection, the latest end before others."""
    first = next((park for park in found if park.kind == RATE_LIMIT), found[0])
    return RuntimeParked(
        runtime=runtime, kind=first.kind, reason=first.reason, until=_latest(found, first.kind), agents=waiting
    )


def _latest(found: Iterable[Park], kind: str) -> float | None:
    return max((park.until for park in found if park.kind == kind and park.until is not None), default=None)
