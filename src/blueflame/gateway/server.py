"""The gateway's process: listeners come in over the control socket, and the end of that socket is ours.

Forked from the warden before anything else runs; asyncio is imported here and not there.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import traceback
from typing import Any

from blueflame.gateway.access_log import AccessEntry, AccessLog
from blueflame.gateway.connect import RequestContext, Resolver, resolve_with_system
from blueflame.gateway.forward import forward_request
from blueflame.gateway.model_api.endpoints import find_route
from blueflame.gateway.model_api.handler import ModelHandler
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.model_api.usage_log import UsageLog
from blueflame.gateway.options import GatewayOptions
from blueflame.gateway.relay import GatewayTimeouts, Stream, close_stream, send_last_bytes
from blueflame.gateway.request import MAX_HEAD_BYTES, RequestHead, RequestRefused, build_malformed_refusal, parse_head
from blueflame.gateway.responses import TLS_ACCESS_DENIED, build_status_page, format_refusal
from blueflame.gateway.tunnel import TunnelRefused, open_tunnel

BACKLOG = 128
MAX_LOG_BYTES = 256 * 1024


def run(control: socket.socket, orders: GatewayOptions, resolve: Resolver = resolve_with_system) -> None:
    """Until the other end of the control socket is closed, whoever closed it. The caller must end the process then:
    the loop is not closed, since that would wait for a name server that does not answer."""
    book = AccessLog(f"{orders.folder}/gateway.jsonl", orders.attempt)
    try:
        asyncio.new_event_loop().run_until_complete(_serve_until_closed(control, orders, book, resolve))
    finally:
        book.close()


async def _serve_until_closed(
    control: socket.socket, orders: GatewayOptions, book: AccessLog, resolve: Resolver
) -> None:
    if orders.model is None:
        await _accept_listeners(control, RequestContext(orders=orders, book=book, resolve=resolve))
        return
    ledger, patience = UsageLog(orders.folder, orders.attempt), GatewayTimeouts()
    door = ModelHandler(orders.model, ledger, orders.attempt, StatusReporter(control), patience=patience)
    servers = await _accept_listeners(
        control, RequestContext(orders=orders, book=book, resolve=resolve, patience=patience, model=door)
    )
    for server in servers:
        server.close()
    await door.close()
    ledger.close()


async def _accept_listeners(control: socket.socket, counter: RequestContext) -> list[asyncio.Server]:
    """The servers, which go on until they are closed."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_failure)
    control.setblocking(False)
    arrivals: asyncio.Queue[socket.socket | None] = asyncio.Queue()
    loop.add_reader(control, lambda: _receive_listener(control, arrivals))
    servers = []  # kept: a server that nobody holds is closed
    while (listener := await arrivals.get()) is not None:
        servers.append(await start_listener(counter, listener))
    return servers


def _receive_listener(control: socket.socket, arrivals: asyncio.Queue[socket.socket | None]) -> None:
    try:
        data, handles, _, _ = socket.recv_fds(control, 1, 1)
    except BlockingIOError:
        return
    except OSError:
        data, handles = b"", []
    for handle in handles:
        arrivals.put_nowait(socket.socket(fileno=handle))
    if not data:
        asyncio.get_running_loop().remove_reader(control)
        arrivals.put_nowait(None)


async def start_listener(counter: RequestContext, listener: socket.socket) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve_connection(counter, Stream(reader=reader, writer=writer))

    return await asyncio.start_server(serve, sock=listener, limit=MAX_HEAD_BYTES, backlog=BACKLOG)


async def serve_connection(counter: RequestContext, client: Stream) -> None:
    """One connection, one request, one line in the book."""
    entry = counter.book.open_entry()
    try:
        await _route_request(counter, client, entry)
    except TunnelRefused as e:
        entry.set_decision("block", e.rule, e.words)
        await send_last_bytes(client, b"" if e.rule == "not_tls" else TLS_ACCESS_DENIED, counter.patience)
    except RequestRefused as e:
        entry.set_decision("block" if e.status < 500 else "error", e.rule, e.words)
        await send_last_bytes(client, format_refusal(e), counter.patience)
    except TimeoutError:
        entry.details = f"closed: nothing was said for {counter.patience.idle:g} seconds"
        client.writer.transport.abort()
    except OSError as e:  # one side went away in the middle; the other must not take that for a proper end
        entry.details = f"cut off: {e.strerror or type(e).__name__}"
        client.writer.transport.abort()
    finally:
        await close_stream(client, counter.patience)
        counter.book.close_entry(entry)  # last: whoever does not read what we said still takes up a place


async def _route_request(counter: RequestContext, client: Stream, entry: AccessEntry) -> None:
    if len(counter.book.open_entries) > counter.most_open:
        raise RequestRefused(
            503, "too_many_connections", f"more than {counter.most_open} connections are open; close some and try again"
        )
    head = await _read_head(client.reader, counter.patience.head)
    if head.method == "CONNECT":
        await open_tunnel(counter, head, client, entry)
    elif counter.model is not None and (route := find_route(head)) is not None:
        await counter.model.handle_request(head, route, client, entry)
    elif head.target.startswith("/"):
        await send_last_bytes(client, build_status_page(counter, head, entry), counter.patience)
    else:
        await forward_request(counter, head, client, entry)


async def _read_head(reader: asyncio.StreamReader, patience: float) -> RequestHead:
    try:
        async with asyncio.timeout(patience):
            first = await reader.readexactly(1)
            if not first.isupper():
                raise build_malformed_refusal("this is no HTTP/1.1 request; only HTTP is spoken here")
            return parse_head(first + await reader.readuntil(b"\r\n\r\n"))
    except TimeoutError:
        raise RequestRefused(408, "too_slow", f"the request was not complete within {patience:g} seconds") from None
    except asyncio.LimitOverrunError:
        raise RequestRefused(
            431, "malformed_request", f"the request's head is larger than {MAX_HEAD_BYTES} bytes"
        ) from None
    except asyncio.IncompleteReadError:
        raise build_malformed_refusal("the connection ended before the request did") from None


def _log_failure(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What should not happen, into gateway.log, which must not grow for ever."""
    if os.fstat(sys.stderr.fileno()).st_size > MAX_LOG_BYTES:
        return
    trouble = context.get("exception")
    print(f"gateway: {context.get('message', '')}", file=sys.stderr)
    if isinstance(trouble, BaseException):
        traceback.print_exception(trouble, limit=20, file=sys.stderr)
    sys.stderr.flush()
