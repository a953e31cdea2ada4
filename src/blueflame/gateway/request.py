"""Read the target of a request: an authority, or an absolute URL."""

from __future__ import annotations

import re

from blueflame.gateway.options import normalize_host
from blueflame.system.http import build_malformed_refusal

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\\]+)(?::([1-9][0-9]{0,4}))?")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([/?][^#]*)?")


def parse_authority(text: str, *, port: int | None) -> tuple[str, int]:
    """Parse host and port; without a default `port`, one must be written."""
    found = _AUTHORITY.fullmatch(text)
    host = normalize_host(found[1]) if found else None
    if found is None or host is None:
        raise build_malformed_refusal(f"{text[:80]!r} is not a valid host name; write a name such as example.org")
    number = int(found[2]) if found[2] else port
    if number is None or number > 65535:
        raise build_malformed_refusal(f"{text[:80]!r} has no port; write {host}:443")
    return host, number


def parse_absolute_url(target: str) -> tuple[str, str, str]:
    """Parse an absolute URL into scheme, authority, and path with query."""
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        raise build_malformed_refusal("the request target is neither a path nor a URL")
    path = found[3] or "/"
    return found[1].lower(), found[2], path if path.startswith("/") else f"/{path}"
