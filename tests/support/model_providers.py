"""A scripted provider on loopback: it answers, streams, refuses, breaks off, or never answers."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_WAIT_SECONDS = 20.0


@dataclass(frozen=True)
class ProviderRequest:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def content(self) -> Any:  # noqa: ANN401 (whatever JSON it is)
        return json.loads(self.body)


class ProviderConnection:
    """The connection of one request, for a behaviour to answer on."""

    def __init__(self, handler: BaseHTTPRequestHandler, asked: ProviderRequest, hangs_up: threading.Event) -> None:
        self._handler = handler
        self.asked = asked
        self.hangs_up = hangs_up

    def send(self, data: bytes) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self.send("\r\n".join(lines).encode())

    def send_chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def close_abruptly(self) -> None:
        with suppress(OSError):
            self._handler.connection.shutdown(socket.SHUT_RDWR)
        self._handler.close_connection = True


ProviderBehaviour = Callable[[ProviderConnection], None]


@dataclass
class Provider:
    """Runs its behaviours in order, the last one for ever, and records all requests."""

    plays: list[ProviderBehaviour]
    port: int = 0
    asked: list[ProviderRequest] = field(default_factory=list)
    connections: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take_behaviour(self, asked: ProviderRequest) -> ProviderBehaviour:
        with self.lock:
            self.asked.append(asked)
            return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]


@contextmanager
def start_provider(*plays: ProviderBehaviour, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Provider]:
    harness = Provider(list(plays))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            with harness.lock:
                harness.connections += 1

        def serve(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = ProviderRequest(self.command, self.path, headers, self.rfile.read(size))
            with suppress(ConnectionError):
                harness.take_behaviour(asked)(ProviderConnection(self, asked, harness.closing))

        do_GET = do_POST = serve  # noqa: N815 (the names are http.server's)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: object) -> None:
            """Print nothing: gateways disconnect on purpose."""

    with Server(("127.0.0.1", port), Handler) as server:
        harness.port = server.server_address[1]
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        serving.start()
        try:
            yield harness
        finally:
            harness.closing.set()
            server.shutdown()
            serving.join()


# --- plays


def answer_json(status: int, content: object, **headers: str) -> ProviderBehaviour:
    """Answer with JSON. Underscores in header names become hyphens."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    def play(line: ProviderConnection) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        line.send_head(status, {"content-type": "application/json", "content-length": str(len(body)), **named})
        line.send(body)

    return play


def stream_events(pieces: Sequence[bytes | threading.Event], *, whole: bool = True) -> ProviderBehaviour:
    """Stream the pieces, waiting for each threading.Event in between. Without `whole`, break off at the end."""

    def play(line: ProviderConnection) -> None:
        line.send_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for piece in pieces:
            if isinstance(piece, bytes):
                line.send_chunk(piece)
            else:
                piece.wait(MAX_WAIT_SECONDS)
        if whole:
            line.send(b"0\r\n\r\n")
        else:
            line.close_abruptly()

    return play


def never_answer(line: ProviderConnection) -> None:
    line.hangs_up.wait(MAX_WAIT_SECONDS)


def break_connection(line: ProviderConnection) -> None:
    line.close_abruptly()


def wait_then(gate: threading.Event, then: ProviderBehaviour) -> ProviderBehaviour:
    def play(line: ProviderConnection) -> None:
        gate.wait(MAX_WAIT_SECONDS)
        then(line)

    return play


# --- what the APIs say


def format_event(name: str, content: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()


def build_message(model: str = "claude-test", *, read: int = 100, wrote: int = 20, **more: int) -> dict[str, object]:
    usage = {"input_tokens": read, "output_tokens": wrote, **more}
    content = [{"type": "text", "text": "Hello."}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "model": model, "content": content, "usage": usage}


def build_message_events(model: str = "claude-test", *, read: int = 100, wrote: int = 20, **more: int) -> list[bytes]:
    """message_start (usage so far), some text, message_delta (usage at the end), message_stop."""
    begun = {"id": "msg_1", "model": model, "usage": {"input_tokens": read, "output_tokens": 1, **more}}
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}}
    usage = {"output_tokens": wrote}
    return [
        format_event("message_start", {"type": "message_start", "message": begun}),
        format_event("content_block_delta", text),
        format_event("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
        format_event("message_stop", {"type": "message_stop"}),
    ]


def build_error(kind: str = "rate_limit_error", words: str = "Slow down.") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": words}}
