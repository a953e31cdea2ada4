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

from blueflame.gateway.access_log import Book, Entry
from blueflame.gateway.connect import Resolve, system_resolve
from blueflame.gateway.forward import forward
from blueflame.gateway.model_api.endpoints import route_of
from blueflame.gateway.model_api.handler import Door
from blueflame.gateway.model_api.status_events import Teller
from blueflame.gateway.model_api.usage_log import Ledger
from blueflame.gateway.options import Orders
from blueflame.gateway.own_pages import page
from blueflame.gateway.relay import Patience, Side, close, say
from blueflame.gateway.request import LARGEST_HEAD, Head, Refused, malformed, read_head
from blueflame.gateway.request_context import Counter
from blueflame.gateway.responses import DENIED, refusal
from blueflame.gateway.tunnel import Cut, tunnel

BACKLOG = 128
LARGEST_LOG = 256 * 1024


def run(control: socket.socket, orders: Orders, resolve: Resolve = system_resolve) -> None:
    """Until the other end of the control socket is closed, whoever closed it. The caller must end the process then:
    the loop is not closed, since that would wait for a name server that does not answer."""
    book = Book(f"{orders.folder}/gateway.jsonl", orders.attempt)
    try:
        asyncio.new_event_loop().run_until_complete(_live(control, orders, book, resolve))
    finally:
        book.close()


async def _live(control: socket.socket, orders: Orders, book: Book, resolve: Resolve) -> None:
    if orders.model is None:
        await _until_gone(control, Counter(orders=orders, book=book, resolve=resolve))
        return
    ledger, patience = Ledger(orders.folder, orders.attempt), Patience()
    door = Door(orders.model, ledger, orders.attempt, Teller(control), patience=patience)
    servers = await _until_gone(
        control, Counter(orders=orders, book=book, resolve=resolve, patience=patience, model=door)
    )
    for server in servers:
        server.close()
    await door.close()
    ledger.close()


async def _until_gone(control: socket.socket, counter: Counter) -> list[asyncio.Server]:
    """The servers, which go on until they are closed."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_tell_trouble)
    control.setblocking(False)
    arrivals: asyncio.Queue[socket.socket | None] = asyncio.Queue()
    loop.add_reader(control, lambda: _take(control, arrivals))
    servers = []  # kept: a server that nobody holds is closed
    while (listener := await arrivals.get()) is not None:
        servers.append(await listen(counter, listener))
    return servers


def _take(control: socket.socket, arrivals: asyncio.Queue[socket.socket | None]) -> None:
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


async def listen(counter: Counter, listener: socket.socket) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve_one(counter, Side(reader=reader, writer=writer))

    return await asyncio.start_server(serve, sock=listener, limit=LARGEST_HEAD, backlog=BACKLOG)


async def serve_one(counter: Counter, client: Side) -> None:
    """One connection, one request, one line in the book."""
    entry = counter.book.begin()
    try:
        await _answer(counter, client, entry)
    except Cut as e:
        entry.note("block", e.rule, e.words)
        await say(client, b"" if e.rule == "not_tls" else DENIED, counter.patience)
    except Refused as e:
        entry.note("block" if e.status < 500 else "error", e.rule, e.words)
        await say(client, refusal(e), counter.patience)
    except TimeoutError:
        entry.details = f"closed: nothing was said for {counter.patience.idle:g} seconds"
        client.writer.transport.abort()
    except OSError as e:  # one side went away in the middle; the other must not take that for a proper end
        entry.details = f"cut off: {e.strerror or type(e).__name__}"
        client.writer.transport.abort()
    finally:
        await close(client, counter.patience)
        counter.book.end(entry)  # last: whoever does not read what we said still takes up a place


async def _answer(counter: Counter, client: Side, entry: Entry) -> None:
    if len(counter.book.open) > counter.most_open:
        raise Refused(
            503, "too_many_connections", f"more than {counter.most_open} connections are open; close some and try again"
        )
    head = await _hear(client.reader, counter.patience.head)
    if head.method == "CONNECT":
        await tunnel(counter, head, client, entry)
    elif counter.model is not None and (route := route_of(head)) is not None:
        await counter.model.answer(head, route, client, entry)
    elif head.target.startswith("/"):
        await say(client, page(counter, head, entry), counter.patience)
    else:
        await forward(counter, head, client, entry)


async def _hear(reader: asyncio.StreamReader, patience: float) -> Head:
    try:
        async with asyncio.timeout(patience):
            first = await reader.readexactly(1)
            if not first.isupper():
                raise malformed("this is no HTTP/1.1 request; only HTTP is spoken here")
            return read_head(first + await reader.readuntil(b"\r\n\r\n"))
    except TimeoutError:
        raise Refused(408, "too_slow", f"the request was not complete within {patience:g} seconds") from None
    except asyncio.LimitOverrunError:
        raise Refused(431, "malformed_request", f"the request's head is larger than {LARGEST_HEAD} bytes") from None
    except asyncio.IncompleteReadError:
        raise malformed("the connection ended before the request did") from None


def _tell_trouble(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What should not happen, into gateway.log, which must not grow for ever."""
    if os.fstat(sys.stderr.fileno()).st_size > LARGEST_LOG:
        return
    trouble = context.get("exception")
    print(f"gateway: {context.get('message', '')}", file=sys.stderr)
    if isinstance(trouble, BaseException):
        traceback.print_exception(trouble, limit=20, file=sys.stderr)
    sys.stderr.flush()
