"""Which paths of an API are passed on. An unknown one could spend without being metered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from blueflame.gateway.request import Head


class Kind(Enum):
    METERED = "metered"  # a model answers, and that costs
    FREE = "free"  # costs nothing, so that it is passed on without a line in the record
    OURS = "ours"  # answered here: clients ask whether anybody is there


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: re.Pattern[str]
    kind: Kind
    wire: str = ""  # how its answers tell their usage; a name of billing/usage


def _rows(*rows: tuple[str, str, Kind, str]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(method, re.compile(path), kind, wire) for method, path, kind, wire in rows)


_MODEL = r"[A-Za-z0-9._@-]{1,120}"
_GEMINI = rf"/v1(?:beta|alpha)?/models/(?P<model>{_MODEL})"
TABLE: dict[str, tuple[Endpoint, ...]] = {
    "anthropic": _rows(
        ("POST", r"/v1/messages", Kind.METERED, "anthropic"),
        ("POST", r"/v1/messages/count_tokens", Kind.FREE, ""),
        ("GET", rf"/v1/models(?:/{_MODEL})?", Kind.FREE, ""),
        ("GET", r"/?|/api/hello", Kind.OURS, ""),
        ("HEAD", r"/?|/api/hello", Kind.OURS, ""),
    ),
    "openai": _rows(
        ("POST", r"/responses", Kind.METERED, "openai-responses"),
        ("POST", r"/chat/completions", Kind.METERED, "openai-chat"),
        ("GET", rf"/models(?:/{_MODEL})?", Kind.FREE, ""),
    ),
    "gemini": _rows(
        ("POST", rf"{_GEMINI}:(?:streamGenerateContent|generateContent)", Kind.METERED, "gemini"),
        ("POST", rf"{_GEMINI}:countTokens", Kind.FREE, ""),
        ("GET", rf"/v1(?:beta|alpha)?/models(?:/{_MODEL})?", Kind.FREE, ""),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What is asked for. `path` and `query` are the provider's, without what was for us alone."""

    api: str
    path: str
    query: str
    shown: str  # the key in the query, if the client shows its token there
    endpoint: Endpoint | None
    model: str = ""  # as far as the path tells it

    @property
    def streams(self) -> bool:
        """Events, by its path; other APIs say so in the body."""
        return self.path.endswith(":streamGenerateContent") and "alt=sse" in self.query.split("&")


def route_of(head: Head) -> Route | None:
    """None when it is no path of a model API. A route without an endpoint is of an API, but not known."""
    path, _, query = head.target.partition("?")
    api, slash, rest = path[1:].partition("/")
    if api not in TABLE:
        return None
    rest = slash + rest
    parts = [part for part in query.split("&") if part]
    keys = [part.partition("=")[2] for part in parts if part.partition("=")[0] == "key"]
    kept = "&".join(part for part in parts if part.partition("=")[0] != "key")
    found = [(row, match) for row in TABLE[api] if row.method == head.method and (match := row.path.fullmatch(rest))]
    row, match = found[0] if found else (None, None)
    model = match.groupdict().get("model") or "" if match else ""
    return Route(api=api, path=rest, query=kept, shown=keys[0] if keys else "", endpoint=row, model=model)
