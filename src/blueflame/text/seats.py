"""Words about seats."""

from __future__ import annotations

from blueflame.model.attempt import Attempt
from blueflame.text.sanitize import shorten_line

MAX_SEAT_CHARS = 160


def describe_seat(attempt: Attempt) -> str:
    """`worker-1, its domain is billing`: who makes an attempt, and why; empty for an attempt without a seat."""
    given = attempt.allocation
    return shorten_line(f"{given.seat}, {given.reason}", MAX_SEAT_CHARS) if given else ""
