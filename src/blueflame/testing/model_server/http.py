"""The HTTP server of the loopback model: routes, credentials, and streams that pause, fail or are cut off."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from blueflame.testing.model_server.anthropic import AnthropicDialect
from blueflame.testing.model_server.dialect import ApiDialect, ModelQuestion, StreamPiece, Tokens
from blueflame.testing.model_server.gemini import GeminiDialect
from blueflame.testing.model_server.openai import ChatDialect, ResponsesDialect
from blueflame.testing.model_server.player import NoScriptedAnswer, ScriptedAnswer, ScriptPlayer
from blueflame.testing.model_server.script import ModelScript

MODELS = ("claude-opus-5-5", "claude-haiku-5-5", "gpt-5.5", "gemini-3.1-pro-preview")


class ServedRoute(NamedTuple):
    method: str
    path: re.Pattern[str]
    api: ApiDialect
    act: str  # talk, count, models


ROUTES = (
    ServedRoute("POST", re.compile(r"/v1/messages/count_tokens"), AnthropicDialect(), "count"),
    ServedRoute("POST", re.compile(r"/v1/messages"), AnthropicDialect(), "talk"),
    ServedRoute("POST", re.compile(r"(/v1)?/responses"), ResponsesDialect(), "talk"),
    ServedRoute("POST", re.compile(r"(/v1)?/chat/completions"), ChatDialect(), "talk"),
    ServedRoute("GET", re.compile(r"(/v1)?/models(/[^/]+)?"), ResponsesDialect(), "models"),
    ServedRoute(
        "POST", re.compile(r"/v1(beta|alpha)?/models/[^/]+:(g|streamG)enerateContent"), GeminiDialect(), "talk"
    ),
    ServedRoute("POST", re.compile(r"/v1(beta|alpha)?/models/[^/]+:countTokens"), GeminiDialect(), "count"),
    ServedRoute("GET", re.compile(r"/v1(beta|alpha)/models(/[^/]+)?"), GeminiDialect(), "models"),
)


class RequestLog(Protocol):
    """Where requests and answers are recorded."""

    def record_request(self, method: str, path: str, headers: Mapping[str, str], body: object) -> None: ...
    def record_answer(self, api: str, model: str, key: str, tokens: Tokens, *, complete: bool) -> None: ...


class ModelHttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, script: ModelScript, request_log: RequestLog, port: int, listener: socket.socket | None = None
    ) -> None:
        self.player = ScriptPlayer(script)
        self.key = script.key
        self.request_log = request_log
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), ModelRequestHandler, bind_and_activate=listener is None)
        if listener is not None:
            self.socket.close()
            self.socket = listener

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 (as the library has it)
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 (as the library has it)
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for connection in tuple(self._open):  # its thread reads an end of file and ends
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 (as the library has it)
        """Print nothing: clients may disconnect, and the request log has what they got."""


class ModelRequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelHttpServer
    disable_nagle_algorithm = True

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing on the terminal of a test."""

    def _serve(self) -> None:
        address = urlsplit(self.path)
        path, query = unquote(address.path).replace("//", "/"), dict(parse_qsl(address.query))
        headers = {name.lower(): value for name, value in self.headers.items()}
        raw = self._read_body(headers)
        body = _parse_body(raw)
        self.server.request_log.record_request(self.command, self.path, headers, body)
        if path in {"", "/", "/api/hello"}:
            self._send_json(200, {"message": "hello"})
            return
        route = next((r for r in ROUTES if r.method == self.command and r.path.fullmatch(path)), None)
        if route is None:
            self._send_json(404, {"error": {"type": "not_found_error", "message": f"no such endpoint: {path}"}})
            return
        key = _find_credential(headers, query)
        if self.server.key and key != self.server.key:
            self._send_json(401, route.api.build_error(401, "the credential is not the one of the script"))
        elif route.act == "models":
            self._send_json(200, _build_model_list(path, headers))
        elif not isinstance(body, dict):
            self._send_json(400, route.api.build_error(400, "the body is not a JSON object"))
        elif route.act == "count":
            size = max(1, len(raw) // 4)
            self._send_json(200, {"input_tokens": size, "totalTokens": size})
        else:
            self._play_turn(route.api, route.api.parse_question(path, body, len(raw)), key)

    def _play_turn(self, api: ApiDialect, question: ModelQuestion, key: str) -> None:
        try:
            play = self.server.player.play(question)
        except NoScriptedAnswer as problem:
            self._send_json(400, api.build_error(400, str(problem)))
            return
        time.sleep(play.turn.delay)
        if play.turn.body is not None:
            self._send_json(play.turn.status, play.turn.body, play.turn.headers)
        elif play.turn.status >= 300:
            message = play.turn.error or f"the script answers {play.turn.status}"
            self._send_json(play.turn.status, api.build_error(play.turn.status, message), play.turn.headers)
        else:
            self._send_answer(api, question, play, key)

    def _send_answer(self, api: ApiDialect, question: ModelQuestion, play: ScriptedAnswer, key: str) -> None:
        """Send the answer. It is recorded before its last byte: a client that has all of it can read the record."""

        def record(tokens: Tokens, *, complete: bool) -> None:
            billed = api.count_billed(tokens)
            self.server.request_log.record_answer(question.api, question.model, key, billed, complete=complete)

        recorded = False
        self._start_response(play.turn.headers, streamed=question.stream)
        reported = Tokens()
        try:
            for at, (piece, last) in enumerate(_build_pieces(api, question, play)):
                if at == play.turn.cut:
                    break
                if at == play.turn.broken:
                    record(reported, complete=False)
                    recorded = True
                    self._send_chunk(api.format_stream_error(play.turn.error or "the script fails the stream here"))
                    self._send_chunk(b"")
                    return
                time.sleep(play.turn.pace if at else 0)
                if last:
                    record(play.reply.tokens, complete=True)
                    recorded = True
                self._send_chunk(piece.data)
                reported = piece.reported
            else:
                self._send_chunk(b"")
                return
        except OSError:  # the client has disconnected
            pass
        if not recorded:
            record(reported, complete=False)
        self._drop_connection()

    def _start_response(self, headers: Mapping[str, str], *, streamed: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8" if streamed else "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self._send_extra_headers(headers)
        self.end_headers()

    def _send_extra_headers(self, headers: Mapping[str, str]) -> None:
        if not any(name.lower() == "request-id" for name in headers):
            self.send_header("request-id", "req_loopback")
        for name, value in headers.items():
            self.send_header(name, value)

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _drop_connection(self) -> None:
        """Close without the end that the client waits for."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send_json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self._send_extra_headers(headers or {})
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", ""):
            return b"".join(self._read_chunks())
        return self.rfile.read(int(headers.get("content-length", 0)))

    def _read_chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass


def _build_pieces(api: ApiDialect, question: ModelQuestion, play: ScriptedAnswer) -> Iterator[tuple[StreamPiece, bool]]:
    """Yield each piece, and whether it is the last one."""
    if not question.stream:
        whole = json.dumps(api.build_body(play.reply)).encode()
        half = len(whole) // 2  # so that there is something to cut
        yield StreamPiece(whole[:half], Tokens()), False
        yield StreamPiece(whole[half:], play.reply.tokens), True
        return
    for _ in range(play.turn.pings):
        yield StreamPiece(api.format_ping(), Tokens()), False
    waiting: StreamPiece | None = None
    for piece in api.build_stream(play.reply):
        if waiting is not None:
            yield waiting, False
        waiting = piece
    if waiting is not None:
        yield waiting, True


def _parse_body(raw: bytes) -> object:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode("utf-8", "replace")


def _find_credential(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or bearer or query.get("key", "")


def _build_model_list(path: str, headers: Mapping[str, str]) -> Mapping[str, Any]:
    """List the models. Two APIs share a path; only one of them sends the header `anthropic-version`."""
    if "beta/" in path or "alpha/" in path:
        return {"models": [{"name": f"models/{name}", "displayName": name} for name in MODELS]}
    if "anthropic-version" in headers:
        data = [
            {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in MODELS
        ]
        return {"data": data, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in MODELS],
    }
