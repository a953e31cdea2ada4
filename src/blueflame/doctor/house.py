"""Examine a house: each repository is opened, each source and the bot are tried."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from blueflame.config.house import LoadedHouse
from blueflame.doctor.environment import DoctorFinding, FindingState
from blueflame.intake.source import SourceProbe
from blueflame.model.errors import BlueFlameError
from blueflame.orchestrator.project import Project
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
    for name, each in loaded.settings.repositories.items():
        yield _examine_repository(name, Project(loaded.find_config(each)))


def _examine_repository(name: str, project: Project) -> DoctorFinding:
    try:
        project.check()
        require_trust(project)
    except BlueFlameError as error:
        return DoctorFinding(f"repository {name}", FindingState.BAD, str(error))
    return DoctorFinding(f"repository {name}", FindingState.OK, str(project.repo.root))


def examine_sources(probed: Sequence[Probed]) -> list[DoctorFinding]:
    """Try all at once; one that hangs is given up."""
    return asyncio.run(_probe_all(probed))


async def _probe_all(probed: Sequence[Probed]) -> list[DoctorFinding]:
    return list(await asyncio.gather(*map(_probe, probed)))


async def _probe(each: Probed) -> DoctorFinding:
    try:
        found = await asyncio.wait_for(each.probe(), PROBE_SECONDS)
    except TimeoutError:
        found = SourceProbe(False, f"no reply within {PROBE_SECONDS:.0f} s: look at its address and the network")
    except BlueFlameError as error:
        found = SourceProbe(False, str(error))
    return DoctorFinding(each.name, FindingState.OK if found.works else FindingState.BAD, found.text)
