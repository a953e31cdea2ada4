from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.repositories import GIT_IDENTITY, make_repository
from support.sessions import Stage, make_stage


@pytest.fixture
def stage(repo: Path) -> Stage:
    """A repository with a configuration, ready for a script."""
    return make_stage(repo)


@pytest.fixture(scope="module")
def lasting_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One stage for all tests of a module, which check the same session."""
    home = tmp_path_factory.mktemp("home")
    calm = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BLUEFLAME_CONFIG", raising=False)
        for name, value in {**GIT_IDENTITY, **calm}.items():
            patch.setenv(name, value)
        yield make_stage(make_repository(tmp_path_factory.mktemp("stage") / "мой repo"))


@pytest.fixture(autouse=True)
def fast_wardens(forked_wardens: None) -> None:
    """Starting wardens is not what these tests are about."""
