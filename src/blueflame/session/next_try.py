"""When something that failed is tried again: not before a moment that is in the journal.

So a wait survives a crash: who continues the session waits only for the rest of it.
"""

from __future__ import annotations

from hashlib import sha256

JITTER = 0.25  # of a wait: sessions that failed together do not all try again together


def compute_wait(times: int, name: str, *, first: float, most: float) -> float:
    """Compute the wait in seconds: doubled each time, plus jitter derived from the name of what waits."""
    share = sha256(name.encode()).digest()[0] / 255
    return min(most, first * 2.0 ** min(times - 1, 10)) * (1 + JITTER * share)


def is_due(until: float, now: float, *, most: float) -> bool:
    """Whether to try again; also when the clock was set back, so that the wait would be longer than any."""
    return now >= until or until - now > 2 * most
