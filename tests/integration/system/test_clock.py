from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from blueflame.system.clock import find_local_day


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("moment", "midnight"),
    [
        ("2026-11-16T00:00:00+01:00", "2026-11-16T00:00:00+01:00"),
        ("2026-11-16T23:59:59+01:00", "2026-11-16T00:00:00+01:00"),
        ("2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00"),  # clocks went forward that night
        ("2026-10-25T12:00:00+01:00", "2026-10-25T00:00:00+02:00"),
    ],
)
def test_a_day_begins_at_midnight_where_the_machine_is(moment: str, midnight: str) -> None:
    day = find_local_day(datetime.fromisoformat(moment).timestamp())
    assert day.date == moment[:10]
    assert day.began_at == datetime.fromisoformat(midnight).timestamp()
