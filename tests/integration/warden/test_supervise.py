from __future__ import annotations

import pytest

from blueflame.warden.supervise import MAX_TURN_SECONDS, POLL_SECONDS, compute_pause, describe_time_left


@pytest.mark.parametrize(
    ("left", "timeout", "words"),
    [
        (361.0, 1800.0, ""),
        (360.0, 1800.0, "About 6 of your 30 minutes are left."),
        (5.0, 1800.0, "About 1 of your 30 minutes are left."),
        (1.0, 30.0, ""),
    ],
)
def test_an_agent_is_warned_when_a_fifth_of_its_time_is_left(left: float, timeout: float, words: str) -> None:
    assert describe_time_left(left, timeout) == words


def test_only_a_turn_that_took_far_too_long_was_a_pause() -> None:
    assert compute_pause(POLL_SECONDS) == 0
    assert compute_pause(MAX_TURN_SECONDS) == 0
    assert compute_pause(3600) == 3600 - POLL_SECONDS
