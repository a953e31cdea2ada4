from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.session import environment
from support.repositories import GIT_IDENTITY, copy_repository, make_repository
from support.sessions import Stage, find_stage, make_stage


@pytest.fixture(scope="session")
def configured_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that `stage` copies, its configuration committed."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**GIT_IDENTITY, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}.items():
            patch.setenv(name, value)
        return make_stage(make_repository(tmp_path_factory.mktemp("configured") / "repo")).root


@pytest.fixture
def stage(configured_repository: Path, tmp_path: Path) -> Stage:
    """A repository with a configuration, ready for a script."""
    return find_stage(copy_repository(configured_repository, tmp_path / "мой repo"))


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is tried again at once, instead of after seconds."""
    monkeypatch.setattr(environment, "FIRST_WAIT_SECONDS", 0.01)


@pytest.fixture(autouse=True)
def fast_wardens(forked_wardens: None) -> None:
    """Starting wardens is not what these tests are about."""
