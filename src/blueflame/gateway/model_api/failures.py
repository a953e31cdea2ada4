"""Why a provider did not answer, told apart: its limits, its outages, the network in between."""

from __future__ import annotations

import json
from dataclasses import dataclass

from blueflame.gateway.model_api.reset_times import find_reset_time
from blueflame.gateway.model_api.response import ProviderAnswer

RATE_LIMIT, OUTAGE, NETWORK = "rate_limit", "outage", "network"
MAX_REASON_LENGTH = 300
PERMANENT_STATUSES = (501, 505)  # what a provider does not know, it will not know later


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """`until` is when the call may come again, if known; the rest is what the provider said."""

    kind: str
    reason: str
    until: float | None = None
    status: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()
    body: bytes = b""


def is_retryable(status: int) -> bool:
    return status == 429 or (status >= 500 and status not in PERMANENT_STATUSES)


def classify_failure(answer: ProviderAnswer, body: bytes, now: float) -> ProviderFailure:
    headers = {name: value.decode("latin-1") for name, value in answer.headers}
    kind = RATE_LIMIT if answer.status == 429 else OUTAGE
    reason = (
        f"{answer.status}: {_extract_message(body)}"
        if _extract_message(body)
        else f"the provider answers {answer.status}"
    )
    return ProviderFailure(kind, reason, find_reset_time(headers, body, now), answer.status, answer.headers, body)


def _extract_message(body: bytes) -> str:
    """The provider's own; every API has them at the same place."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if isinstance(found, list) and found:
        found = found[0]
    error = found.get("error") if isinstance(found, dict) else None
    words = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(words).split())[:MAX_REASON_LENGTH] if words else ""
