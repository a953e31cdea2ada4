"""One hook request over HTTP/1.1: POST /hook with a length, one answer, close. Nothing here blocks.

POST /mcp is for the tool `ask` (watcher/ask_tool), whose answer may come in parts.

Any other request gets an answer that no hook takes for "allow".
"""

from __future__ import annotations

import json
import socket

from blueflame.policy.tool_calls import MAX_CALL_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from blueflame.model.policy import Decision

    class Poller(Protocol):
        """The part of the warden's poll loop that is needed here."""

        def register(
            self, handle: int, answer: Callable[[], None], *, reading: bool = ..., writing: bool = ...
        ) -> None: ...

        def unregister(self, handle: int) -> None: ...

    class Respond(Protocol):
        """Returns the whole answer to the body of a request."""

        def __call__(self, body: bytes, *, plain: bool, late: bool) -> bytes: ...

    class RespondTool(Protocol):
        """Returns the answer to a message for the tool of ours, or the beginning of it."""

        def __call__(self, body: bytes, connection: HookConnection) -> bytes: ...


MAX_HEAD = 16 * 1024
READ_BYTES = 1 << 20
MAX_REASON = 4000  # characters of a refusal

ALLOWED = (
    b"HTTP/1.1 200 OK\r\nX-Blueflame-Decision: allow\r\nContent-Type: application/json\r\nContent-Length: 129\r\n"
    b'Connection: close\r\n\r\n{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",'
    b'"permissionDecisionReason":"allowed by policy"}}'
)
"""The only answer that allows a call. hook.sh compares it byte for byte: change both or none."""


class HookConnection:
    """One request and its answer. It is in `others` while it is open."""

    __slots__ = (
        "_answer",
        "_decide",
        "_for_tool",
        "_got",
        "_head",
        "_length",
        "_others",
        "_poll_loop",
        "_socket",
        "_tool",
        "is_kept",
        "is_open",
        "since",
    )

    def __init__(  # noqa: PLR0917 (made in one place)
        self,
        asking: socket.socket,
        poll_loop: Poller,
        decide: Respond,
        others: list[HookConnection],
        now: float,
        tool: RespondTool | None = None,
    ) -> None:
        self.since = now
        self.is_open = True
        self.is_kept = False  # it waits for a person, without a time limit
        self._decide = decide
        self._tool = tool
        self._for_tool = False
        self._others = others
        self._socket = asking
        self._poll_loop = poll_loop
        self._got = bytearray()
        self._head: bytes | None = None
        self._length = 0
        self._answer = b""
        asking.setblocking(False)
        others.append(self)
        poll_loop.register(asking.fileno(), self._receive)
        self._receive()  # most requests have arrived by now

    def keep_open(self) -> None:
        """Let the answer come in parts."""
        self.is_kept = True

    def send_part(self, part: bytes) -> None:
        self._send(self._answer + part)

    def send_last(self, part: bytes) -> None:
        self.is_kept = False
        self._send(self._answer + part)

    def close(self) -> None:
        self.is_open = False
        self._poll_loop.unregister(self._socket.fileno())
        self._socket.close()
        self._others.remove(self)

    def _receive(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or self.is_kept:
            self.close()  # an incomplete request, or a client that waits no longer
            return
        self._got += data
        self._handle_data()

    def _handle_data(self) -> None:
        try:
            if self._head is None and not self._read_head():
                return
            if len(self._got) < self._length:
                return
            assert self._head is not None
            if self._for_tool and self._tool is not None:
                self._send(self._tool(bytes(self._got[: self._length]), self))
                return
            plain = b"\r\naccept: text/plain\r\n" in self._head
            late = self._has_client_left()
            self._send(self._decide(bytes(self._got[: self._length]), plain=plain, late=late))
        except _BadRequest as e:
            self._send(e.answer)

    def _has_client_left(self) -> bool:
        """Whether the hook gave up before we came to its question."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _read_head(self) -> bool:
        end = self._got.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end < 0:
            if len(self._got) >= MAX_HEAD:
                raise _BadRequest("431 Request Header Fields Too Large")
            return False
        first, _, rest = bytes(self._got[: end + 2]).partition(b"\r\n")
        self._head = b"\r\n" + rest.lower()
        self._for_tool = self._tool is not None and first.split(b" ")[1:2] == [b"/mcp"]
        _check_request_line(first, b"/mcp" if self._for_tool else b"/hook")
        self._length = _read_length(self._head)
        del self._got[: end + 4]
        return True

    def _send(self, answer: bytes) -> None:
        self._answer = answer
        self._flush()
        if self._answer:
            self._poll_loop.register(self._socket.fileno(), self._flush, reading=False, writing=True)

    def _flush(self) -> None:
        try:
            self._answer = self._answer[self._socket.send(self._answer) :]
        except BlockingIOError:
            return
        except OSError:
            self._answer = b""  # the client has closed
        if self._answer:
            return
        if self.is_kept:
            self._poll_loop.register(self._socket.fileno(), self._receive)  # to see that the client has closed
        else:
            self.close()


class _BadRequest(Exception):
    """Not a hook request: answered without allowing, and not recorded."""

    def __init__(self, status: str) -> None:
        self.answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def _check_request_line(line: bytes, expected: bytes) -> None:
    method, _, rest = line.partition(b" ")
    path, _, version = rest.partition(b" ")
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise _BadRequest("400 Bad Request")
    if path != expected:
        raise _BadRequest("404 Not Found")
    if method != b"POST":
        raise _BadRequest("405 Method Not Allowed")


def _read_length(head: bytes) -> int:
    lengths = [line.partition(b":")[2].strip() for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
    if b"\r\ntransfer-encoding:" in head or len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 12:
        raise _BadRequest("411 Length Required")
    if int(lengths[0]) > MAX_CALL_BYTES:
        raise _BadRequest("413 Content Too Large")
    return int(lengths[0])


def format_refusal(decision: Decision, *, plain: bool) -> bytes:
    reason = f"{decision.rule}: {decision.details}"[:MAX_REASON]
    if plain:
        body, kind = reason.encode("utf-8", "replace"), "text/plain"
    else:
        output = {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
        body, kind = json.dumps({"hookSpecificOutput": output}).encode(), "application/json"
    head = (
        f"HTTP/1.1 200 OK\r\nX-Blueflame-Decision: deny\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
