"""The real binary, once per run of the tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.claude_cli import ClaudeRunner, find_binary
from support.closed_network import closed_network, explain_unavailable


@pytest.fixture(scope="session")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClaudeRunner]:
    if find_binary() is None:
        pytest.skip("the claude binary is not installed; `pip install blueflame[dev]` brings it")
    if explain_unavailable():
        pytest.skip(f"no closed network: {explain_unavailable()}")
    with closed_network() as network:
        yield ClaudeRunner(network, tmp_path_factory.mktemp)
