"""Connections to the providers, kept for the next call: a TLS handshake takes time.

The address is configured by the person, so it may be on this machine or in a private network.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress

from blueflame.gateway.model_api.body import BrokenMessage
from blueflame.gateway.model_api.response import ClosedBeforeAnswer, ProviderAnswer, read_answer
from blueflame.gateway.options import Upstream
from blueflame.gateway.relay import GatewayTimeouts, Stream, describe_os_error

MAX_BUFFER_BYTES = 256 * 1024
MAX_IDLE_SECONDS = 50.0  # providers close idle connections after a minute or more
MAX_KEPT = 16
UNTRUSTED_CERTIFICATE = "its certificate cannot be trusted"


class ProviderUnreachable(OSError):
    """No answer: no network, no such name, connection refused or broken, or an untrusted certificate."""


class StaleConnection(ProviderUnreachable):
    """Closed before a byte of the answer: how a kept connection ends."""


class ProviderConnections:
    def __init__(self, timeouts: GatewayTimeouts, *, tls: bool) -> None:
        """Load the trusted certificates now, if a provider needs `tls`: it is slow, and a call would wait for it."""
        self._timeouts = timeouts
        self._kept: dict[str, list[tuple[float, Stream]]] = {}
        self._trust = ssl.create_default_context() if tls else None

    async def send_request(self, upstream: Upstream, request: bytes, method: str) -> ProviderAnswer:
        """Return the answer as soon as its head is read. Raises ProviderUnreachable."""
        kept = self._take_kept(upstream)
        if kept is not None:
            try:
                return await self._exchange(kept, upstream, request, method)
            except StaleConnection:
                pass  # the provider had closed it: not a failure yet
        return await self._exchange(await self._connect(upstream), upstream, request, method)

    def keep_or_close(self, upstream: Upstream, answer: ProviderAnswer) -> None:
        """Keep the connection after the whole body was read, if it can be reused."""
        kept = self._kept.setdefault(upstream.text, [])
        if answer.reusable and len(kept) < MAX_KEPT:
            kept.append((asyncio.get_running_loop().time(), answer.stream))
        else:
            answer.stream.writer.transport.abort()

    def close(self) -> None:
        for kept in self._kept.values():
            for _, stream in kept:
                stream.writer.transport.abort()
        self._kept.clear()

    def _take_kept(self, upstream: Upstream) -> Stream | None:
        kept = self._kept.get(upstream.text, [])
        now = asyncio.get_running_loop().time()
        while kept:
            since, stream = kept.pop()
            if now - since < MAX_IDLE_SECONDS and not stream.reader.at_eof() and not stream.writer.is_closing():
                return stream
            stream.writer.transport.abort()
        return None

    async def _exchange(self, stream: Stream, upstream: Upstream, request: bytes, method: str) -> ProviderAnswer:
        stream.writer.write(request)  # not drained: a provider may refuse before it has read all
        try:
            async with asyncio.timeout(self._timeouts.idle):
                return await read_answer(stream, method)
        except asyncio.CancelledError:
            stream.writer.transport.abort()
            raise
        except TimeoutError:
            stream.writer.transport.abort()
            raise BrokenMessage(f"{upstream.host} has not answered for {self._timeouts.idle:g} seconds") from None
        except OSError as e:
            stream.writer.transport.abort()
            raise (StaleConnection if _is_closed_early(e) else ProviderUnreachable)(
                f"{upstream.host}: {_describe_error(e)}"
            ) from e

    async def _connect(self, upstream: Upstream) -> Stream:
        try:
            async with asyncio.timeout(self._timeouts.connect):
                reader, writer = await asyncio.open_connection(
                    upstream.host,
                    upstream.port,
                    limit=MAX_BUFFER_BYTES,
                    ssl=self._trust if upstream.tls else None,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            raise ProviderUnreachable(f"{upstream.host} cannot be reached at port {upstream.port}: timed out") from None
        except ssl.SSLCertVerificationError as e:
            raise ProviderUnreachable(f"{upstream.host}: {UNTRUSTED_CERTIFICATE}: {e.verify_message}") from e
        except (OSError, UnicodeError) as e:
            raise ProviderUnreachable(f"{upstream.host} cannot be reached: {_describe_error(e)}") from e
        _enable_tcp_keepalive(writer)
        return Stream(reader=reader, writer=writer)


def _enable_tcp_keepalive(writer: asyncio.StreamWriter) -> None:
    """Detect a lost network: the kernel probes after a minute of silence and gives up after another."""
    connection = writer.get_extra_info("socket")
    with suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)


def _is_closed_early(e: OSError) -> bool:
    return isinstance(e, ConnectionError | ClosedBeforeAnswer)


def _describe_error(e: Exception) -> str:
    if isinstance(e, BrokenMessage):
        return str(e)
    if isinstance(e, ssl.SSLError):
        return f"TLS failed: {e.reason or e}"
    return describe_os_error(e)
