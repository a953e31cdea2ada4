"""Quiet hours: over midnight, by weekday, when clocks are set forward and back."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.dispatch.quiet_hours import add_waking_time, find_quiet_end
from blueflame.model.settings.chat import DAYS, QuietHours

BERLIN = "Europe/Berlin"
NIGHT = QuietHours(begin="22:00", end="07:00", timezone=BERLIN)
HOUR = 3600.0


def find_moment(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


@pytest.mark.parametrize(
    ("now", "ends"),
    [
        ("2026-11-17T21:59", None),
        ("2026-11-17T22:00", "2026-11-18T07:00"),
        ("2026-11-18T03:00", "2026-11-18T07:00"),
        ("2026-11-18T07:00", None),
        ("2026-11-18T12:00", None),
    ],
)
def test_a_night_begins_in_the_evening_and_ends_in_the_morning(now: str, ends: str | None) -> None:
    assert find_quiet_end([NIGHT], find_moment(now)) == (find_moment(ends) if ends else None)


def test_the_morning_after_a_listed_day_is_quiet_and_the_evening_of_the_next_is_not() -> None:
    friday = QuietHours(begin="22:00", end="07:00", days=("fri",), timezone=BERLIN)

    assert find_quiet_end([friday], find_moment("2026-11-21T06:00")) == find_moment("2026-11-21T07:00")
    assert find_quiet_end([friday], find_moment("2026-11-20T06:00")) is None
    assert find_quiet_end([friday], find_moment("2026-11-21T23:00")) is None


def test_a_night_with_clocks_set_forward_has_an_hour_less() -> None:
    begin = find_moment("2026-03-28T22:00")

    assert find_quiet_end([NIGHT], begin) == begin + 8 * HOUR


def test_a_night_with_clocks_set_back_has_an_hour_more() -> None:
    begin = find_moment("2026-10-24T22:00")

    assert find_quiet_end([NIGHT], begin) == begin + 10 * HOUR


def test_a_time_that_comes_twice_is_quiet_both_times() -> None:
    hours = QuietHours(begin="02:15", end="02:45", timezone=BERLIN)

    ends = find_moment("2026-10-25T02:45", fold=1)
    assert find_quiet_end([hours], find_moment("2026-10-25T02:20")) == ends
    assert find_quiet_end([hours], find_moment("2026-10-25T02:20", fold=1)) == ends


def test_a_time_that_does_not_exist_is_taken_an_hour_later() -> None:
    hours = QuietHours(begin="02:15", end="02:45", timezone=BERLIN)

    assert find_quiet_end([hours], find_moment("2026-03-29T03:20")) == find_moment("2026-03-29T03:45")


def test_periods_that_touch_are_one() -> None:
    early = QuietHours(begin="07:00", end="09:00", timezone=BERLIN)
    elsewhere = QuietHours(begin="07:30", end="08:30", timezone="UTC")  # until 09:30 in Berlin

    ends = find_quiet_end([early, elsewhere, NIGHT], find_moment("2026-11-17T23:00"))
    assert ends == find_moment("2026-11-18T09:30")


def test_equal_times_are_a_whole_day() -> None:
    sunday = QuietHours(begin="00:00", end="00:00", days=("sun",), timezone=BERLIN)

    assert find_quiet_end([sunday], find_moment("2026-11-22T12:00")) == find_moment("2026-11-23T00:00")
    assert find_quiet_end([sunday], find_moment("2026-11-23T00:00")) is None


def test_time_does_not_pass_in_quiet_hours() -> None:
    assert add_waking_time([NIGHT], find_moment("2026-11-17T21:30"), HOUR) == find_moment("2026-11-18T07:30")
    assert add_waking_time([NIGHT], find_moment("2026-11-17T23:30"), HOUR) == find_moment("2026-11-18T08:00")
    assert add_waking_time([NIGHT], find_moment("2026-11-17T12:00"), HOUR) == find_moment("2026-11-17T13:00")
    assert add_waking_time([], 100.0, 5.0) == 105.0


def test_quiet_for_ever_ends_the_search() -> None:
    always = QuietHours(begin="00:00", end="00:00")

    ends = find_quiet_end([always], find_moment("2026-11-17T12:00"))
    assert ends is not None and ends > find_moment("2027-11-17T12:00")


@given(
    begin=st.times().map(lambda at: f"{at:%H:%M}"),
    end=st.times().map(lambda at: f"{at:%H:%M}"),
    days=st.lists(st.sampled_from(DAYS), min_size=1, max_size=6, unique=True),
    zone=st.sampled_from((BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia")),
    start=st.integers(1_700_000_000, 1_900_000_000),
    seconds=st.integers(0, 14 * 86_400),
)
def test_what_is_due_is_never_in_quiet_hours_nor_early(
    *, begin: str, end: str, days: list[str], zone: str, start: int, seconds: int
) -> None:
    hours = [QuietHours.model_validate({"begin": begin, "end": end, "days": days, "timezone": zone})]

    due = add_waking_time(hours, start, seconds)
    assert due >= start + seconds
    assert find_quiet_end(hours, due) is None
