"""When schedules are due, over clock changes, missed times and clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blueflame.dispatch.schedules import NEVER, Schedule, find_due_time, find_next_time

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo = BERLIN, *, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


def list_times(cron: str, zone: str, start: float, end: float) -> list[float]:
    times: list[float] = []
    while (start := find_next_time(cron, zone, start)) <= end:
        times.append(start)
    return times


def test_a_time_in_the_spring_gap_runs_once_that_day_at_the_next_time_that_exists() -> None:
    times = list_times("30 2 * * *", "Europe/Berlin", at("2026-03-28 12:00"), at("2026-03-30 12:00"))
    assert times == [at("2026-03-29 03:00"), at("2026-03-30 02:30")]


def test_a_time_in_the_autumn_fold_runs_once() -> None:
    times = list_times("30 2 * * *", "Europe/Berlin", at("2026-10-24 12:00"), at("2026-10-26 12:00"))
    assert times == [at("2026-10-25 02:30"), at("2026-10-26 02:30")]


def test_within_the_fold_the_next_time_is_later_and_the_last_one_is_known() -> None:
    now = at("2026-10-25 02:23", fold=1)  # after 02:30 of summer time
    daily = Schedule(cron="30 2 * * *", zone="Europe/Berlin")
    assert find_next_time(daily.cron, daily.zone, now) == at("2026-10-26 02:30")
    assert find_due_time(daily, until=at("2026-10-24 12:00"), now=now).at == at("2026-10-25 02:30")


def test_an_hourly_schedule_runs_25_times_on_the_long_day_and_23_times_on_the_short_one() -> None:
    for day, after, hours in (("2026-10-25", "2026-10-26", 25), ("2026-03-29", "2026-03-30", 23)):
        start, end = at(f"{day} 00:00") - 1, at(f"{after} 00:00") - 1
        assert len(list_times("0 * * * *", "Europe/Berlin", start, end)) == hours


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("@hourly", "2026-05-05 11:00"),
        ("@daily", "2026-05-06 00:00"),
        ("@midnight", "2026-05-06 00:00"),
        ("@weekly", "2026-05-10 00:00"),
        ("@monthly", "2026-06-01 00:00"),
        ("@yearly", "2027-01-01 00:00"),
    ],
)
def test_the_six_names_mean_what_cron_means(name: str, expected: str) -> None:
    assert find_next_time(name, "Europe/Berlin", at("2026-05-05 10:20")) == at(expected)


def test_a_missed_time_is_made_up_for_once_or_skipped() -> None:
    until, now = at("2026-05-01 06:00"), at("2026-05-04 12:00")  # off for three days
    once = find_due_time(Schedule(cron="0 6 * * *", zone="Europe/Berlin"), until=until, now=now)
    assert (once.at, once.until, once.skipped) == (at("2026-05-04 06:00"), at("2026-05-04 06:00"), None)
    skip = find_due_time(Schedule(cron="0 6 * * *", zone="Europe/Berlin", missed="skip"), until=until, now=now)
    assert (skip.at, skip.until, skip.skipped) == (None, at("2026-05-04 06:00"), at("2026-05-04 06:00"))


def test_a_time_a_minute_ago_is_on_time_also_where_missed_ones_are_skipped() -> None:
    schedule = Schedule(cron="0 6 * * *", zone="UTC", missed="skip")
    now = at("2026-05-04 06:01", ZoneInfo("UTC"))
    assert find_due_time(schedule, until=now - 3600, now=now).at == now - 60


def test_a_clock_that_was_in_another_year_does_not_silence_a_schedule() -> None:
    schedule = Schedule(cron="* * * * *", zone="UTC")
    now = at("2026-05-04 06:00", ZoneInfo("UTC"))
    due = find_due_time(schedule, until=now + 400 * 86_400, now=now)
    assert (due.at, due.until) == (None, now)
    assert find_due_time(schedule, until=due.until, now=now + 60).at == now + 60


def test_a_date_that_never_comes_is_never() -> None:
    assert find_next_time("0 0 */31 2 1#5", "UTC", 0) == NEVER  # the first of February, and the fifth Monday
    schedule = Schedule(cron="0 0 */31 2 1#5", zone="UTC")
    assert find_due_time(schedule, until=0, now=2e9).at is None


CRONS = st.sampled_from(["30 2 * * *", "*/30 * * * *", "0 * * * *", "*/7 2 * * *", "30 2,3 * * 0", "15 */2 * * *"])
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
STARTS = st.sampled_from([datetime(2026, month, 20, tzinfo=UTC).timestamp() for month in (2, 3, 4, 9, 10)])


@given(CRONS, ZONES, STARTS, st.lists(st.floats(-3_000, 200_000), max_size=12), st.sampled_from(["once", "skip"]))
@example("30 2 * * *", "Europe/Berlin", datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp(), [9e3, 1.8e3, 3.6e3], "once")
def test_no_time_is_due_twice_and_none_before_it_comes(
    cron: str, zone: str, start: float, waits: list[float], missed: str
) -> None:
    """Whatever the clock does between two looks."""
    schedule = Schedule(cron=cron, zone=zone, missed="once" if missed == "once" else "skip")
    now, until, seen = start, start, set[float]()
    for wait in waits:
        now += wait
        due = find_due_time(schedule, until=until, now=now)
        until = due.until
        if due.at is not None:
            assert start < due.at <= now
            assert due.at not in seen
            assert find_next_time(cron, zone, due.at - 1) == due.at
            seen.add(due.at)


@settings(max_examples=20)
@given(CRONS, ZONES, STARTS)
def test_looking_each_minute_finds_every_time(cron: str, zone: str, start: float) -> None:
    schedule, found, until = Schedule(cron=cron, zone=zone, missed="skip"), [], start
    for minute in range(1, 60 * 3):
        due = find_due_time(schedule, until=until, now=start + 60.0 * minute)
        until = due.until
        found += [due.at] if due.at is not None else []
    assert found == list_times(cron, zone, start, start + 60.0 * (60 * 3 - 1))
