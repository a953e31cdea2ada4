"""Parses a reviewer's answer strictly: what is not clearly a verdict is an error."""

from __future__ import annotations

from collections.abc import Mapping

from blueflame.documents.hand_offs import is_confidence
from blueflame.model.errors import WorldError
from blueflame.model.verdict import Verdict, VerdictStatus


class VerdictError(WorldError):
    """The answer breaks VERDICT_SCHEMA; the message names every problem."""


def parse_verdict(data: object, by: str = "") -> Verdict:
    """Unknown keys are ignored; a wrong or missing required key is an error, never a pass."""
    problems = _find_problems(data)
    if problems or not isinstance(data, Mapping):
        raise VerdictError(f"the verdict cannot be read: {'; '.join(problems)}")
    confidence = data.get("confidence")
    return Verdict(
        status=VerdictStatus(data["status"]),
        notes=data["notes"],
        issues=tuple(data.get("issues") or ()),
        confidence=None if confidence is None else float(confidence),
        by=by,
    )


def _find_problems(data: object) -> list[str]:
    if not isinstance(data, Mapping):
        return [f"expected an object with status and notes, not {type(data).__name__}"]
    wrong = {
        'status must be "pass" or "fail"': data.get("status") not in ("pass", "fail"),
        "notes must be text": not isinstance(data.get("notes"), str),
        "issues must be a list of texts": not _is_text_list(data.get("issues")),
        "confidence must be a number from 0 to 1": not is_confidence(data.get("confidence")),
    }
    return [problem for problem, is_wrong in wrong.items() if is_wrong]


def _is_text_list(value: object) -> bool:
    return value is None or (isinstance(value, list | tuple) and all(isinstance(item, str) for item in value))
