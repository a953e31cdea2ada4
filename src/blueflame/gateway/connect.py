"""From a listed name to a connection: resolved once, every address checked, and connected to the very address checked.

A second look-up between check and connection would be a door: a name server may answer differently each time.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from blueflame.gateway.access_log import AccessLog
from blueflame.gateway.model_api.handler import ModelHandler
from blueflame.gateway.options import AllowRule, GatewayOptions, find_rule, is_ip_literal, list_allowed_ports
from blueflame.gateway.relay import GatewayTimeouts, Stream
from blueflame.gateway.request import MAX_HEAD_BYTES, RequestRefused

RESERVED_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # "this network"; Linux takes 0.0.0.0 for the machine itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; cloud metadata lives here, too
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, with the metadata services of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
PUBLIC_IPV6 = IPv6Network("2000::/3")  # all that was ever given out for the public net
RESERVED_IPV6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
NAT64 = IPv6Network("64:ff9b::/96")  # carries an IPv4 address in its last 32 bits
PRIVATE_IPV4 = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"))
PRIVATE_IPV6 = IPv6Network("fc00::/7")


def is_public(text: str) -> bool:
    """False as well for what is no address at all."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return _is_public_ipv4(address) if isinstance(address, IPv4Address) else _is_public_ipv6(address)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in network for network in RESERVED_IPV4)


def _is_public_ipv6(address: IPv6Address) -> bool:
    if address in NAT64:
        return _is_public_ipv4(IPv4Address(int(address) & 0xFFFFFFFF))
    return (
        address.scope_id is None
        and address in PUBLIC_IPV6
        and not any(address in network for network in RESERVED_IPV6)  # mapped, 6to4 and Teredo are not in or are here
    )


def is_private_use(text: str) -> bool:
    """Somebody's own network, which a person may list by its literal address; never the machine itself or its link."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return any(address in network for network in PRIVATE_IPV4)
    return address in PRIVATE_IPV6


def is_same_address(one: str, other: str) -> bool:
    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False


MAX_ADDRESSES = 6

Address = tuple[str, int]
Resolver = Callable[[str, int], Awaitable[list[Address]]]
Connector = Callable[[Address], Awaitable[Stream]]


def find_allowing_rule(orders: GatewayOptions, host: str, port: int) -> AllowRule:
    """The rule of the allow list that lets this host be reached at this port."""
    rule = find_rule(orders.rules, host, port)
    if rule is not None:
        return rule
    others = list_allowed_ports(orders.rules, host)
    if others:
        listed = " and ".join(str(other) for other in others)
        raise RequestRefused(
            403,
            "port_not_allowed",
            f"{host} may be reached at port {listed} only, not {port};"
            f" a person can allow it: sandbox.allowed_hosts: [{format_allow_entry(host, port)}]",
        )
    raise RequestRefused(
        403,
        "host_not_allowed",
        f"{host} is not one of the allowed hosts; a person can allow it in blueflame.yaml:"
        f" sandbox.allowed_hosts: [{format_allow_entry(host, port)}]",
    )


def format_allow_entry(host: str, port: int) -> str:
    """How the host is written in the allow list."""
    return f"[{host}]" if port == 443 and ":" in host else host if port == 443 else format_authority(host, port)


def format_authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve_public_addresses(
    orders: GatewayOptions, host: str, port: int, resolve: Resolver, patience: GatewayTimeouts
) -> list[Address]:
    """All addresses of the host; refused when a single one of them is not for the public."""
    found = [(host, port)] if is_ip_literal(host) else await _resolve_host(host, port, resolve, patience)
    for address, _ in found:
        if not (orders.private or is_public(address) or _is_listed(orders, address, port)):
            raise RequestRefused(
                403,
                "address_not_public",
                f"{host} leads to {address[:60]}, which is no public address; if it is a server of your own network,"
                f" a person can list that very address, too:"
                f" sandbox.allowed_hosts: [{format_allow_entry(address[:60], port)}]",
            )
    return found[:MAX_ADDRESSES]


def _is_listed(orders: GatewayOptions, address: str, port: int) -> bool:
    rule = find_rule(orders.rules, address, port) if is_private_use(address) else None
    return rule is not None and not rule.wildcard


async def _resolve_host(host: str, port: int, resolve: Resolver, patience: GatewayTimeouts) -> list[Address]:
    try:
        async with asyncio.timeout(patience.resolve):
            found = await resolve(host, port)
    except TimeoutError:
        raise RequestRefused(504, "name_not_found", f"the address of {host} was not found in time; try again") from None
    except (OSError, UnicodeError) as e:
        raise RequestRefused(
            502, "name_not_found", f"the address of {host} cannot be found: {_describe_error(e)}"
        ) from e
    if not found:
        raise RequestRefused(502, "name_not_found", f"{host} has no address")
    return list(dict.fromkeys(found))


async def resolve_with_system(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(str(where[0]), int(where[1])) for _, _, _, _, where in found]


async def connect_to_first(
    orders: GatewayOptions, host: str, addresses: list[Address], connect: Connector, patience: GatewayTimeouts
) -> Stream:
    """To the first address that answers."""
    why = "no address answered"
    for address in addresses:
        try:
            async with asyncio.timeout(patience.connect):
                side = await connect(address)
        except TimeoutError:
            why = "it does not answer"
        except OSError as e:
            why = _describe_error(e)
        else:
            _check_not_this_machine(orders, host, side)
            return side
    raise RequestRefused(502, "unreachable", f"{host} cannot be reached: {why}; try again, or go on without it")


def _check_not_this_machine(orders: GatewayOptions, host: str, side: Stream) -> None:
    """The machine's own public address is no way into its services either."""
    here, there = (str(side.writer.get_extra_info(end, ("",))[0]) for end in ("sockname", "peername"))
    if is_same_address(here, there) and not orders.private:
        side.writer.transport.abort()
        raise RequestRefused(403, "address_not_public", f"{host} leads to {there}, which is this machine itself")


async def connect_with_system(address: Address) -> Stream:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with ExitStack() as undo:
        plug = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        plug.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plug, address)
        reader, writer = await asyncio.open_connection(sock=plug, limit=MAX_HEAD_BYTES)
        undo.pop_all()
    return Stream(reader=reader, writer=writer)


def _describe_error(e: Exception) -> str:
    if isinstance(e, OSError) and e.errno and e.errno > 0:
        return os.strerror(e.errno)  # asyncio's own words name the address twice
    return (e.strerror if isinstance(e, OSError) else None) or type(e).__name__


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
