"""What the gateway adds to a model's answer: its first byte and a long stream, through it and direct, in turns."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import blueflame
from benchmarks import Figure, Report

ROUNDS = 200
LONG_ROUNDS = 5
EVENTS = 20_000
SMALL = {"ROUNDS": 2, "LONG_ROUNDS": 1, "EVENTS": 100}
TOKEN = "bf-benchmark-token"
SOURCE = str(Path(blueflame.__file__).parents[1])
BODY = json.dumps({"model": "claude-test", "stream": True, "messages": ["x" * 50_000]}).encode()  # as an agent's are
PROVIDER = """
import asyncio, json, sys
events = int(sys.argv[1])
def event(content):
    data = f"event: {content['type']}\\ndata: {json.dumps(content)}\\n\\n".encode()
    return b"%x\\r\\n%b\\r\\n" % (len(data), data)
begun = event({"type": "message_start", "message": {"model": "claude-test", "usage": {"input_tokens": 9}}})
word = event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "some more words "}})
ended = event({"type": "message_delta", "usage": {"output_tokens": 9}}) + event({"type": "message_stop"})
head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
async def serve(reader, writer):
    try:
        while True:
            asked = await reader.readuntil(b"\\r\\n\\r\\n")
            size = int(asked.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0])
            await reader.readexactly(size)
            writer.write(head + begun)
            if b"/v1/messages?long" in asked:
                for _ in range(events // 50):
                    writer.write(word * 50)
                    await writer.drain()
            writer.write(ended + b"0\\r\\n\\r\\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
GATEWAY = """
import json, socket, sys
sys.path.insert(0, sys.argv[1])
from blueflame.warden.gateway_process import start_gateway
gateway = start_gateway(sys.argv[2], json.loads(sys.argv[3]), {"key": "sk-benchmark"})
door = socket.create_server(("127.0.0.1", 0), backlog=128)
print(door.getsockname()[1], flush=True)
gateway.add_listener(door)
sys.stdin.read()
gateway.close()
"""


def run() -> Report:
    with (
        _run_program(PROVIDER, str(EVENTS)) as far,
        tempfile.TemporaryDirectory() as folder,
        _run_program(GATEWAY, SOURCE, folder, json.dumps(_build_orders(far))) as near,
    ):
        ways = [(far, "/v1/messages"), (near, "/anthropic/v1/messages")]
        short = _measure_alternately(ROUNDS, *(partial(_measure_first_byte, port, path) for port, path in ways))
        long = _measure_alternately(
            LONG_ROUNDS, *(partial(_measure_first_byte, port, f"{path}?long") for port, path in ways)
        )
    return Report(
        name="gateway",
        about=f"a model call of {len(BODY)} bytes, direct and through the gateway in turns, {ROUNDS} rounds,"
        f" and {LONG_ROUNDS} streams of {EVENTS} events",
        figures=(*_compare_first_bytes(*short), *_compare_long_streams(*long)),
    )


Times = list[tuple[float, float]]
"""First byte and whole answer, in milliseconds."""


def _compare_first_bytes(direct: Times, through: Times) -> Iterator[Figure]:
    (near, far) = ([first for first, _ in times] for times in (through, direct))
    for word, pick in (("least", min), ("median", median)):
        yield Figure(name=f"first byte direct, {word}", value=pick(far), unit="ms")
        yield Figure(name=f"first byte through the gateway, {word}", value=pick(near), unit="ms")
        yield Figure(
            name=f"first byte: what the gateway adds, {word}", value=pick(near) - pick(far), unit="ms", aim=5.0
        )
        yield Figure(name=f"first byte: through over direct, {word}", value=pick(near) / pick(far), unit="x")


def _compare_long_streams(direct: Times, through: Times) -> Iterator[Figure]:
    near, far = (min(whole for _, whole in times) for times in (through, direct))
    yield Figure(name="a long stream through the gateway, least", value=near, unit="ms")
    yield Figure(name="a long stream: microseconds added to an event", value=(near - far) * 1000 / EVENTS, unit="us")
    yield Figure(name="a long stream: through over direct, least", value=near / far, unit="x")


def _measure_alternately(
    rounds: int, direct: Callable[[], tuple[float, float]], through: Callable[[], tuple[float, float]]
) -> tuple[Times, Times]:
    for _ in range(5 if rounds > 5 else 1):  # the first ones only warm up
        direct()
        through()
    pairs = [(direct(), through()) for _ in range(rounds)]
    return [one for one, _ in pairs], [other for _, other in pairs]


def _measure_first_byte(port: int, path: str) -> tuple[float, float]:
    begun = perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as plug:
        head = f"POST {path} HTTP/1.1\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(BODY)}\r\n\r\n".encode()
        plug.sendall(head + BODY)
        tail = plug.recv(65536)
        first = perf_counter() - begun
        assert tail.startswith(b"HTTP/1.1 200"), tail[:200]
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            part = plug.recv(262_144)
            assert part, "the answer broke off"
            tail = tail[-16:] + part
    return first * 1000, (perf_counter() - begun) * 1000


def _build_orders(port: int) -> dict[str, object]:
    names = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "web_search")
    model = {
        "runtime": "claude",
        "token": TOKEN,
        "apis": {"anthropic": {"upstream": f"http://127.0.0.1:{port}", "auth": "x-api-key", "secret": "key"}},
        "budgets": [{"name": "attempt", "unit": "usd", "limit": 10**12}],
        "warn": 0.8,
        "prices": [],
        "fallback": dict.fromkeys(names, 1_000_000),
        "rate_limit_wait": 1.0,
        "outage_wait": 1.0,
    }
    return {"port": 61128, "hosts": [], "model": model}


@contextmanager
def _run_program(text: str, *arguments: str) -> Iterator[int]:
    """One that says at which port it can be reached."""
    argv = [sys.executable, "-I", "-S", "-E", "-c", text, *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        try:
            yield int(program.stdout.readline())
        finally:
            program.terminate()


if __name__ == "__main__":
    from benchmarks.__main__ import format_table

    print(format_table(run()))
