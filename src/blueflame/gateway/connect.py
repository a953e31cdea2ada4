"""Connect to a listed host: resolve it once, check every address, connect to a checked address.

A second lookup between check and connection would open a hole: a name server may answer differently each time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import field

from blueflame.gateway.access_log import AccessLog
from blueflame.gateway.model_api.handler import ModelHandler
from blueflame.gateway.options import AllowRule, GatewayOptions, find_rule, is_ip_literal, list_allowed_ports
from blueflame.gateway.relay import GatewayTimeouts, Stream, describe_os_error
from blueflame.lazy_dataclass import dataclass
from blueflame.policy.addresses import MIRROR_IPV4, is_private_use, is_public, is_same_address
from blueflame.system.http import MAX_HEAD_BYTES, RequestRefused

MAX_ADDRESSES = 6
MAX_CONNECTIONS = 64

Address = tuple[str, int]
Resolver = Callable[[str, int], Awaitable[list[Address]]]
Connector = Callable[[Address], Awaitable[Stream]]


def find_allowing_rule(options: GatewayOptions, host: str, port: int) -> AllowRule:
    """Find the rule of the allow list for this host and port, or refuse."""
    rule = find_rule(options.rules, host, port)
    if rule is not None:
        return rule
    others = list_allowed_ports(options.rules, host)
    if others:
        listed = " and ".join(str(other) for other in others)
        raise RequestRefused(
            403,
            "port_not_allowed",
            f"{host} is allowed at port {listed} only, not {port};"
            f" a person can allow it: {options.setting}: [{format_allow_entry(host, port)}]",
        )
    raise RequestRefused(
        403,
        "host_not_allowed",
        f"{host} is not one of the allowed hosts; a person can allow it in blueflame.yaml:"
        f" {options.setting}: [{format_allow_entry(host, port)}]",
    )


def format_allow_entry(host: str, port: int) -> str:
    """Format the host as the allow list writes it."""
    return f"[{host}]" if port == 443 and ":" in host else host if port == 443 else format_authority(host, port)


def format_authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve_public_addresses(
    options: GatewayOptions, host: str, port: int, resolve: Resolver, timeouts: GatewayTimeouts
) -> list[Address]:
    """Resolve the host; refuse it when one of its addresses is not public."""
    rule = find_rule(options.rules, host, port)
    is_registry = rule is not None and rule.local
    found = [(host, port)] if is_ip_literal(host) else await _resolve_host(host, port, resolve, timeouts)
    for address, _ in found:
        mirrored = is_registry and is_private_use(address, MIRROR_IPV4)
        if not (options.private or is_public(address) or mirrored or _is_listed(options, address, port)):
            raise RequestRefused(
                403,
                "address_not_public",
                f"{host} resolves to {address[:60]}, which is not a public address; if it is a server of your network,"
                f" a person can list that address, too:"
                f" sandbox.allowed_hosts: [{format_allow_entry(address[:60], port)}]",
            )
    return found[:MAX_ADDRESSES]


def _is_listed(options: GatewayOptions, address: str, port: int) -> bool:
    rule = find_rule(options.rules, address, port) if is_private_use(address) else None
    return rule is not None and not rule.wildcard


async def _resolve_host(host: str, port: int, resolve: Resolver, timeouts: GatewayTimeouts) -> list[Address]:
    try:
        async with asyncio.timeout(timeouts.resolve):
            found = await resolve(host, port)
    except TimeoutError:
        raise RequestRefused(504, "name_not_found", f"{host} cannot be resolved: timed out; try again") from None
    except (OSError, UnicodeError) as e:
        raise RequestRefused(502, "name_not_found", f"{host} cannot be resolved: {describe_os_error(e)}") from e
    if not found:
        raise RequestRefused(502, "name_not_found", f"{host} has no address")
    return list(dict.fromkeys(found))


async def resolve_with_system(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(str(where[0]), int(where[1])) for _, _, _, _, where in found]


async def connect_to_first(
    options: GatewayOptions, host: str, addresses: list[Address], connect: Connector, timeouts: GatewayTimeouts
) -> Stream:
    """Connect to the first address that answers."""
    why = "no address answered"
    for address in addresses:
        try:
            async with asyncio.timeout(timeouts.connect):
                stream = await connect(address)
        except TimeoutError:
            why = "timed out"
        except OSError as e:
            why = describe_os_error(e)
        else:
            _check_not_this_machine(options, host, stream)
            return stream
    raise RequestRefused(502, "unreachable", f"{host} cannot be reached: {why}; try again, or continue without it")


def _check_not_this_machine(options: GatewayOptions, host: str, stream: Stream) -> None:
    """Refuse the machine's own public address, at which its services could be reached."""
    here, there = (str(stream.writer.get_extra_info(end, ("",))[0]) for end in ("sockname", "peername"))
    if is_same_address(here, there) and not options.private:
        stream.writer.transport.abort()
        raise RequestRefused(403, "address_not_public", f"{host} resolves to {there}, which is this machine itself")


async def connect_with_system(address: Address) -> Stream:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with ExitStack() as undo:
        connection = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address)
        reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_HEAD_BYTES)
        undo.pop_all()
    return Stream(reader=reader, writer=writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """What every request is served with. Tests replace `resolve` and `connect`."""

    options: GatewayOptions
    access_log: AccessLog
    resolve: Resolver = resolve_with_system
    connect: Connector = connect_with_system
    timeouts: GatewayTimeouts = field(default_factory=GatewayTimeouts)
    max_connections: int = MAX_CONNECTIONS
    model: ModelHandler | None = None


async def connect_to_host(context: RequestContext, host: str, port: int) -> tuple[str, Stream]:
    """Return the rule that allows the host, and a connection to it."""
    options, timeouts = context.options, context.timeouts
    rule = find_allowing_rule(options, host, port)
    if context.access_log.problem:
        raise RequestRefused(503, "record_full", f"no more requests are served: {context.access_log.problem}")
    addresses = await resolve_public_addresses(options, host, port, context.resolve, timeouts)
    return rule.text, await connect_to_first(options, host, addresses, context.connect, timeouts)
