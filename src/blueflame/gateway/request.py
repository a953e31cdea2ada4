"""Read the head of a request strictly: refuse what two programs could read differently (request smuggling)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from blueflame.gateway.options import normalize_host

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 200
HOP_BY_HOP_HEADERS = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection")
) | {"te", "trailer", "transfer-encoding", "upgrade"}
_FIRST_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,16384}) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_LENGTH = re.compile(rb"[0-9]{1,12}")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\\]+)(?::([1-9][0-9]{0,4}))?")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([/?][^#]*)?")


class RequestRefused(Exception):
    """Why a request or a call to a model is not served: HTTP status, name of the rule for the log, message and fix."""

    def __init__(self, status: int, rule: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.rule = rule
        self.words = words


def build_malformed_refusal(words: str) -> RequestRefused:
    return RequestRefused(400, "malformed_request", words)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    method: str
    target: str
    version: str
    headers: tuple[tuple[str, bytes], ...]
    """Names in lower case."""

    def get_all(self, name: str) -> list[bytes]:
        return [value for key, value in self.headers if key == name]

    def read_content_length(self) -> int:
        """Return the length of the body, 0 without one. Refuse two lengths, and anything but digits."""
        sizes = self.get_all("content-length")
        if len(sizes) > 1 or not all(_LENGTH.fullmatch(size) for size in sizes):
            raise build_malformed_refusal("the Content-Length is not one plain number")
        return int(sizes[0]) if sizes else 0

    def list_forwarded(self, *dropped: str) -> list[tuple[str, str]]:
        """List the headers to forward: not those for one connection, nor `dropped`."""
        listed = {
            name.strip().lower() for value in self.get_all("connection") for name in value.decode("latin-1").split(",")
        }
        listed -= {"content-length"}  # kept: without it the body would be read as a second request
        removed = HOP_BY_HOP_HEADERS | listed | set(dropped)
        return [(name, value.decode("latin-1")) for name, value in self.headers if name not in removed]


def parse_head(data: bytes) -> RequestHead:
    """Parse `data`, which ends with the empty line."""
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _FIRST_LINE.fullmatch(first)
    if found is None:
        raise build_malformed_refusal("not an HTTP/1.1 request; only HTTP is served here")
    if len(lines) > MAX_HEADERS:
        raise build_malformed_refusal(f"the request has more than {MAX_HEADERS} headers")
    method, target, minor = (part.decode("ascii") for part in found.groups())
    return RequestHead(method=method, target=target, version=f"1.{minor}", headers=tuple(map(_parse_header, lines)))


def _parse_header(line: bytes) -> tuple[str, bytes]:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise build_malformed_refusal("a header of the request is malformed")
    return found[1].decode("ascii").lower(), found[2].rstrip(b" \t")


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
