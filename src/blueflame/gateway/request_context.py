"""What every request is served with."""

from __future__ import annotations

from dataclasses import dataclass, field

from blueflame.gateway.access_log import AccessLog
from blueflame.gateway.connect import (
    Connector,
    Resolver,
    connect_to_first,
    connect_with_system,
    find_allowing_rule,
    resolve_public_addresses,
    resolve_with_system,
)
from blueflame.gateway.model_api.handler import ModelHandler
from blueflame.gateway.options import GatewayOptions
from blueflame.gateway.relay import GatewayTimeouts, Stream
from blueflame.gateway.request import RequestRefused

MAX_CONNECTIONS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The two ways into the world, `resolve` and `connect`, can be others in tests."""

    orders: GatewayOptions
    book: AccessLog
    resolve: Resolver = resolve_with_system
    connect: Connector = connect_with_system
    patience: GatewayTimeouts = field(default_factory=GatewayTimeouts)
    most_open: int = MAX_CONNECTIONS
    model: ModelHandler | None = None


async def connect_to_host(counter: RequestContext, host: str, port: int) -> tuple[str, Stream]:
    """The rule that allows it, and the connection."""
    orders, patience = counter.orders, counter.patience
    rule = find_allowing_rule(orders, host, port)
    if counter.book.problem:
        raise RequestRefused(503, "record_full", f"nothing more can be let through: {counter.book.problem}")
    addresses = await resolve_public_addresses(orders, host, port, counter.resolve, patience)
    return rule.text, await connect_to_first(orders, host, addresses, counter.connect, patience)
