from __future__ import annotations

from typing import Any

import pytest

from blueflame.documents.verdicts import VerdictError, parse_verdict
from blueflame.model.verdict import Verdict, VerdictStatus


def test_a_verdict_is_read() -> None:
    data = {"status": "fail", "notes": "нет тестов", "issues": ["a", "b"], "confidence": 1}
    assert parse_verdict(data, by="validator-1") == Verdict(
        status=VerdictStatus.FAIL, notes="нет тестов", issues=("a", "b"), confidence=1.0, by="validator-1"
    )


def test_the_shortest_verdict_is_enough() -> None:
    assert parse_verdict({"status": "pass", "notes": ""}) == Verdict(status=VerdictStatus.PASS, notes="")
    assert parse_verdict({"status": "pass", "notes": "", "issues": None, "confidence": None, "mood": 1}).passed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": "PASS"}, "status"),
        ({"status": True}, "status"),
        ({"status": ["pass"]}, "status"),
        ({"status": None}, "status"),
        ({"notes": None}, "notes"),
        ({"notes": 3}, "notes"),
        ({"issues": "one"}, "issues"),
        ({"issues": [1]}, "issues"),
        ({"confidence": 1.01}, "confidence"),
        ({"confidence": -1}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"confidence": True}, "confidence"),
        ({"confidence": "0.9"}, "confidence"),
    ],
)
def test_what_is_not_clearly_a_verdict_is_an_error(change: dict[str, Any], says: str) -> None:
    with pytest.raises(VerdictError, match=f"{says} must be"):
        parse_verdict({"status": "pass", "notes": "fine"} | change)


@pytest.mark.parametrize("data", [None, "pass", ["pass"], 1, {}])
def test_what_is_no_object_is_no_verdict(data: object) -> None:
    with pytest.raises(VerdictError):
        parse_verdict(data)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(VerdictError, match=r"status.*; notes.*; issues"):
        parse_verdict({"issues": 3})
