"""A block of free ports for each worktree, so that two agents can both start their server."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from blueflame.model.errors import WorldError

FIRST_PORT = 23000
PORT_CEILING = 32768  # from here on the kernel hands ports out for outgoing connections
BLOCK_SIZE = 10


def find_port_block(
    taken: Iterable[range] = (), *, size: int = BLOCK_SIZE, base: int = FIRST_PORT, ceiling: int = PORT_CEILING
) -> range:
    """The first block from `base` on that no live attempt holds and nobody listens in: same state, same block."""
    held = tuple(taken)
    for start in range(base, ceiling - size + 1, size):
        block = range(start, start + size)
        if not any(_is_overlapping(block, other) for other in held) and all(map(is_port_free, block)):
            return block
    raise WorldError(
        f"no {size} free ports in a row between {base} and {ceiling - 1}: "
        "end what listens there, run fewer agents, or choose another port base in the configuration"
    )


def is_port_free(port: int) -> bool:
    return _can_bind(socket.AF_INET, "127.0.0.1", port) and _can_bind(socket.AF_INET6, "::1", port)


def _is_overlapping(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # a connection that ended a minute ago holds nobody up; a listener still does
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as e:
        return e.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # no IPv6 here: nobody listens there either
    return True
