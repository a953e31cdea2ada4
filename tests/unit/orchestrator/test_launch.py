from __future__ import annotations

from blueflame.orchestrator.attempts.launch import compute_silence


def test_a_silence_of_the_provider_is_its_own_before_it_counts_against_the_agent() -> None:
    assert compute_silence(1800.0, 0.0) == 450.0
    assert compute_silence(1800.0, 60.0) == 30.0
    assert compute_silence(40.0, 60.0) == 10.0
    assert compute_silence(0.0, 60.0) == 30.0
    assert compute_silence(0.0, 0.0) == 0.0
