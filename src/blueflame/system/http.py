"""One HTTP/1.1 request: its head, read strictly, and the answer of a server of ours.

What two programs could read differently is refused (request smuggling). The reason phrase of an answer repeats the
message: most clients show only that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from blueflame.lazy_dataclass import dataclass

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 200
HOP_BY_HOP_HEADERS = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection")
) | {"te", "trailer", "transfer-encoding", "upgrade"}
_FIRST_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,16384}) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_LENGTH = re.compile(rb"[0-9]{1,12}")


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


PHRASES = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
MAX_PHRASE_LENGTH = 400


def format_refusal(refused: RequestRefused) -> bytes:
    return format_json_response(refused.status, {"error": refused.words, "rule": refused.rule}, phrase=refused.words)


def format_json_response(
    status: int, content: Mapping[str, object], *, phrase: str = "", with_body: bool = True
) -> bytes:
    body = (json.dumps(content, ensure_ascii=True) + "\n").encode()
    line = f"HTTP/1.1 {status} {_clean_phrase(phrase or PHRASES.get(status, 'Error'))}"
    head = (line, "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close")
    return "\r\n".join((*head, "", "")).encode("ascii") + (body if with_body else b"")


def _clean_phrase(words: str) -> str:
    return "".join(letter if " " <= letter <= "~" else "?" for letter in words)[:MAX_PHRASE_LENGTH]
