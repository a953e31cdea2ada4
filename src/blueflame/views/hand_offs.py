"""Hand-offs between stages, as data and as lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blueflame.session.hand_offs import StageHandOff
from blueflame.text.hand_offs import format_hand_off
from blueflame.views.parts import pick


def build_hand_off_json(hand_off: StageHandOff) -> dict[str, Any]:
    left = hand_off.left
    return {
        "task": hand_off.task,
        "attempt": hand_off.attempt,
        "from": hand_off.sender,
        "to": hand_off.receiver,
        "status": hand_off.status.value,
        "confidence": left.confidence,
        "summary": list(left.summary),
        "files": [{"path": file.path, "how": file.how} for file in left.files],
        **pick(left, "more_files learnings blockers recommendations problems"),
    }


def list_document_lines(hand_offs: Iterable[StageHandOff]) -> tuple[str, ...]:
    """List the lines of the documents, with an empty one between two of them."""
    return tuple("\n".join(map(format_hand_off, hand_offs)).splitlines())
