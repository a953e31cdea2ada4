from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def fast_wardens(forked_wardens: None) -> None:
    """Starting wardens is not what these tests are about."""
