"""What the gateway allows and refuses, with real sockets on loopback."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from blueflame.gateway.connect import resolve_public_addresses
from blueflame.gateway.options import read_options
from blueflame.gateway.relay import GatewayTimeouts
from blueflame.system.http import RequestRefused
from support.gateways import GatewayHarness, build_client_hello, close_stream, format_connect, run_scenario


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "попытка один"


def test_a_listed_host_is_reached_and_the_bytes_are_counted(folder: Path) -> None:
    hello = build_client_hello("example.org")

    async def scenario(harness: GatewayHarness) -> None:
        stream = await harness.open_tunnel()
        stream.writer.write(hello)
        assert await stream.reader.readexactly(len(hello)) == hello
        stream.writer.write(b"more")
        assert await stream.reader.readexactly(4) == b"more"
        await close_stream(stream)

    harness = run_scenario(folder, scenario)

    assert harness.reached == [("151.101.0.223", 443)]
    assert bytes(harness.upstream.received) == hello + b"more"
    (line,) = harness.read_log()
    assert (line["host"], line["port"], line["decision"], line["rule"]) == ("example.org", 443, "allow", "example.org")
    assert line["bytes_up"] == line["bytes_down"] == len(hello) + 4
    assert line["attempt"] == "попытка один"
    assert "geheim" not in (folder / "gateway.jsonl").read_text()


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("evil.example:443", "host_not_allowed"),
        ("example.org.evil.example:443", "host_not_allowed"),
        ("evilexample.org:443", "host_not_allowed"),
        ("example.net:443", "host_not_allowed"),
        ("example.org:80", "port_not_allowed"),
        ("example.org:22", "port_not_allowed"),
        ("127.0.0.1:443", "host_not_allowed"),
        ("[::1]:443", "host_not_allowed"),
        ("169.254.169.254:443", "host_not_allowed"),
        ("8.8.8.8:443", "host_not_allowed"),
        ("example.org", "malformed_request"),
        ("example.org:0", "malformed_request"),
        ("example.org:99999", "malformed_request"),
        ("example.org:443:443", "malformed_request"),
        ("user@example.org:443", "malformed_request"),
        ("example.org%00.evil.example:443", "malformed_request"),
        ("pypi_org:443", "malformed_request"),
        ("pypi..org:443", "malformed_request"),
        ("127.1:443", "malformed_request"),
        ("0x7f000001:443", "malformed_request"),
        ("2130706433:443", "malformed_request"),
        ("0177.0.0.1:443", "malformed_request"),
        ("http://example.org:443", "malformed_request"),
        ("/", "malformed_request"),
        ("*.example.net:443", "malformed_request"),
        ("packages.example.net\\@evil.example:443", "malformed_request"),
    ],
)
def test_what_is_not_listed_is_neither_looked_up_nor_reached(folder: Path, target: str, rule: str) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        answer = await harness.send_request(format_connect(target))
        status = 400 if rule == "malformed_request" else 403
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())

    harness = run_scenario(folder, scenario, "example.org", "*.example.net")

    assert (harness.asked, harness.reached, harness.upstream.connections) == ([], [], 0)
    (line,) = harness.read_log()
    assert (line["decision"], line["rule"]) == ("block", rule)


@pytest.mark.parametrize(
    "target", ["Example.org:443", "example.org.:443", "packages.EXAMPLE.net:443", "a.b.example.net:443"]
)
def test_names_are_compared_by_one_spelling(folder: Path, target: str) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        await close_stream(await harness.open_tunnel(target))

    harness = run_scenario(folder, scenario, "example.org", "*.example.net")

    assert len(harness.reached) == 1


def test_a_refusal_names_the_host_and_the_setting_that_allows_it(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        answer = await harness.send_request(format_connect("example.com:8443"))
        first, _, rest = answer.partition(b"\r\n")
        words = json.loads(rest.partition(b"\r\n\r\n")[2])["error"]
        assert first == f"HTTP/1.1 403 {words}".encode()
        assert "example.com" in words
        assert "sandbox.allowed_hosts: [example.com:8443]" in words

    run_scenario(folder, scenario)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.7"],
        ["169.254.169.254"],
        ["100.64.1.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["fd00::1"],
        ["fe80::1"],
        ["0.0.0.0"],
        ["151.101.0.223", "192.168.1.1"],
        ["2a04:4e42::223", "::ffff:10.0.0.1"],
        ["not an address"],
    ],
)
def test_a_name_with_one_private_address_is_refused(folder: Path, addresses: list[str]) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        answer = await harness.send_request(format_connect("example.org:443"))
        assert b"not a public address" in answer

    harness = run_scenario(folder, scenario, answers=[addresses])

    assert harness.reached == []
    assert harness.read_log()[0]["rule"] == "address_not_public"


def test_a_name_is_looked_up_once_and_the_checked_address_is_the_one_reached(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        await close_stream(await harness.open_tunnel())
        assert b"address_not_public" in await harness.send_request(format_connect("example.org:443"))

    harness = run_scenario(folder, scenario, answers=[["151.101.0.223"], ["127.0.0.1"]])

    assert harness.asked == ["example.org", "example.org"]  # once for each request
    assert harness.reached == [("151.101.0.223", 443)]


def test_a_private_address_is_reached_when_it_is_listed(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        await close_stream(await harness.open_tunnel("nexus.corp:8443"))
        await close_stream(await harness.open_tunnel("10.1.2.3:8443"))
        assert b"403" in await harness.send_request(format_connect("10.1.2.3:443"))
        assert b"403" in await harness.send_request(format_connect("10.1.2.4:8443"))

    harness = run_scenario(folder, scenario, "nexus.corp:8443", "10.1.2.3:8443", answers=[["10.1.2.3"]])

    assert harness.reached == [("10.1.2.3", 8443)] * 2


@pytest.mark.parametrize(
    ("address", "fit"),
    [
        ("10.1.2.3", True),  # a mirror in the company's network
        ("198.18.0.7", True),  # a proxy that answers for every name
        ("203.0.113.80", True),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
    ],
)
def test_a_registry_may_be_a_mirror_of_the_own_network_and_never_this_machine(address: str, fit: bool) -> None:
    options = read_options("/x", {"hosts": ["example.org"], "registries": ["pypi.org", "*.example.net"]})

    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        return [(address, port)]

    def is_reached(host: str) -> bool:
        found = resolve_public_addresses(options.extend_for_setup(), host, 443, resolve, GatewayTimeouts())
        try:
            return asyncio.run(found) == [(address, 443)]
        except RequestRefused:
            return False

    assert is_reached("pypi.org") is fit
    assert not is_reached("example.org")
    assert not is_reached("a.example.net")


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "0.0.0.0"])
def test_the_machine_itself_is_never_reached_even_when_listed(folder: Path, address: str) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        assert b"address_not_public" in await harness.send_request(format_connect(f"{address}:443"))

    assert run_scenario(folder, scenario, address).reached == []


def test_a_public_address_of_this_machine_is_refused(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        harness.source = "127.0.0.1"  # where the upstream is
        assert b"which is this machine itself" in await harness.send_request(
            format_connect("example.org:443") + build_client_hello("example.org")
        )

    harness = run_scenario(folder, scenario)

    assert harness.upstream.received == b""


def test_the_next_address_is_tried_when_one_does_not_answer(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        port, harness.upstream.port = harness.upstream.port, 1
        asking = asyncio.ensure_future(harness.send_request(format_connect("example.org:443")))
        assert (await asking).startswith(b"HTTP/1.1 502 example.org cannot be reached: Connection refused")
        harness.upstream.port = port
        await close_stream(await harness.open_tunnel())

    harness = run_scenario(folder, scenario, answers=[["151.101.0.223", "2a04:4e42::223"]])

    assert [address for address, _ in harness.reached] == ["151.101.0.223", "2a04:4e42::223", "151.101.0.223"]
    assert [line["decision"] for line in harness.read_log()] == ["error", "block"]


def test_a_name_without_an_address_is_reported(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        assert (await harness.send_request(format_connect("example.org:443"))).startswith(
            b"HTTP/1.1 502 example.org cannot be resolved"
        )

    assert run_scenario(folder, scenario, answers=[]).read_log()[0]["rule"] == "name_not_found"
