"""What every request is served with."""

from __future__ import annotations

from dataclasses import dataclass, field

from blueflame.gateway.access_log import Book
from blueflame.gateway.connect import (
    Connect,
    Resolve,
    admit,
    connect_first,
    find_addresses,
    system_connect,
    system_resolve,
)
from blueflame.gateway.model_api.handler import Door
from blueflame.gateway.options import Orders
from blueflame.gateway.relay import Patience, Side
from blueflame.gateway.request import Refused

MOST_OPEN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """The two ways into the world, `resolve` and `connect`, can be others in tests."""

    orders: Orders
    book: Book
    resolve: Resolve = system_resolve
    connect: Connect = system_connect
    patience: Patience = field(default_factory=Patience)
    most_open: int = MOST_OPEN
    model: Door | None = None


async def reach(counter: Counter, host: str, port: int) -> tuple[str, Side]:
    """The rule that allows it, and the connection."""
    orders, patience = counter.orders, counter.patience
    rule = admit(orders, host, port)
    if counter.book.problem:
        raise Refused(503, "record_full", f"nothing more can be let through: {counter.book.problem}")
    addresses = await find_addresses(orders, host, port, counter.resolve, patience)
    return rule.text, await connect_first(orders, host, addresses, counter.connect, patience)
