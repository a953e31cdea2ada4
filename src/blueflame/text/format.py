"""Numbers, times and names as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo


def format_count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def format_tokens(n: int) -> str:
    """9,999, 12.3k, 4.56M: for columns."""
    if n < 10_000:
        return f"{n:,}"
    return f"{n / 1e3:.1f}k" if n < 999_950 else f"{n / 1e6:,.2f}M"


def format_duration(seconds: float) -> str:
    """1.4 s, 42 s, 3 min 05 s, 2 h 07 min, 3 days 4 h."""
    if not math.isfinite(seconds):
        return "an unknown time"
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 2 * 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} days {whole % 86_400 // 3600} h"


def format_clock(seconds: float) -> str:
    """0:07, 1:06, 2:01:05: for times that count up on the screen."""
    whole = max(int(seconds), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def format_dollars(micro_usd: int, *, places: int | None = None) -> str:
    """Format with cents, and more places below a cent; or with exactly `places`, for columns."""
    if places is None:
        places = 2 if micro_usd >= 10_000 or micro_usd == 0 else 4 if micro_usd >= 100 else 6
    return f"${micro_usd / 1_000_000:.{places}f}"


def format_dollar_range(low: int, high: int, *, joint: str = "-") -> str:
    return f"{format_dollars(low, places=2)} {joint} {format_dollars(high, places=2)}"


def format_attempt(attempt: str) -> str:
    """`task-001 #2`, or `validator of task-001 #1`: an attempt's id without the session."""
    _, subject, role, n = ["", "", "", *attempt.split(".")][-4:]
    if role in ("worker", ""):
        return f"{subject} #{n}" if subject else attempt
    return f"{role} #{n}" if subject in (role, "plan") else f"{role} of {subject} #{n}"


def format_time(at: float, pattern: str, otherwise: str = "", *, zone: tzinfo | None = None) -> str:
    """In local time or that of `zone`; `otherwise` if there is no such time."""
    try:
        return f"{datetime.fromtimestamp(at, UTC).astimezone(zone):{pattern}}"
    except (ValueError, OverflowError, OSError):
        return otherwise


def format_moment(at: float) -> str:
    """`14:05:30` in local time; empty if there is no such time."""
    return format_time(at, "%H:%M:%S")


def format_until(at: float | None) -> str:
    """` until 14:05` in local time; with the date if that is not today."""
    if at is None:
        return ""
    try:
        then, today = datetime.fromtimestamp(at).astimezone(), datetime.now().astimezone().date()
    except (ValueError, OverflowError, OSError):
        return ""
    return f" until {then:%H:%M}" if then.date() == today else f" until {then:%Y-%m-%d %H:%M}"
