"""A real Redis for tests, on a socket of its own, and servers that only look like one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="there is no redis-server: apt-get install redis-server"
)


@dataclass
class RedisServer:
    socket: Path
    options: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        args = ("--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700", "--save", "")
        self._process = subprocess.Popen(
            ["redis-server", *args, "--appendonly", "no", "--dir", str(self.socket.parent), *self.options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _await(lambda: _answers(self.socket))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.socket.unlink(missing_ok=True)

    def query(self, *args: str | bytes) -> object:
        import redis

        with redis.Redis.from_url(self.url, protocol=2) as client:
            return client.execute_command(*args)


def _answers(path: Path) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        client.sendall(b"PING\r\n")
        return client.recv(16).startswith((b"+PONG", b"-NOAUTH"))
    return False


def _await(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError("redis-server does not answer")
        time.sleep(0.01)


@contextmanager
def run_redis(*options: str) -> Iterator[RedisServer]:
    """The folder is short: the path of a socket has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="bf-redis-") as folder:
        server = RedisServer(Path(folder) / "s", options)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def run_impostor(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that accepts and does what `answer` says; yields its address."""
    with tempfile.TemporaryDirectory(prefix="bf-redis-") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        listener.listen()
        held: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    held.append(client)
                    threading.Thread(target=_suppress(answer), args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"unix://{folder}/s"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for client in held:
                client.close()


def _suppress(answer: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    def run(client: socket.socket) -> None:
        with suppress(OSError):
            answer(client)

    return run
