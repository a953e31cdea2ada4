from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.testing.bot_api import BotApi
from support.telegram_chats import ChatHouse


@pytest.fixture
def api() -> Iterator[BotApi]:
    with BotApi() as api:
        yield api


@pytest.fixture
def house(repo: Path, tmp_path: Path, api: BotApi) -> Iterator[ChatHouse]:
    found = ChatHouse(repo, tmp_path, api)
    yield found
    found.journal.close()
