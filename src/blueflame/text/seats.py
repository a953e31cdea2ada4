"""Words about seats."""

from __future__ import annotations

from blueflame.model.attempt import Attempt
from blueflame.text.format import format_attempt
from blueflame.text.sanitize import shorten_line

MAX_SEAT_CHARS = 160


def describe_seat(attempt: Attempt) -> str:
    """`worker-1, its domain is billing`: who makes an attempt, and why; empty for an attempt without a seat."""
    given = attempt.allocation
    if given is None:
        return ""
    after = f"; continues its conversation of {format_attempt(given.continues)}" if given.continues else ""
    return shorten_line(f"{given.seat}, {given.reason}{after}", MAX_SEAT_CHARS)
