"""What an agent that sizes a request may answer."""

from __future__ import annotations

import pytest

from blueflame.documents.sizes import MAX_REASON_CHARS, SizeError, parse_size
from blueflame.model.sizing import SizeAnswer, Tier


def test_a_size_is_read_and_unknown_keys_are_ignored() -> None:
    assert parse_size({"tier": 2, "reason": "one module", "mood": 1}) == SizeAnswer(
        tier=Tier.SINGLE, reason="one module"
    )


def test_a_reason_is_one_line_and_cut() -> None:
    reason = parse_size({"tier": 1, "reason": "a\nb" * 400}).reason
    assert "\n" not in reason
    assert len(reason) <= MAX_REASON_CHARS


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "2",
        {},
        {"tier": 2},
        {"tier": 2, "reason": 3},
        *({"tier": tier, "reason": "x"} for tier in ("2", 0, 4, True, 1.5, None)),
    ],
)
def test_what_is_not_a_size_is_an_error(answer: object) -> None:
    with pytest.raises(SizeError, match="tier"):
        parse_size(answer)
