"""Parses the answer of an agent that sizes a request strictly: what is not clearly a size is an error."""

from __future__ import annotations

from collections.abc import Mapping

from blueflame.model.errors import WorldError
from blueflame.model.sizing import SizeAnswer, Tier
from blueflame.text.sanitize import shorten_line

MAX_REASON_CHARS = 300


class SizeError(WorldError):
    """The answer breaks SIZE_SCHEMA."""


def parse_size(data: object) -> SizeAnswer:
    """Unknown keys are ignored; a long reason is cut."""
    tier = data.get("tier") if isinstance(data, Mapping) else None
    reason = data.get("reason") if isinstance(data, Mapping) else None
    if isinstance(tier, bool) or tier not in tuple(Tier) or not isinstance(reason, str):
        raise SizeError("the answer is not an object with tier (1, 2 or 3) and reason (a text)")
    return SizeAnswer(tier=Tier(tier), reason=shorten_line(reason, MAX_REASON_CHARS))
