"""Journals of houses for the tests of sources, closed after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.intakes import OPENED, OpenedIntakes


@pytest.fixture(autouse=True)
def opened_intakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    opened = OpenedIntakes(tmp_path_factory.mktemp("journals"))
    token = OPENED.set(opened)
    yield
    opened.close()
    OPENED.reset(token)
