"""A gateway for model calls in its own process, started as a warden does, and an agent's side of a call."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import blueflame
from support.small_sandbox import SystemUser
from support.wardens import is_alive, wait_until

ROOT = str(Path(blueflame.__file__).parent.parent)
TOKEN, SECRET = "bf-the-token-of-this-attempt", "sk-the-secret-of-the-person"
PRICE = {"input": 1_000_000, "output": 5_000_000, "cache_read": 100_000, "cache_write": 1_250_000}
FALLBACK = {**PRICE, "input": 9_000_000, "cache_write_1h": 2_000_000, "web_search": 10_000}
WARDEN = """
import json, os, socket, sys
sys.path.insert(0, sys.argv[1])
from blueflame.warden.poll_loop import PollLoop
from blueflame.warden.gateway_process import start_gateway
from blueflame.warden.process_tree import read_process
poll_loop = PollLoop()
given = json.loads(sys.stdin.readline())
gateway = start_gateway(sys.argv[2], given["gateway"], given["secrets"])
door = socket.create_server(("127.0.0.1", 0), backlog=128)
port = door.getsockname()[1]
gateway.add_listener(door)
print(json.dumps({"pid": gateway.pid, "port": port}), flush=True)
for line in sys.stdin:
    if line == "close\\n":
        gateway.close()
    problem = gateway.problem
    print(json.dumps({"parked": gateway.parked, "refused": gateway.refused, "gave_up": gateway.gave_up,
                      "unanswered": gateway.unanswered,
                      "near": gateway.take_warnings(),
                      "problem": problem, "lives": read_process(gateway.pid) is not None}), flush=True)
"""


def build_model_options(upstream: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Build the options as the orchestrator writes them into launch.json, with one provider for all APIs."""
    apis = {
        "anthropic": {"upstream": upstream, "auth": "x-api-key", "secret": "key"},
        "openai": {"upstream": f"{upstream}/v1", "auth": "bearer", "secret": "key"},
        "gemini": {"upstream": upstream, "auth": "x-goog-api-key", "secret": "key"},
    }
    return {
        "runtime": "claude",
        "token": TOKEN,
        "apis": apis,
        "budgets": [],
        "warn": 0.8,
        "prices": [{"model": "*-test", **FALLBACK, "input": 1_000_000}],
        "fallback": FALLBACK,
        "rate_limit_wait": 60.0,
        "outage_wait": 60.0,
        "shared": "",
        "record": "",
        "replay": "",
        "key": "worker/task-001/1",
        "places": {},
        **more,
    }


@dataclass
class RunningGateway:
    folder: Path
    warden: subprocess.Popen[str]
    pid: int
    port: int

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def read_status(self, word: str = "look") -> dict[str, Any]:
        """Read what the warden knows about the gateway."""
        with self._lock:
            assert self.warden.stdin is not None
            assert self.warden.stdout is not None
            self.warden.stdin.write(f"{word}\n")
            self.warden.stdin.flush()
            found: dict[str, Any] = json.loads(self.warden.stdout.readline())
            return found

    def wait_until_parked(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def is_parked() -> bool:
            parked = self.read_status()["parked"]
            found.extend([parked] if parked else [])
            return bool(found)

        wait_until(is_parked, "it is parked")
        return found[0]

    def read_usage(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "usage.jsonl").read_text().splitlines()]

    def wait_for_usage(self, count: int = 1) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.read_usage()) >= count, f"usage.jsonl has {count} lines")
        return self.read_usage()

    def start_call(
        self, target: str = "/anthropic/v1/messages", body: object = None, *, method: str = "POST", **headers: str
    ) -> AgentCall:
        """Send a request. `body` becomes JSON unless it is bytes; underscores in header names become hyphens."""
        plug = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        data = body if isinstance(body, bytes) else json.dumps(body or {"model": "claude-test"}).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if not any(name in named for name in ("x-api-key", "authorization", "x-goog-api-key", "no-token")):
            named["x-api-key"] = TOKEN
        if "transfer-encoding" not in named:
            named.setdefault("content-length", str(len(data)))
        lines = [
            f"{method} {target} HTTP/1.1",
            "host: 127.0.0.1",
            *(f"{name}: {value}" for name, value in named.items()),
        ]
        plug.sendall("\r\n".join((*lines, "", "")).encode() + data)
        return AgentCall(plug)

    def send_call(
        self, target: str = "/anthropic/v1/messages", body: object = None, *, method: str = "POST", **headers: str
    ) -> AgentAnswer:
        with self.start_call(target, body, method=method, **headers) as talk:
            return talk.read_answer()


@dataclass(frozen=True)
class AgentAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool  # the body has its proper end

    @property
    def content(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)


class AgentCall:
    """One connection of an agent."""

    def __init__(self, plug: socket.socket) -> None:
        self._plug = plug
        self._file = plug.makefile("rb")

    def __enter__(self) -> AgentCall:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._plug.close()

    def finish_sending(self) -> None:
        self._plug.shutdown(socket.SHUT_WR)

    def has_ended(self) -> bool:
        """Whether an answer has begun to arrive."""
        return bool(select.select([self._plug], [], [], 0)[0])

    def read_head(self) -> tuple[int, dict[str, str]]:
        status = int(self._file.readline().split()[1])
        headers = {}
        while (line := self._file.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def read_chunk(self) -> bytes:
        """Read the next chunk; empty at the end."""
        size = int(self._file.readline(), 16)
        data = self._file.read(size)
        assert self._file.read(2) == b"\r\n"
        return data

    def read_answer(self) -> AgentAnswer:
        status, headers = self.read_head()
        if "content-length" in headers:
            return AgentAnswer(status, headers, self._file.read(int(headers["content-length"])), whole=True)
        parts = []
        try:
            while part := self.read_chunk():
                parts.append(part)
        except (OSError, ValueError):
            return AgentAnswer(status, headers, b"".join(parts), whole=False)
        return AgentAnswer(status, headers, b"".join(parts), whole=True)


@contextmanager
def start_model_gateway(
    folder: Path,
    orders: Mapping[str, Any],
    secrets: Mapping[str, str] | None = None,
    who: SystemUser | None = None,
    **env: str,
) -> Iterator[RunningGateway]:
    folder.mkdir(parents=True, exist_ok=True)
    python = [*who.argv, who.python] if who is not None else [sys.executable]
    argv = [*python, "-I", "-S", "-E", "-X", "utf8", "-c", WARDEN, ROOT, str(folder)]
    warden = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
    assert warden.stdin is not None
    assert warden.stdout is not None
    with warden:
        gateway = {"port": 61128, "hosts": [], "model": dict(orders)}
        given = {"gateway": gateway, "secrets": {"key": SECRET} if secrets is None else dict(secrets)}
        warden.stdin.write(json.dumps(given) + "\n")
        warden.stdin.flush()
        reported = json.loads(warden.stdout.readline())
        try:
            yield RunningGateway(folder, warden, reported["pid"], reported["port"])
        finally:
            warden.kill()
    wait_until(lambda: not is_alive(reported["pid"]), "the gateway has ended")
