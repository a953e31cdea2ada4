from __future__ import annotations

import pytest
from pydantic import ValidationError

from blueflame.model.settings import MemorySettings
from blueflame.model.settings.mirrors import find_address_problem


@pytest.mark.parametrize(
    "text",
    [
        "redis://localhost",
        "redis://host:6379/1",
        "rediss://[::1]:6380",
        "unix:///run/redis.sock?db=1",
        "env:TEAM_REDIS",
    ],
)
def test_an_address_or_a_variable_is_accepted(text: str) -> None:
    assert MemorySettings(mirrors=(text,)).mirrors == (text,)


@pytest.mark.parametrize(
    "text",
    [
        "redis://",
        "http://host",
        "redis://host/0?socket_timeout=9",
        "redis://host\n",
        "unix://relative",
        "env:",
        "env:A B",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="is not the address of a server"):
        MemorySettings(mirrors=(text,))


@pytest.mark.parametrize("text", ["redis://:word@host", "rediss://me:word@host/0", "unix://me:word@/run/s"])
def test_a_password_is_for_the_environment_only(text: str) -> None:
    with pytest.raises(ValidationError, match="has a user or a password"):
        MemorySettings(mirrors=(text,))
    assert find_address_problem(text, secret=True) == ""
