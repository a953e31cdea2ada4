from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from blueflame.warden.supervise import (
    MAX_TURN_SECONDS,
    NOTICE_SECONDS,
    POLL_SECONDS,
    REPORT_SECONDS,
    SupervisedAttempt,
    compute_pause,
    describe_time_left,
    extend_limit,
    find_limit_end,
)


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


def test_no_limit_ends_an_agent_while_its_provider_is_silent_and_that_may_be_the_providers() -> None:
    assert extend_limit(100.0, None) == 100.0
    assert extend_limit(100.0, (99.0, 30.0)) == 129.0 + REPORT_SECONDS
    assert extend_limit(100.0, (20.0, 30.0)) == 100.0, "the gateway would have reported it long ago"
    assert extend_limit(100.0, (101.0, 30.0)) == 100.0, "its time was up before it asked"


def test_a_limit_waits_for_a_silence_that_may_not_be_noticed_yet() -> None:
    def find_end(gateway: object) -> float:
        return find_limit_end(cast("SupervisedAttempt", SimpleNamespace(gateway=gateway)), 100.0)

    assert find_end(None) == 100.0
    assert find_end(SimpleNamespace(quiet=None)) == 100.0 + NOTICE_SECONDS
    assert find_end(SimpleNamespace(quiet={"since": 99.0, "limit": 30.0})) == 129.0 + REPORT_SECONDS
    assert find_end(SimpleNamespace(quiet={"since": 100.5, "limit": 30.0})) == 100.0
