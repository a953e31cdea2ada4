"""From a listed name to a connection: resolved once, every address checked, and connected to the very address checked.

A second look-up between check and connection would be a door: a name server may answer differently each time.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from blueflame.gateway.addresses import is_private_use, is_public, is_same_address
from blueflame.gateway.options import AllowRule, GatewayOptions, find_rule, is_ip_literal, list_allowed_ports
from blueflame.gateway.relay import GatewayTimeouts, Stream
from blueflame.gateway.request import MAX_HEAD_BYTES, RequestRefused

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
