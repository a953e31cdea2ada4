from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from blueflame.model.errors import WorldError
from blueflame.system.machine import find_port_block, is_port_free


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_a_port_with_a_listener_is_not_free(listener: int) -> None:
    assert not is_port_free(listener)


def test_a_listener_on_every_address_is_seen() -> None:
    with socket.create_server(("", 0)) as server:
        assert not is_port_free(server.getsockname()[1])


def test_the_same_state_gives_the_same_block() -> None:
    assert find_port_block(size=3) == find_port_block(size=3)


def test_blocks_of_live_attempts_are_left_out() -> None:
    first = find_port_block(size=3)
    second = find_port_block([first], size=3)
    third = find_port_block([second, first], size=3)
    assert len({*first, *second, *third}) == 9
    assert first.start < second.start < third.start


def test_a_block_of_another_size_is_left_out_where_it_overlaps() -> None:
    base = find_port_block(size=4).start
    block = find_port_block([range(base + 3, base + 4)], size=4, base=base)
    assert block.start >= base + 4


def test_a_block_with_a_port_in_use_is_left_out(listener: int) -> None:
    block = find_port_block(size=1, base=listener, ceiling=65536)
    assert listener not in block


def test_no_free_block_is_an_error_that_says_what_to_do(listener: int) -> None:
    with pytest.raises(WorldError, match=rf"between {listener} and {listener}: stop what listens there"):
        find_port_block(size=1, base=listener, ceiling=listener + 1)
