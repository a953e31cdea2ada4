"""Amounts as people write them: `12.50`, `$12.50`, `12.50 usd`, `200,000 tokens`."""

from __future__ import annotations

import re

from blueflame.model.spend import Unit, micro_usd

_AMOUNT = re.compile(r"(\$?)\s*(\d[\d_,]*(?:\.\d+)?)\s*(usd|tokens?)?", re.IGNORECASE)


def parse_amount(text: str, unit: Unit) -> int | None:
    """In millionths of a dollar or in tokens; None for what is no amount, not positive, or in the other unit."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return None
    dollar, digits, word = match.groups()
    number = float(digits.replace(",", "").replace("_", ""))
    named = Unit.USD if dollar or (word or "").lower() == "usd" else Unit.TOKENS if word else unit
    if named is not unit or (unit is Unit.TOKENS and not number.is_integer()):
        return None
    return (micro_usd(number) if unit is Unit.USD else int(number)) or None
