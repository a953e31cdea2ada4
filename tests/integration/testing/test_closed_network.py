"""The closed network itself: the tests that rely on it would not notice a hole."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from support.closed_network import ClosedNetwork, closed_network, explain_unavailable

pytestmark = pytest.mark.skipif(bool(explain_unavailable()), reason=f"no closed network: {explain_unavailable()}")
CALL = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).sendall(b'hello')"
DEVICES = "import socket; print([name for _, name in socket.if_nameindex()])"


@pytest.fixture(scope="module")
def network() -> Iterator[ClosedNetwork]:
    with closed_network() as network:
        yield network


def run(network: ClosedNetwork, code: str, *argv: str) -> subprocess.CompletedProcess[str]:
    inside = network.argv(sys.executable, "-I", "-c", code, *argv)
    return subprocess.run(inside, capture_output=True, text=True, check=False, timeout=30)


def test_a_closed_network_has_only_a_loopback_device(network: ClosedNetwork) -> None:
    assert "lo" in run(network, DEVICES).stdout
    assert "eth" not in run(network, DEVICES).stdout


def test_a_listener_of_that_network_is_reached_from_inside_and_served_from_here(network: ClosedNetwork) -> None:
    heard: list[bytes] = []

    def serve(door: socket.socket) -> None:
        connection, _ = door.accept()
        with connection:
            heard.append(connection.recv(5))

    with network.listen() as door:
        server = threading.Thread(target=serve, args=(door,))
        server.start()
        assert run(network, CALL, str(door.getsockname()[1])).returncode == 0
        server.join(30)
    assert heard == [b"hello"]


def test_a_listener_of_this_machine_is_not_reached_from_inside(network: ClosedNetwork) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        done = run(network, CALL, str(door.getsockname()[1]))
    assert done.returncode != 0
    assert "ConnectionRefusedError" in done.stderr


def test_a_program_gets_its_arguments_and_returns_its_exit_code(network: ClosedNetwork) -> None:
    done = run(network, "import sys; print(sys.argv[1:]); sys.exit(7)", "a b", "", "ж")
    assert (done.returncode, done.stdout) == (7, "['a b', '', 'ж']\n")


def test_the_user_is_the_same_inside(network: ClosedNetwork) -> None:
    assert run(network, "import os; print(os.getuid(), os.getgid())").stdout == f"{os.getuid()} {os.getgid()}\n"
