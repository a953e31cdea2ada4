"""Requests at set times, with a clock that the test advances."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.intake.registry import build_sources
from blueflame.intake.schedules import ScheduleSource
from blueflame.model.errors import Refused
from blueflame.model.house.arrival import Trust
from blueflame.model.settings.sources import SourceSettings
from blueflame.testing.clock import FakeClock
from support.intakes import Killed, KilledDesk, build_source_context, open_intake

START = datetime(2026, 5, 4, 5, 0, tzinfo=UTC).timestamp()


def build_schedule(clock: FakeClock, **changes: object) -> ScheduleSource:
    entry = {"name": "nightly", "cron": "0 6 * * *", "request": "Update the dependencies", "repository": "app"}
    configured = SourceSettings.model_validate({"schedules": [entry | changes], "plans": {"enabled": False}})
    (source,) = build_sources(configured, build_source_context(clock))
    assert isinstance(source, ScheduleSource)
    return source


def step(source: ScheduleSource, intake: KilledDesk) -> float:
    return asyncio.run(source.step(intake))


def test_a_request_is_made_at_its_time_by_the_owner_of_the_house() -> None:
    clock, intake = FakeClock(START), open_intake()
    source = build_schedule(clock)
    assert step(source, intake) == 3600
    assert intake.requests == []
    clock.advance(3601)
    step(source, intake)
    (request,) = intake.requests
    assert request.text == "Update the dependencies"
    assert (request.repository, request.sender.trust, request.sender.address) == (
        "app",
        Trust.OWNER,
        "schedule:nightly",
    )
    assert request.key == "nightly@2026-05-04T06:00:00+00:00"


def test_a_run_that_has_not_ended_makes_the_next_one_skipped_and_reported() -> None:
    clock, intake = FakeClock(START), open_intake()
    source = build_schedule(clock)
    step(source, intake)
    clock.advance(3600)
    step(source, intake)
    clock.advance(86_400)
    step(source, intake)
    assert [request.key for request in intake.requests] == ["nightly@2026-05-04T06:00:00+00:00"]
    assert intake.warnings[0][1].startswith("skipped at 2026-05-05 06:00 UTC: the request of nightly@2026-05-04")
    intake.end_all()
    clock.advance(86_400)
    step(source, intake)
    assert len(intake.requests) == 2


def test_a_missed_time_is_skipped_where_the_person_wants_it() -> None:
    clock, intake = FakeClock(START), open_intake()
    source = build_schedule(clock, missed="skip")
    step(source, intake)
    clock.advance(3 * 86_400)
    step(source, intake)
    assert intake.requests == []
    assert intake.warnings == [("schedules/nightly", "missed at 2026-05-06 06:00 UTC: the house did not run; skipped")]


def test_a_changed_expression_does_not_make_up_for_times_before_the_change() -> None:
    clock, intake = FakeClock(START), open_intake()
    step(build_schedule(clock), intake)
    clock.advance(2 * 3600)
    step(build_schedule(clock), intake)
    assert len(intake.requests) == 1
    clock.advance(3 * 3600)
    step(build_schedule(clock, cron="0 9 * * *"), intake)  # it is 10 o'clock
    assert len(intake.requests) == 1


def test_the_source_waits_for_its_time_and_wakes_each_minute() -> None:
    async def play() -> int:
        clock, intake = FakeClock(START), open_intake()
        task = asyncio.create_task(build_schedule(clock).run(intake))
        for _ in range(61):
            await asyncio.sleep(0)
            assert clock.next_deadline is not None
            assert clock.next_deadline - clock.now() <= 60
            clock.advance(60)
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return len(intake.requests)

    assert asyncio.run(play()) == 1


def test_without_the_library_schedules_are_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(Refused, match=r"pip install 'blueflame\[schedules\]'"):
        build_schedule(FakeClock(START))


def test_the_probe_names_the_next_time() -> None:
    probe = asyncio.run(build_schedule(FakeClock(START), zone="Europe/Berlin").probe())
    assert probe.works
    assert probe.text == "next at 2026-05-05 06:00 CEST"


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 200_000), st.integers(0, 2)), max_size=12))
def test_killed_at_any_moment_each_time_is_requested_at_most_once(steps: list[tuple[float, int]]) -> None:
    clock, intake = FakeClock(START), open_intake()
    step(build_schedule(clock), intake)
    for wait, transactions in steps:
        clock.advance(wait)
        intake.dies_in = transactions
        with suppress(Killed):
            step(build_schedule(clock), intake)
        intake.end_all()
    intake.dies_in = None
    step(build_schedule(clock), intake)
    keys = [request.key for request in intake.requests]
    assert len(set(keys)) == len(keys)
    assert all(key.endswith("T06:00:00+00:00") for key in keys)
    last = datetime.fromtimestamp(clock.now() - 6 * 3600, UTC).replace(hour=6, minute=0, second=0, microsecond=0)
    if last.timestamp() > START:  # it was not lost
        assert keys[-1] == f"nightly@{last.isoformat()}"
