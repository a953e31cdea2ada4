"""The tool `ask`, served to an agent as an MCP server over HTTP, beside the hook: POST /mcp.

Of the protocol only what one tool needs. A question is answered as a stream of events that stays open, with reports of
progress as a heartbeat: claude ends a call without one after five minutes. An agent that ends its call and asks the
same again waits on, and it does not count. One question waits at a time.
"""

from __future__ import annotations

import json
import time

from blueflame.model.question import QUESTION_SCHEMA, find_question_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from blueflame.watcher.http import HookConnection

PROTOCOL = "2025-06-18"
NOT_FOUND, MALFORMED = -32601, -32700
HEARTBEAT_SECONDS = 20.0
NO_ANSWER = "No answer. Continue with your best guess. State the assumption at the end."
DESCRIPTION = (
    "Ask the person who runs this session a precise question, and wait for the answer. Only for what changes the "
    "result and only a person can know; decide everything else yourself. Name your best guess: without an answer you "
    "continue with it."
)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n"
)


class AskTool:
    """`left` more questions may be asked. `on_ask` records one before the agent waits, `wait` seconds at most; 0 is
    without limit."""

    __slots__ = (
        "_asked_at",
        "_connection",
        "_id",
        "_late",
        "_on_ask",
        "_question",
        "_spoke_at",
        "_token",
        "_wait",
        "left",
    )

    def __init__(self, left: int, wait: float, on_ask: Callable[[Mapping[str, Any]], None]) -> None:
        self.left = left
        self._wait = wait
        self._question: Mapping[str, Any] | None = None  # that has no answer yet
        self._late = ""  # an answer that came while the agent did not wait
        self._asked_at = 0.0
        self._token: object = None  # with which the client recognizes reports of progress
        self._on_ask = on_ask
        self._connection: HookConnection | None = None
        self._id: object = None
        self._spoke_at = 0.0

    @property
    def waits(self) -> bool:
        """Whether the agent waits for an answer; not any more once it has closed the connection."""
        return self._connection is not None and self._connection.is_open

    def handle(self, body: bytes, connection: HookConnection) -> bytes:
        """Return the answer to a message; for a question only its beginning, and the connection stays open."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return _format_reply(_build_error(None, MALFORMED, "not JSON"))
        if not isinstance(message, dict):
            return _format_reply(_build_error(None, MALFORMED, "not one message"))
        if "id" not in message:
            return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        given = message.get("params")
        params = given if isinstance(given, dict) else {}
        if message.get("method") == "tools/call":
            return self._call(message["id"], params, connection)
        return _format_reply(_answer_handshake(message, params))

    def _call(self, number: object, params: Mapping[str, Any], connection: HookConnection) -> bytes:
        asked = params.get("arguments")
        problem = find_question_problem(asked) if params.get("name") == "ask" else "there is only the tool ask"
        if not problem and self.waits:
            problem = "another question waits for its answer: ask one at a time"
        again = asked == self._question
        if not problem and again and self._late:
            return _format_reply(_build_result(number, self._settle()))
        if not problem and not self.left and not again:
            problem = "no more questions are allowed: continue with your best guess, and state the assumption"
        if problem or not isinstance(asked, dict):
            return _format_reply(_build_result(number, problem, failed=True))
        self._connection, self._id = connection, number
        self._token = _read_progress_token(params)
        self._spoke_at = time.monotonic()
        if not again:
            self._on_ask(asked)
            self.left -= 1
            self._question, self._late, self._asked_at = asked, "", self._spoke_at
        connection.keep_open()
        return STREAM_HEAD

    def check_time(self) -> None:
        """Send a heartbeat when it is due, and end the call or the wait in time: the orchestrator that should have done
        so may be gone."""
        now, connection = time.monotonic(), self._connection
        if connection is None or not connection.is_open:
            return
        if self._wait and now - self._asked_at >= self._wait:
            self.answer(NO_ANSWER)
        elif now - self._spoke_at >= HEARTBEAT_SECONDS:
            self._spoke_at = now
            connection.send_part(_format_event(self._build_progress(now)))

    def answer(self, text: str) -> bool:
        """Give the answer to the agent that waits; False if none does. One that asks the same again gets it then."""
        self._late = text
        return self._reply(text) and bool(self._settle())

    def _settle(self) -> str:
        """Forget the question, and return its answer."""
        text, self._question, self._late = self._late, None, ""
        return text

    def _reply(self, text: str) -> bool:
        connection, self._connection = self._connection, None
        if connection is None or not connection.is_open:
            return False
        connection.send_last(_format_event(_build_result(self._id, text)))
        return True

    def _build_progress(self, now: float) -> Mapping[str, Any]:
        about = {"progressToken": self._token, "progress": round(now - self._asked_at), "message": "waiting"}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": about}


def _read_progress_token(params: Mapping[str, Any]) -> object:
    meta = params.get("_meta")
    return meta.get("progressToken") if isinstance(meta, dict) else None


def _format_event(message: Mapping[str, Any]) -> bytes:
    return f"event: message\ndata: {json.dumps(message)}\n\n".encode()


def _answer_handshake(message: Mapping[str, Any], params: Mapping[str, Any]) -> Mapping[str, Any]:
    match message.get("method"):
        case "initialize":
            version = params.get("protocolVersion")
            return _build_reply(
                message["id"],
                {
                    "protocolVersion": version if isinstance(version, str) else PROTOCOL,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "blueflame", "version": "1"},
                },
            )
        case "ping":
            return _build_reply(message["id"], {})
        case "tools/list":
            tool = {"name": "ask", "description": DESCRIPTION, "inputSchema": QUESTION_SCHEMA}
            # else claude shows it to its model only after a search, for which its policy has no tool
            return _build_reply(message["id"], {"tools": [{**tool, "_meta": {"anthropic/alwaysLoad": True}}]})
    return _build_error(message["id"], NOT_FOUND, "there is no such method")


def _build_reply(number: object, result: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _build_result(number: object, text: str, *, failed: bool = False) -> Mapping[str, Any]:
    return _build_reply(number, {"content": [{"type": "text", "text": text}], "isError": failed})


def _build_error(number: object, code: int, words: str) -> Mapping[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": words}}


def _format_reply(reply: Mapping[str, Any]) -> bytes:
    body = json.dumps(reply).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    return head.encode() + b"\r\n" + body
