from __future__ import annotations

from pathlib import Path

import pytest

from support.sessions import Stage, make_stage


@pytest.fixture
def stage(repo: Path) -> Stage:
    """A repository with a configuration, ready for a script."""
    return make_stage(repo)


@pytest.fixture(autouse=True)
def fast_wardens(forked_wardens: None) -> None:
    """Starting wardens is not what these tests are about."""
