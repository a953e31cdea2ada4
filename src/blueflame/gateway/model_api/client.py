"""The agent's side of a call: its state, the response to it, and whether the agent is still connected."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TypeVar

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.model_api.backoff import CallWait
from blueflame.gateway.model_api.budget import OpenCall
from blueflame.gateway.model_api.endpoints import ModelRoute
from blueflame.gateway.model_api.usage_log import CallRecord
from blueflame.gateway.options import ProviderApi
from blueflame.gateway.relay import Stream
from blueflame.lazy_dataclass import dataclass
from blueflame.system.http import HOP_BY_HOP_HEADERS, RequestHead

T = TypeVar("T")
DROPPED_RESPONSE_HEADERS = HOP_BY_HOP_HEADERS | {"content-length", "set-cookie", "alt-svc"}
DRAIN_SECONDS = 600.0  # after a disconnect, to read the usage at the end of the provider's answer
DRAIN_SECONDS_AT_END = 1.5


class AgentDisconnected(Exception):
    """The agent has disconnected, or its attempt ends."""


class AgentConnection:
    """The connection of an agent whose request has been read."""

    def __init__(self, stream: Stream, version: str) -> None:
        self._stream = stream
        self._chunks = version == "1.1"
        self._left = asyncio.Event()
        self._ends_at: float | None = None  # when the exchange with its provider is cut off
        self._timeout: asyncio.Timeout | None = None
        self.begun = False  # a status has been sent
        self.is_blocked = False  # it does not read what is sent
        self.down, self.down_at = 0, 0.0  # bytes, and when the last of them were sent

    @property
    def has_left(self) -> bool:
        """Whether it has disconnected, or its attempt ends."""
        return self._left.is_set()

    async def wait_for_disconnect(self) -> None:
        """Wait until the agent closes its side: it does not read an answer any more."""
        try:
            while await self._stream.reader.read(65536):
                pass  # one request per connection: what follows is ignored
        except OSError:
            pass
        self.limit_remaining(DRAIN_SECONDS)

    def limit_remaining(self, seconds: float) -> None:
        """Cancel the wait before a provider is asked; limit an answer in progress to this many seconds."""
        until = asyncio.get_running_loop().time() + seconds
        self._ends_at = until if self._ends_at is None else min(until, self._ends_at)
        self._left.set()
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(self._ends_at)

    def start_response(self, status: int, headers: tuple[tuple[str, bytes], ...], *, final: bool) -> None:
        """Send the status and headers. `final` tells the client not to retry."""
        self.begun = True
        kept = [f"{name}: {value.decode('latin-1')}" for name, value in headers if name not in DROPPED_RESPONSE_HEADERS]
        own = ["x-should-retry: false"] if final else []
        own += ["transfer-encoding: chunked"] if self._chunks else []
        lines = (f"HTTP/1.1 {status} {'OK' if status < 400 else 'Error'}", *kept, *own, "connection: close", "", "")
        self._write("\r\n".join(lines).encode("latin-1"))

    async def send_piece(self, piece: bytes) -> None:
        self.down, self.down_at = self.down + len(piece), time.monotonic()
        self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunks else piece)
        if self._left.is_set():
            return
        self.is_blocked = True
        try:
            await self._stream.writer.drain()
            self.is_blocked = False
        except OSError:
            self.limit_remaining(DRAIN_SECONDS)

    def end_response(self) -> None:
        """Tell the agent that the answer is complete."""
        if self._chunks:
            self._write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Reset the connection, so that the agent does not take a part for the whole answer."""
        self._stream.writer.transport.abort()

    def _write(self, data: bytes) -> None:
        if not self._stream.writer.is_closing():
            self._stream.writer.write(data)

    async def run_while_connected(self, waiting: Coroutine[object, object, T]) -> T:
        """Run what has to happen before the provider is asked. Raises AgentDisconnected."""
        work, leaving = asyncio.ensure_future(waiting), asyncio.ensure_future(self._left.wait())
        try:
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise AgentDisconnected
        finally:
            work.cancel()
            leaving.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)

    @asynccontextmanager
    async def limit_after_disconnect(self) -> AsyncIterator[None]:
        """Limit the exchange with the provider once the agent has disconnected. Raises AgentDisconnected."""
        try:
            async with asyncio.timeout_at(self._ends_at) as timeout:
                self._timeout = timeout
                try:
                    yield
                finally:
                    self._timeout = None
        except TimeoutError:
            if timeout.expired():
                raise AgentDisconnected from None
            raise


@asynccontextmanager
async def watch_agent(stream: Stream, version: str, agents: set[AgentConnection]) -> AsyncIterator[AgentConnection]:
    """Watch for a disconnect; the agent is one of `agents` meanwhile."""
    agent = AgentConnection(stream, version)
    watching = asyncio.ensure_future(agent.wait_for_disconnect())
    agents.add(agent)
    try:
        yield agent
    finally:
        agents.discard(agent)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@dataclass(kw_only=True, eq=False)
class ProviderCall:
    """One call of the agent. `asked` is its body, `body` what is sent to the provider."""

    route: ModelRoute
    head: RequestHead
    api: ProviderApi
    asked: bytes
    body: bytes
    open_call: OpenCall
    entry: AccessEntry
    number: int = field(default_factory=itertools.count(1).__next__)
    wait: CallWait = field(default_factory=CallWait)
    began: float = field(default_factory=time.monotonic)
    first_byte: float = 0.0
    sent_at: float = 0.0
    tries: int = 0
    status: int = 0
    refused: str = ""
    settled: bool = False
    broken: str = ""  # how the provider cut its answer off, or that it is silent

    @property
    def wire(self) -> str:
        return self.route.endpoint.wire if self.route.endpoint is not None else ""

    @property
    def streams(self) -> bool:
        return bool(self.wire) and (self.route.streams or self.open_call.asked.streams)

    def build_record(self) -> CallRecord:
        """Build the line for the usage log, as it is now."""
        ms = [round((at - self.began) * 1000) for at in (time.monotonic(), self.first_byte or self.began)]
        return CallRecord(
            number=self.number,
            api=self.route.api,
            status=self.status,
            refused=self.refused,
            ms=ms[0],
            first_byte_ms=ms[1],
            tries=self.tries,
        )
