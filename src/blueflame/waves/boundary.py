"""The boundary between waves: the base is pinned anew, and the configuration is looked at again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from blueflame.model.errors import BlueFlameError, ConfigError
from blueflame.model.event import ConfigDrifted, CycleStarted, Event, WaveStarted
from blueflame.rules.next_steps import CrossBoundary
from blueflame.rules.session import Session
from blueflame.rules.settings import differences, limits_of
from blueflame.tools.git.repository import head_of
from blueflame.waves.flame import Emit, Flame


async def cross_boundary(flame: Flame, session: Session, effect: CrossBoundary, _emit: Emit) -> Sequence[Event]:
    drift = await asyncio.to_thread(_drift, flame, session)
    if drift is not None:
        return [drift]
    if effect.stage:
        return [WaveStarted(cycle=effect.cycle, stage=effect.stage)]
    base = await asyncio.to_thread(head_of, flame.repo, session.base_branch)
    return [CycleStarted(cycle=effect.cycle, base_sha=base)]


def _drift(flame: Flame, session: Session) -> ConfigDrifted | None:
    """None while the file says what the session runs with, or says what a person has already looked at."""
    try:
        loaded = flame.read_config()
        limits = limits_of(loaded.settings, session.workflow.name)
    except ConfigError as error:
        return _unusable(session, error.problems)
    except BlueFlameError as error:
        return _unusable(session, (str(error),))
    if loaded.digest == session.config_digest or loaded.digest in session.drift_kept:
        return None
    return ConfigDrifted(digest=loaded.digest, changes=differences(flame.settings, loaded.settings), limits=limits)


def _unusable(session: Session, problems: tuple[str, ...]) -> ConfigDrifted | None:
    if "" in session.drift_kept:
        return None
    return ConfigDrifted(digest="", changes=problems, limits=session.limits)
