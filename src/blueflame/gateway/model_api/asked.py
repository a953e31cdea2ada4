"""Read an agent's request once, strictly: what the provider could read differently than we do is refused.

Only what concerns money is kept, since a parsed request takes many times the memory of its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.system.http import RequestHead, RequestRefused, build_malformed_refusal

MAX_PARTS = 1_000_000  # objects, lists and their items; each takes up to 250 bytes when it is parsed
MAX_OUTPUT_TOKENS = 1_000_000  # no model writes more
DEFAULT_OUTPUT_TOKENS = 128_000  # of a request that names no limit: the most that common models write
OUTPUT_LIMITS = ("maxtokens", "maxoutputtokens", "maxcompletiontokens", "maxtokenstosample")
ANSWER_COUNTS = ("n", "bestof", "candidatecount")
MAX_MODEL_LENGTH = 200
_JSON_TYPE = re.compile(rb'application/json(?:\s*;\s*charset\s*=\s*"?utf-?8"?)?', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AskedCall:
    """What a request asks for: the model, whether the answer is streamed, and how much it may write at most."""

    model: str = ""
    streams: bool = False
    max_output: int = DEFAULT_OUTPUT_TOKENS


def parse_request(head: RequestHead, body: bytes) -> dict[str, Any]:
    """Parse a body that has one possible meaning: plain UTF-8, one JSON object, each key once."""
    if head.get_all("content-encoding"):
        raise build_malformed_refusal("a compressed request cannot be checked; send it without Content-Encoding")
    if not all(_JSON_TYPE.fullmatch(kind) for kind in head.get_all("content-type")):
        raise build_malformed_refusal("the Content-Type must be application/json in UTF-8")
    if sum(body.count(sign) for sign in (b"{", b"[", b",")) > MAX_PARTS:
        raise RequestRefused(413, "too_large", f"the request has more than {MAX_PARTS} parts")
    try:
        found = json.loads(body.decode(), object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as e:
        raise build_malformed_refusal(f"the body of the request is not plain JSON: {str(e)[:120]}") from None
    if not isinstance(found, dict):
        raise build_malformed_refusal("the body of the request is not a JSON object")
    return found


def read_call(content: Mapping[str, Any], named: str) -> AskedCall:
    """`named` is the model that the path names, if it does."""
    model = content.get("model")
    return AskedCall(
        model=named or (model[:MAX_MODEL_LENGTH] if isinstance(model, str) else ""),
        streams=content.get("stream") is True,
        max_output=_read_max_output(content),
    )


def normalize_key(key: str) -> str:
    """Return one spelling for `file_data`, `fileData` and `File_Data`: some APIs read several."""
    return key.replace("_", "").casefold()


def _read_max_output(content: Mapping[str, Any]) -> int:
    """Return the highest of all limits that are named: which one counts is the provider's affair."""
    places = [content, *(value for key, value in content.items() if normalize_key(key) == "generationconfig")]
    fields = [
        (normalize_key(key), value) for place in places if isinstance(place, dict) for key, value in place.items()
    ]
    limit = max(_list_numbers(fields, OUTPUT_LIMITS), default=DEFAULT_OUTPUT_TOKENS)
    return min(limit, MAX_OUTPUT_TOKENS) * min(max(_list_numbers(fields, ANSWER_COUNTS), default=1), 128)


def _list_numbers(fields: list[tuple[str, Any]], names: tuple[str, ...]) -> Iterator[int]:
    """Numbers above 0, also as `64e3` or "64000": some providers accept these."""
    for name, value in fields:
        if name in names and type(value) in (int, float, str):
            try:
                number = int(float(value))
            except (ValueError, OverflowError):
                continue
            if number > 0:
                yield number


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")
