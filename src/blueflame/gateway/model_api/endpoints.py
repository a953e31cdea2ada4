"""Which paths of an API are forwarded. An unknown one could spend without being metered."""

from __future__ import annotations

import re
from enum import Enum

from blueflame.lazy_dataclass import dataclass
from blueflame.system.http import RequestHead


class EndpointKind(Enum):
    METERED = "metered"  # a call to a model, which costs money
    FREE = "free"  # costs nothing: forwarded without a line in the usage log
    OURS = "ours"  # answered by the gateway: clients check that the server is up


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: re.Pattern[str]
    kind: EndpointKind
    wire: str = ""  # the format of its answers, as billing/usage names it


def _build_endpoints(*rows: tuple[str, str, EndpointKind, str]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(method, re.compile(path), kind, wire) for method, path, kind, wire in rows)


_MODEL = r"[A-Za-z0-9._@-]{1,120}"
_GEMINI = rf"/v1(?:beta|alpha)?/models/(?P<model>{_MODEL})"
ENDPOINTS: dict[str, tuple[Endpoint, ...]] = {
    "anthropic": _build_endpoints(
        ("POST", r"/v1/messages", EndpointKind.METERED, "anthropic"),
        ("POST", r"/v1/messages/count_tokens", EndpointKind.FREE, ""),
        ("GET", rf"/v1/models(?:/{_MODEL})?", EndpointKind.FREE, ""),
        ("GET", r"/?|/api/hello", EndpointKind.OURS, ""),
        ("HEAD", r"/?|/api/hello", EndpointKind.OURS, ""),
    ),
    "openai": _build_endpoints(
        ("POST", r"/responses", EndpointKind.METERED, "openai-responses"),
        ("POST", r"/chat/completions", EndpointKind.METERED, "openai-chat"),
        ("GET", rf"/models(?:/{_MODEL})?", EndpointKind.FREE, ""),
    ),
    "gemini": _build_endpoints(
        ("POST", rf"{_GEMINI}:(?:streamGenerateContent|generateContent)", EndpointKind.METERED, "gemini"),
        ("POST", rf"{_GEMINI}:countTokens", EndpointKind.FREE, ""),
        ("GET", rf"/v1(?:beta|alpha)?/models(?:/{_MODEL})?", EndpointKind.FREE, ""),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """The endpoint of a request. `path` and `query` are the provider's, without the token."""

    api: str
    path: str
    query: str
    shown: str  # the key in the query, if the client sends its token there
    endpoint: Endpoint | None
    model: str = ""  # if the path names it

    @property
    def streams(self) -> bool:
        """Whether the path asks for events; other APIs say so in the body."""
        return self.path.endswith(":streamGenerateContent") and "alt=sse" in self.query.split("&")


def find_route(head: RequestHead) -> ModelRoute | None:
    """Find the route; None for a path outside the model APIs, a route without endpoint for an unknown path in one."""
    path, _, query = head.target.partition("?")
    api, slash, rest = path[1:].partition("/")
    if api not in ENDPOINTS:
        return None
    rest = slash + rest
    parts = [part for part in query.split("&") if part]
    keys = [part.partition("=")[2] for part in parts if part.partition("=")[0] == "key"]
    kept = "&".join(part for part in parts if part.partition("=")[0] != "key")
    found = [
        (row, match) for row in ENDPOINTS[api] if row.method == head.method and (match := row.path.fullmatch(rest))
    ]
    row, match = found[0] if found else (None, None)
    model = match.groupdict().get("model") or "" if match else ""
    return ModelRoute(api=api, path=rest, query=kept, shown=keys[0] if keys else "", endpoint=row, model=model)
