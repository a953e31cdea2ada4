"""The gateway's process: it receives listeners over the control socket and ends with that socket.

Forked from the warden before anything else runs; asyncio is imported here and not there.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import traceback
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from blueflame.gateway.access_log import AccessEntry, AccessLog
from blueflame.gateway.connect import RequestContext, Resolver, resolve_with_system
from blueflame.gateway.forward import forward_request
from blueflame.gateway.model_api.endpoints import find_route
from blueflame.gateway.model_api.handler import ModelHandler
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.model_api.usage_log import UsageLog
from blueflame.gateway.options import SETUP_LISTENER, GatewayOptions
from blueflame.gateway.relay import GatewayTimeouts, Stream, close_stream, send_last_bytes
from blueflame.gateway.responses import TLS_ACCESS_DENIED, build_status_page
from blueflame.gateway.tunnel import TunnelRefused, open_tunnel
from blueflame.system.http import (
    MAX_HEAD_BYTES,
    RequestHead,
    RequestRefused,
    build_malformed_refusal,
    format_refusal,
    parse_head,
)

BACKLOG = 128
MAX_LOG_BYTES = 256 * 1024
Arrivals: TypeAlias = "asyncio.Queue[tuple[bytes, socket.socket] | None]"
"""Listeners with their kind; None at the end."""


def run(control: socket.socket, options: GatewayOptions, resolve: Resolver = resolve_with_system) -> None:
    """Serve until the other end of the control socket is closed. The caller must end the process then: the loop is
    not closed, since that would wait for a name server that does not answer."""
    access_log = AccessLog(f"{options.folder}/gateway.jsonl", options.attempt)
    try:
        asyncio.new_event_loop().run_until_complete(_serve_until_closed(control, options, access_log, resolve))
    finally:
        access_log.close()


async def _serve_until_closed(
    control: socket.socket, options: GatewayOptions, access_log: AccessLog, resolve: Resolver
) -> None:
    if options.model is None:
        await _accept_listeners(control, RequestContext(options=options, access_log=access_log, resolve=resolve))
        return
    usage_log, timeouts = UsageLog(options.folder, options.attempt), GatewayTimeouts()
    handler = ModelHandler(options.model, usage_log, options.folder, StatusReporter(control), timeouts=timeouts)
    servers = await _accept_listeners(
        control,
        RequestContext(options=options, access_log=access_log, resolve=resolve, timeouts=timeouts, model=handler),
    )
    for server in servers:
        server.close()
    await handler.close()
    usage_log.close()


async def _accept_listeners(control: socket.socket, context: RequestContext) -> list[asyncio.Server]:
    """Return the servers, which run until they are closed."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(partial(_handle_failure, context.access_log, context.max_connections, control))
    control.setblocking(False)
    arrivals: Arrivals = asyncio.Queue()
    loop.add_reader(control, lambda: _receive_listener(control, arrivals))
    in_setup = replace(context, options=context.options.extend_for_setup(), model=None)
    servers = []  # kept: a server without a reference is closed
    while (arrival := await arrivals.get()) is not None:
        kind, listener = arrival
        servers.append(await start_listener(in_setup if kind == SETUP_LISTENER else context, listener))
    return servers


def _receive_listener(control: socket.socket, arrivals: Arrivals) -> None:
    try:
        data, handles, _, _ = socket.recv_fds(control, 1, 1)
    except BlockingIOError:
        return
    except OSError:
        data, handles = b"", []
    for handle in handles:
        arrivals.put_nowait((data, socket.socket(fileno=handle)))
    if not data:
        asyncio.get_running_loop().remove_reader(control)
        arrivals.put_nowait(None)


async def start_listener(context: RequestContext, listener: socket.socket) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve_connection(context, Stream(reader=reader, writer=writer))

    return await asyncio.start_server(serve, sock=listener, limit=MAX_HEAD_BYTES, backlog=BACKLOG)


async def serve_connection(context: RequestContext, client: Stream) -> None:
    """Serve one connection: one request, one line in the access log."""
    entry = context.access_log.open_entry()
    try:
        await _route_request(context, client, entry)
    except TunnelRefused as e:
        entry.set_decision("block", e.rule, e.words)
        await send_last_bytes(client, b"" if e.rule == "not_tls" else TLS_ACCESS_DENIED, context.timeouts)
    except RequestRefused as e:
        entry.set_decision("block" if e.status < 500 else "error", e.rule, e.words)
        await send_last_bytes(client, format_refusal(e), context.timeouts)
    except TimeoutError:
        entry.details = f"closed: idle for {context.timeouts.idle:g} seconds"
        client.writer.transport.abort()
    except OSError as e:  # one side disconnected; the other must not take that for a proper end
        entry.details = f"cut off: {e.strerror or type(e).__name__}"
        client.writer.transport.abort()
    finally:
        await close_stream(client, context.timeouts)
        context.access_log.close_entry(entry)  # last: a client that does not read the answer still counts as open


async def _route_request(context: RequestContext, client: Stream, entry: AccessEntry) -> None:
    if len(context.access_log.open_entries) > context.max_connections:
        raise RequestRefused(
            503,
            "too_many_connections",
            f"more than {context.max_connections} connections are open; close some and try again",
        )
    head = await _read_head(client.reader, context.timeouts.head)
    if head.method == "CONNECT":
        await open_tunnel(context, head, client, entry)
    elif context.model is not None and (route := find_route(head)) is not None:
        await context.model.handle_request(head, route, client, entry)
    elif head.target.startswith("/"):
        await send_last_bytes(client, build_status_page(context, head, entry), context.timeouts)
    else:
        await forward_request(context, head, client, entry)


async def _read_head(reader: asyncio.StreamReader, seconds: float) -> RequestHead:
    try:
        async with asyncio.timeout(seconds):
            first = await reader.readexactly(1)
            if not first.isupper():
                raise build_malformed_refusal("not an HTTP/1.1 request; only HTTP is served here")
            return parse_head(first + await reader.readuntil(b"\r\n\r\n"))
    except TimeoutError:
        raise RequestRefused(408, "too_slow", f"the request was not complete within {seconds:g} seconds") from None
    except asyncio.LimitOverrunError:
        raise RequestRefused(
            431, "malformed_request", f"the request's head is larger than {MAX_HEAD_BYTES} bytes"
        ) from None
    except asyncio.IncompleteReadError:
        raise build_malformed_refusal("the connection ended before the request did") from None


def _handle_failure(
    access_log: AccessLog, usual: int, control: socket.socket, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Report that no connection can be accepted, unless the agent has opened so many. Log what fails unexpectedly."""
    code = getattr(context.get("exception"), "errno", None)
    if code in (errno.EMFILE, errno.ENFILE) and len(access_log.open_entries) <= usual:
        StatusReporter(control).report("hindered", {"reason": "it may open no more files: raise 'ulimit -n'"})
    _log_failure(context)


def _log_failure(context: dict[str, Any]) -> None:
    """Write an unexpected failure to gateway.log, up to a limit."""
    if os.fstat(sys.stderr.fileno()).st_size > MAX_LOG_BYTES:
        return
    failure = context.get("exception")
    print(f"gateway: {context.get('message', '')}", file=sys.stderr)
    if isinstance(failure, BaseException):
        traceback.print_exception(failure, limit=20, file=sys.stderr)
    sys.stderr.flush()
