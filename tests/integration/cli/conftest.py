from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def fast_starts(forked_commands: None) -> None:
    """Starting Python is not what these tests are about."""
