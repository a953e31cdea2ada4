"""The real binary, once per run of the tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.claude_cli import Claude, binary
from support.closed_network import closed_network, why_not


@pytest.fixture(scope="session")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Claude]:
    if binary() is None:
        pytest.skip("the claude binary is not installed; `pip install blueflame[dev]` brings it")
    if why_not():
        pytest.skip(f"no closed network: {why_not()}")
    with closed_network() as network:
        yield Claude(network, tmp_path_factory.mktemp)
