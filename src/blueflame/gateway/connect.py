"""From a listed name to a connection: resolved once, every address checked, and connected to the very address checked.

A second look-up between check and connection would be a door: a name server may answer differently each time.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

from blueflame.gateway.addresses import is_private_use, is_public, same_address
from blueflame.gateway.options import Orders, Rule, find_rule, is_literal, ports_of
from blueflame.gateway.relay import Patience, Side
from blueflame.gateway.request import LARGEST_HEAD, Refused

MOST_TRIES = 6

Address = tuple[str, int]
Resolve = Callable[[str, int], Awaitable[list[Address]]]
Connect = Callable[[Address], Awaitable[Side]]


def admit(orders: Orders, host: str, port: int) -> Rule:
    """The rule of the allow list that lets this host be reached at this port."""
    rule = find_rule(orders.rules, host, port)
    if rule is not None:
        return rule
    others = ports_of(orders.rules, host)
    if others:
        listed = " and ".join(str(other) for other in others)
        raise Refused(
            403,
            "port_not_allowed",
            f"{host} may be reached at port {listed} only, not {port};"
            f" a person can allow it: sandbox.allowed_hosts: [{entry_for(host, port)}]",
        )
    raise Refused(
        403,
        "host_not_allowed",
        f"{host} is not one of the allowed hosts; a person can allow it in blueflame.yaml:"
        f" sandbox.allowed_hosts: [{entry_for(host, port)}]",
    )


def entry_for(host: str, port: int) -> str:
    """How the host is written in the allow list."""
    return f"[{host}]" if port == 443 and ":" in host else host if port == 443 else authority_of(host, port)


def authority_of(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def find_addresses(orders: Orders, host: str, port: int, resolve: Resolve, patience: Patience) -> list[Address]:
    """All addresses of the host; refused when a single one of them is not for the public."""
    found = [(host, port)] if is_literal(host) else await _resolved(host, port, resolve, patience)
    for address, _ in found:
        if not (orders.private or is_public(address) or _listed(orders, address, port)):
            raise Refused(
                403,
                "address_not_public",
                f"{host} leads to {address[:60]}, which is no public address; if it is a server of your own network,"
                f" a person can list that very address, too: sandbox.allowed_hosts: [{entry_for(address[:60], port)}]",
            )
    return found[:MOST_TRIES]


def _listed(orders: Orders, address: str, port: int) -> bool:
    rule = find_rule(orders.rules, address, port) if is_private_use(address) else None
    return rule is not None and not rule.wildcard


async def _resolved(host: str, port: int, resolve: Resolve, patience: Patience) -> list[Address]:
    try:
        async with asyncio.timeout(patience.resolve):
            found = await resolve(host, port)
    except TimeoutError:
        raise Refused(504, "name_not_found", f"the address of {host} was not found in time; try again") from None
    except (OSError, UnicodeError) as e:
        raise Refused(502, "name_not_found", f"the address of {host} cannot be found: {_why(e)}") from e
    if not found:
        raise Refused(502, "name_not_found", f"{host} has no address")
    return list(dict.fromkeys(found))


async def system_resolve(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(str(where[0]), int(where[1])) for _, _, _, _, where in found]


async def connect_first(
    orders: Orders, host: str, addresses: list[Address], connect: Connect, patience: Patience
) -> Side:
    """To the first address that answers."""
    why = "no address answered"
    for address in addresses:
        try:
            async with asyncio.timeout(patience.connect):
                side = await connect(address)
        except TimeoutError:
            why = "it does not answer"
        except OSError as e:
            why = _why(e)
        else:
            _check_far_end(orders, host, side)
            return side
    raise Refused(502, "unreachable", f"{host} cannot be reached: {why}; try again, or go on without it")


def _check_far_end(orders: Orders, host: str, side: Side) -> None:
    """The machine's own public address is no way into its services either."""
    here, there = (str(side.writer.get_extra_info(end, ("",))[0]) for end in ("sockname", "peername"))
    if same_address(here, there) and not orders.private:
        side.writer.transport.abort()
        raise Refused(403, "address_not_public", f"{host} leads to {there}, which is this machine itself")


async def system_connect(address: Address) -> Side:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    plug = socket.socket(family, socket.SOCK_STREAM)
    try:
        plug.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plug, address)
        reader, writer = await asyncio.open_connection(sock=plug, limit=LARGEST_HEAD)
    except BaseException:
        plug.close()
        raise
    return Side(reader=reader, writer=writer)


def _why(e: Exception) -> str:
    if isinstance(e, OSError) and e.errno and e.errno > 0:
        return os.strerror(e.errno)  # asyncio's own words name the address twice
    return (e.strerror if isinstance(e, OSError) else None) or type(e).__name__
