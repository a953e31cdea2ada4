"""Why a provider did not answer (rate limit, outage, network, the account), and when a call may be tried again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from blueflame.billing.sse import parse_json
from blueflame.gateway.model_api.errors import BUDGET_STATUS
from blueflame.gateway.model_api.response import ProviderAnswer
from blueflame.lazy_dataclass import dataclass

_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_SPAN = re.compile(r"(?:([0-9.]+)d)?(?:([0-9.]+)h)?(?:([0-9.]+)m(?!s))?(?:([0-9.]+)s)?(?:([0-9.]+)ms)?")
_SECONDS = (86400.0, 3600.0, 60.0, 1.0, 0.001)
MAX_WAIT_SECONDS = 40 * 86400.0  # more is a mistake


def find_reset_time(headers: Mapping[str, str], body: bytes, now: float) -> float | None:
    """Find when to try again (seconds since the epoch), None if unknown. Header names are in lower case."""
    found = _pick_first(
        _read_retry_after(headers, now),
        _parse_number(headers.get("anthropic-ratelimit-unified-reset", "")),
        _read_anthropic_reset(headers),
        _read_openai_reset(headers, now),
        _read_reset_in_body(body, now),
    )
    return None if found is None else min(max(found, now), now + MAX_WAIT_SECONDS)


def _pick_first(*moments: float | None) -> float | None:
    return next((moment for moment in moments if moment is not None), None)


def _read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _parse_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return now + milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _parse_number(text)
    if seconds is not None:
        return now + seconds
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, OverflowError):
        return None


def _read_anthropic_reset(headers: Mapping[str, str]) -> float | None:
    prefix = "anthropic-ratelimit-"
    return _pick_reset(
        (_parse_moment(headers.get(f"{prefix}{kind}-reset", "")), headers.get(f"{prefix}{kind}-remaining", ""))
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    )


def _read_openai_reset(headers: Mapping[str, str], now: float) -> float | None:
    span = _pick_reset(
        (_parse_span(headers.get(f"x-ratelimit-reset-{kind}", "")), headers.get(f"x-ratelimit-remaining-{kind}", ""))
        for kind in ("requests", "tokens")
    )
    return None if span is None else now + span


def _pick_reset(limits: Iterable[tuple[float | None, str]]) -> float | None:
    """Pick the latest reset of the limits with nothing remaining; without one, the earliest of all."""
    known = [(reset, remaining) for reset, remaining in limits if reset is not None]
    used_up = [reset for reset, remaining in known if remaining.strip() == "0"]
    return max(used_up) if used_up else min((reset for reset, _ in known), default=None)


def _read_reset_in_body(body: bytes, now: float) -> float | None:
    error = _parse_error(body)
    if not isinstance(error, dict):
        return None
    seconds, at = _to_seconds(error.get("resets_in_seconds")), _to_seconds(error.get("resets_at"))
    return _pick_first(now + seconds if seconds is not None else None, at, _read_retry_info(error, now))


def _read_retry_info(error: Mapping[str, Any], now: float) -> float | None:
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith("RetryInfo"):
            span = _parse_span(str(detail.get("retryDelay", "")))
            return None if span is None else now + span
    return None


def _to_seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def _parse_number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def _parse_moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.strip()).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def _parse_span(text: str) -> float | None:
    """Parse a duration in seconds: 6m0s, 1h2m, 250ms, 12.5s."""
    text = text.strip()
    found = _SPAN.fullmatch(text) if text else None
    if found is None:
        return _parse_number(text)
    try:
        return sum(float(part) * unit for part, unit in zip(found.groups(), _SECONDS, strict=True) if part)
    except ValueError:
        return None


RATE_LIMIT, OUTAGE, NETWORK = "rate_limit", "outage", "network"
LOGIN, CREDIT, MODEL, UNSUPPORTED = ACCOUNT_KINDS = ("login", "credit", "model", "unsupported")
"""What only a person can change: no retry helps, and no other agent of the account would get an answer."""
REFUSED = "refused"  # the provider rejects this one call: the agent's own affair
OF_THE_CALL = (400, 413, 422)  # what an agent puts into its call can be the cause
_ID = re.compile(r"(?=[\w-]*[0-9])(?=[\w-]*[A-Za-z])[\w-]{6,}")
TRANSIENT = (408, 409, 425)
BETWEEN = "a proxy, a firewall or a sign-in page may be in between"
LOGIN_WORDS = re.compile(
    r"api.?key (is )?(not valid|invalid|expired)|invalid.{0,9}api.?key|api_key_invalid|authentication_error"
    r"|oauth (token|authentication)|(organization|account) (has been|is) (disabled|deactivated|suspended)"
)
CREDIT_WORDS = re.compile(
    r"credit balance|usage limits|insufficient_quota|insufficient credits|billing_(error|hard_limit)"
)
MODEL_WORDS = re.compile(r"\bmodels?\b")
TOO_LONG_WORDS = re.compile(r"too (long|large)|context.{0,9}(length|window)|maximum.{0,30}tokens")
MAX_REASON_LENGTH = 300
PERMANENT_STATUSES = (501, 505)  # a retry cannot help
MODEL_ROLES = ("assistant", "model")


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """`until` is when the call may be tried again, if known; the rest is the provider's answer."""

    kind: str
    reason: str
    until: float | None = None
    status: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()
    body: bytes = b""


def classify_failure(answer: ProviderAnswer, body: bytes, now: float, asked: bytes = b"") -> ProviderFailure:
    """Classify an answer of 400 or more to the request `asked`.

    Only what the agent itself put into its call is its own affair. All else is not, known or unknown.
    """
    headers = {name: value.decode("latin-1") for name, value in answer.headers}
    message = _extract_message(body)
    reason = f"{answer.status}: {message}" if message else f"the provider answers {answer.status}"
    kind = _find_account_problem(answer.status, body, asked) or _find_outage(answer.status)
    if not kind and not isinstance(parse_json(body), dict | list):
        kind, reason = NETWORK, f"{answer.status} from something else than the model's API: {BETWEEN}"
    kind = kind or _find_refusal(answer.status, message, asked)
    until = find_reset_time(headers, body, now) if kind in (RATE_LIMIT, OUTAGE) else None
    # claude tries again after 400 and 401, for minutes
    status = BUDGET_STATUS if kind in (LOGIN, CREDIT) else answer.status
    return ProviderFailure(kind, reason, until, status, answer.headers, body)


def _find_outage(status: int) -> str:
    if status == 429:
        return RATE_LIMIT
    return OUTAGE if status in TRANSIENT or (status >= 500 and status not in PERMANENT_STATUSES) else ""


def _find_refusal(status: int, message: str, asked: bytes) -> str:
    """Whose affair it is that a call is refused: before the first answer an agent has put nothing into it yet."""
    if status == 403:
        return LOGIN
    if status not in OF_THE_CALL and not (status == 404 and _names_part(message, asked)):
        return UNSUPPORTED
    is_too_long = status == 413 or TOO_LONG_WORDS.search(message.lower())
    return REFUSED if is_too_long or _has_answers(asked) else UNSUPPORTED


def _names_part(message: str, asked: bytes) -> bool:
    """Whether a message is about the id of something in the call, such as a file; its model is not the agent's."""
    content = parse_json(asked)
    model = str(content.get("model", "")) if isinstance(content, dict) else ""
    return any(found.encode() in asked for found in _ID.findall(message) if found not in model)


def _has_answers(asked: bytes) -> bool:
    """Whether the conversation holds an answer of a model, or continues one that the provider has kept."""
    content = parse_json(asked)
    if not isinstance(content, dict):
        return False
    found = next((content[name] for name in ("messages", "input", "contents") if name in content), None)
    said = found if isinstance(found, list) else ()
    return "previous_response_id" in content or any(
        isinstance(each, dict) and each.get("role") in MODEL_ROLES for each in said
    )


def find_foreign_answer(answer: ProviderAnswer) -> ProviderFailure | None:
    """What is no answer of a model by its head, although it is no error: a redirect, a page, nothing at all."""
    kind = answer.get_header("content-type").lower()
    is_typed = not kind or "json" in kind or "event-stream" in kind or "octet-stream" in kind
    if answer.status == 200 and is_typed and answer.size != 0:
        return None
    to = answer.get_header("location")[:MAX_REASON_LENGTH]
    page = kind.partition(";")[0] if answer.size != 0 else ""
    what = f"a redirect to {to}" if to else page or "nothing"
    return ProviderFailure(NETWORK, f"{answer.status} with {what} instead of the model's answer: {BETWEEN}")


def _find_account_problem(status: int, body: bytes, asked: bytes) -> str:
    """Return why the provider refuses the account; "" when it does not. Only words in the error's own fields count."""
    error = _parse_error(body)
    found = error if isinstance(error, dict) else {}
    codes, message = (
        " ".join(str(found.get(name, "")) for name in names).lower()
        for names in (("type", "code", "status"), ("message",))
    )
    if status == 402 or (status in (400, 403, 429) and _mentions(CREDIT_WORDS, codes, message, asked)):
        return CREDIT
    if status == 401 or (status in (400, 403) and _mentions(LOGIN_WORDS, codes, message, asked)):
        return LOGIN
    unknown = "model_not_found" in codes or (status == 404 and MODEL_WORDS.search(f"{codes} {message}"))
    return MODEL if unknown else ""


def _mentions(words: re.Pattern[str], codes: str, message: str, asked: bytes) -> bool:
    """Whether the error is about these words. A message may quote the agent's request: then it proves nothing."""
    if words.search(codes):
        return True
    return bool(words.search(message)) and not words.search(json.dumps(parse_json(asked), ensure_ascii=False).lower())


def _extract_message(body: bytes) -> str:
    """Extract the provider's message."""
    error, content = _parse_error(body), parse_json(body)
    words = error.get("message") if isinstance(error, dict) else error
    if not words and isinstance(content, dict):  # servers that imitate an API
        words = content.get("message") or content.get("detail")
    return " ".join(str(words).split())[:MAX_REASON_LENGTH] if words else ""


def _parse_error(body: bytes) -> object:
    content = parse_json(body)
    if isinstance(content, list) and content:  # Gemini streams a list
        content = content[0]
    return content.get("error") if isinstance(content, dict) else None
