from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.orchestrator.engine import local
from support.sessions import Stage, make_stage
from support.warden_forks import WardenForks, start_warden_forks


@pytest.fixture
def stage(repo: Path) -> Stage:
    """A repository with a configuration, ready for a script."""
    return make_stage(repo)


@pytest.fixture(scope="session")
def warden_forks() -> Iterator[WardenForks]:
    with start_warden_forks() as running:
        yield running


@pytest.fixture(autouse=True)
def forked_wardens(warden_forks: WardenForks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orchestrators in the test's own process fork their wardens."""
    monkeypatch.setattr(local, "start_detached", warden_forks.start_detached)
