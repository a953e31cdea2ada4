"""The boundary between waves: the base is pinned anew, and the configuration is looked at again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from blueflame.model.errors import BlueFlameError, ConfigError, WorldError
from blueflame.model.event import ConfigDrifted, CycleStarted, Event, WaveStarted
from blueflame.model.settings import Settings
from blueflame.rules.next_steps import CrossBoundary
from blueflame.rules.session import Session
from blueflame.rules.settings import differences, limits_of
from blueflame.tools.config import digest_of, digest_of_resolved, resolved_json
from blueflame.tools.files import write_whole
from blueflame.tools.git.repository import head_of
from blueflame.tools.places import Places, make_folder
from blueflame.waves.flame import Emit, Flame


async def cross_boundary(flame: Flame, session: Session, effect: CrossBoundary, _emit: Emit) -> Sequence[Event]:
    drift = await asyncio.to_thread(_drift, flame, session)
    if drift is not None:
        return [drift]
    if effect.stage:
        return [WaveStarted(cycle=effect.cycle, stage=effect.stage)]
    base = await asyncio.to_thread(head_of, flame.repo, session.base_branch)
    return [CycleStarted(cycle=effect.cycle, base_sha=base)]


def keep_settings(places: Places, session: str, settings: Settings) -> None:
    """By their digest, so that what a person agreed to can be found again, whatever the file says by then."""
    path = places.session_config(session, digest_of(settings))
    make_folder(path.parent)
    write_whole(path, resolved_json(settings))


def kept_settings(places: Places, session: str, digest: str) -> Settings | None:
    """None when they are not there; damaged ones are an error, not a reason to take others."""
    path = places.session_config(session, digest)
    try:
        text = path.read_text(encoding="utf-8")
        if digest_of_resolved(text) != digest:
            raise WorldError(f"{path} is not the session's configuration any more: it was changed; remove it to go on")
        return Settings.model_validate_json(text)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise WorldError(f"{path} no longer holds the session's configuration ({error}); remove it to go on") from error


def _drift(flame: Flame, session: Session) -> ConfigDrifted | None:
    """None while the file says what the session runs with, or says what a person has already looked at."""
    try:
        loaded = flame.read_config()
        scripted = "scripted" in session.limits.role_runtimes.values()
        talks = session.limits.interactive_planning
        limits = limits_of(loaded.settings, session.workflow.name, scripted=scripted, interactive=talks)
        limits = replace(limits, figures=session.limits.figures)
        flame.make_runtimes(loaded.settings)
    except ConfigError as error:
        return _unusable(session, error.problems)
    except BlueFlameError as error:
        return _unusable(session, (str(error),))
    if loaded.digest == session.config_digest or loaded.digest in session.drift_kept:
        return None
    keep_settings(flame.places, session.id, loaded.settings)
    return ConfigDrifted(digest=loaded.digest, changes=differences(flame.settings, loaded.settings), limits=limits)


def _unusable(session: Session, problems: tuple[str, ...]) -> ConfigDrifted | None:
    if "" in session.drift_kept:
        return None
    return ConfigDrifted(digest="", changes=problems, limits=session.limits)
