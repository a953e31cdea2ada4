"""Examine a house: each repository is opened, each source and the bot are tried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from blueflame.config.house import LoadedHouse
from blueflame.doctor.environment import DoctorFinding, FindingState
from blueflame.house.core import HouseCore
from blueflame.house.repository import WatchedRepository
from blueflame.intake.source import SourceProbe
from blueflame.model.errors import BlueFlameError
from blueflame.model.suggestions import suggest
from blueflame.orchestrator.trust import require_trust

PROBE_SECONDS = 20.0


@runtime_checkable
class Probed(Protocol):
    """A source, or a face that can be tried."""

    @property
    def name(self) -> str: ...

    async def probe(self) -> SourceProbe: ...


def examine_repositories(loaded: LoadedHouse) -> Iterator[DoctorFinding]:
    if not loaded.settings.repositories:
        yield DoctorFinding("repositories", FindingState.WARNING, f"none: add one under repositories in {loaded.path}")
    roles: set[str] = set()
    for name, each in loaded.settings.repositories.items():
        try:
            project = WatchedRepository(name, loaded.find_config(each)).open_project()
            project.check()
            roles |= set(project.settings.roles)
            require_trust(project)
        except BlueFlameError as error:
            yield DoctorFinding(f"repository {name}", FindingState.BAD, str(error))
        else:
            yield DoctorFinding(f"repository {name}", FindingState.OK, str(project.repo.root))
    for role in loaded.settings.pool.roles if roles else ():
        if role not in roles:
            text = f"no repository has this role; {suggest(role, roles) or 'remove it'}"
            yield DoctorFinding(f"pool.roles.{role}", FindingState.WARNING, text)


def examine_journals(core: HouseCore) -> Iterator[DoctorFinding]:
    """Each journal of a repository is read as a whole, and has the sessions that the house knows."""
    for name, repository in core.repositories.items():
        lost = [repository.describe_loss(each.session, each.id) for each in core.state.list_of(name) if each.session]
        words = "; ".join(filter(None, (*lost, repository.find_damage())))
        yield DoctorFinding(f"journal {name}", FindingState.BAD if words else FindingState.OK, words or "sound")


def examine_sources(kinds: Mapping[str, Callable[[], Sequence[object]]]) -> list[DoctorFinding]:
    """Build what is configured of each kind, and try all at once; a kind that cannot be built hides no other."""
    probed: list[Probed] = []
    found: list[DoctorFinding] = []
    for name, build in kinds.items():
        try:
            probed += [each for each in build() if isinstance(each, Probed)]
        except BlueFlameError as error:
            found.append(DoctorFinding(name, FindingState.BAD, str(error)))
    return [*found, *asyncio.run(_probe_all(probed))]


async def _probe_all(probed: Sequence[Probed]) -> list[DoctorFinding]:
    return list(await asyncio.gather(*map(_probe, probed)))


async def _probe(each: Probed) -> DoctorFinding:
    """One that hangs is given up."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            found = await each.probe()
    except TimeoutError:
        found = SourceProbe(False, f"no reply within {PROBE_SECONDS:.0f} s: look at its address and the network")
    except BlueFlameError as error:
        found = SourceProbe(False, str(error))
    return DoctorFinding(each.name, FindingState.OK if found.works else FindingState.BAD, found.text)
