"""Connections to the providers. One that has served its answer is kept for the next call: a TLS handshake takes time.

The address is the person's own choice, so that it may well be on this machine or in a private network.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress

from blueflame.gateway.model_api.response import BrokenAnswer, ClosedBeforeAnswer, ProviderAnswer, read_answer
from blueflame.gateway.options import Upstream
from blueflame.gateway.relay import GatewayTimeouts, Stream

MAX_BUFFER_BYTES = 256 * 1024
MAX_IDLE_SECONDS = 50.0  # seconds that a kept connection is used again; providers close theirs after a minute and more
MAX_KEPT = 16
UNTRUSTED_CERTIFICATE = "its certificate cannot be trusted"


class ProviderUnreachable(OSError):
    """No answer came: no network, no such name, nobody there, no trust, or a connection that broke."""


class StaleConnection(ProviderUnreachable):
    """Closed before a byte of the answer: for a connection that was kept, that is how it ends."""


class ProviderConnections:
    def __init__(self, patience: GatewayTimeouts, *, tls: bool) -> None:
        """Whom to trust is read now, where `tls` is spoken: that takes longer than many an answer."""
        self._patience = patience
        self._kept: dict[str, list[tuple[float, Stream]]] = {}
        self._trust = ssl.create_default_context() if tls else None

    async def send_request(self, upstream: Upstream, request: bytes, method: str) -> ProviderAnswer:
        """The answer as soon as its head is here. Raises Unreachable."""
        kept = self._take_kept(upstream)
        if kept is not None:
            try:
                return await self._exchange(kept, upstream, request, method)
            except StaleConnection:
                pass  # the provider had closed it meanwhile: that is no trouble yet
        return await self._exchange(await self._connect(upstream), upstream, request, method)

    def keep_or_close(self, upstream: Upstream, answer: ProviderAnswer) -> None:
        """After the whole body was read."""
        kept = self._kept.setdefault(upstream.text, [])
        if answer.stays and len(kept) < MAX_KEPT:
            kept.append((asyncio.get_running_loop().time(), answer.side))
        else:
            answer.side.writer.transport.abort()

    def close(self) -> None:
        for kept in self._kept.values():
            for _, side in kept:
                side.writer.transport.abort()
        self._kept.clear()

    def _take_kept(self, upstream: Upstream) -> Stream | None:
        kept = self._kept.get(upstream.text, [])
        now = asyncio.get_running_loop().time()
        while kept:
            since, side = kept.pop()
            if now - since < MAX_IDLE_SECONDS and not side.reader.at_eof() and not side.writer.is_closing():
                return side
            side.writer.transport.abort()
        return None

    async def _exchange(self, side: Stream, upstream: Upstream, request: bytes, method: str) -> ProviderAnswer:
        side.writer.write(request)  # not drained: a provider may refuse before it has heard all
        try:
            async with asyncio.timeout(self._patience.idle):
                return await read_answer(side, method)
        except asyncio.CancelledError:
            side.writer.transport.abort()
            raise
        except TimeoutError:
            side.writer.transport.abort()
            raise ProviderUnreachable(f"{upstream.host} has not answered for {self._patience.idle:g} seconds") from None
        except OSError as e:
            side.writer.transport.abort()
            raise (StaleConnection if _is_closed_early(e) else ProviderUnreachable)(
                f"{upstream.host}: {_describe_error(e)}"
            ) from e

    async def _connect(self, upstream: Upstream) -> Stream:
        try:
            async with asyncio.timeout(self._patience.connect):
                reader, writer = await asyncio.open_connection(
                    upstream.host,
                    upstream.port,
                    limit=MAX_BUFFER_BYTES,
                    ssl=self._trust if upstream.tls else None,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            raise ProviderUnreachable(f"{upstream.host} does not answer at port {upstream.port}") from None
        except ssl.SSLCertVerificationError as e:
            raise ProviderUnreachable(f"{upstream.host}: {UNTRUSTED_CERTIFICATE}: {e.verify_message}") from e
        except (OSError, UnicodeError) as e:
            raise ProviderUnreachable(f"{upstream.host} cannot be reached: {_describe_error(e)}") from e
        _enable_tcp_keepalive(writer)
        return Stream(reader=reader, writer=writer)


def _enable_tcp_keepalive(writer: asyncio.StreamWriter) -> None:
    """A network that went away says nothing; the kernel asks after a minute of silence and gives up after another."""
    plug = writer.get_extra_info("socket")
    with suppress(OSError, AttributeError):
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)


def _is_closed_early(e: OSError) -> bool:
    return isinstance(e, ConnectionError | ClosedBeforeAnswer)


def _describe_error(e: Exception) -> str:
    if isinstance(e, BrokenAnswer):
        return str(e)
    if isinstance(e, ssl.SSLError):
        return f"TLS failed: {e.reason or e}"
    if isinstance(e, OSError) and e.errno and e.errno > 0:
        return os.strerror(e.errno)
    return (e.strerror if isinstance(e, OSError) else None) or type(e).__name__
