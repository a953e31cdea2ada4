from __future__ import annotations

import pytest

from blueflame.warden.supervise import describe_time_left


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
