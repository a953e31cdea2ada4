"""Plain HTTP, the status page, and malformed requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gateways import GatewayHarness, damaged_requests, run_scenario


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "попытка один"


@pytest.mark.parametrize(
    ("target", "status", "rule"),
    [
        ("http://example.org/simple/?token=geheim", 403, "plain_http"),
        ("http://evil.example/", 403, "plain_http"),
        ("http://example.org:443/", 403, "plain_http"),
        ("http://127.0.0.1:61128/", 403, "plain_http"),
        ("https://example.org/", 400, "malformed_request"),
        ("ftp://example.org/", 400, "malformed_request"),
        ("http://user:word@example.org/", 400, "malformed_request"),
        ("http:///", 400, "malformed_request"),
        ("example.org", 400, "malformed_request"),
        ("*", 400, "malformed_request"),
    ],
)
def test_unencrypted_requests_are_refused(folder: Path, target: str, status: int, rule: str) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        answer = await harness.send_request(f"GET {target} HTTP/1.1\r\nHost: example.org\r\n\r\n".encode())
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())

    harness = run_scenario(folder, scenario)

    assert (harness.reached, harness.read_log()[0]["rule"]) == ([], rule)
    assert "geheim" not in (folder / "gateway.jsonl").read_text()


def test_a_host_listed_with_port_80_gets_one_clean_request(folder: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = b""
        while not got.endswith(b"\r\n\r\nbody"):
            got += await reader.read(1000)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwelcome")

    request = (
        b"POST http://Mirror.example/a?b=1 HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: geheim\r\nX-A: 1\r\n"
        b"X-Hop: 2\r\nConnection: x-hop, content-length, keep-alive\r\nContent-Length: 4\r\n\r\n"
        b"bodyGET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    )

    async def scenario(harness: GatewayHarness) -> None:
        assert (await harness.send_request(request)).endswith(b"welcome")

    harness = run_scenario(folder, scenario, "mirror.example:80", behave=answer)

    assert bytes(harness.upstream.received) == (
        b"POST /a?b=1 HTTP/1.1\r\nhost: mirror.example\r\nx-a: 1\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody"
    )
    assert harness.read_log()[0]["kind"] == "http"


@pytest.mark.parametrize(
    "headers",
    ["Transfer-Encoding: chunked", "Content-Length: 4\r\nContent-Length: 5", "Content-Length: +4", "Content-Length: "],
)
def test_a_body_of_ambiguous_length_is_not_forwarded(folder: Path, headers: str) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        request = f"POST http://mirror.example/ HTTP/1.1\r\n{headers}\r\n\r\nbody"
        assert (await harness.send_request(request.encode())).startswith(b"HTTP/1.1 4")

    assert run_scenario(folder, scenario, "mirror.example:80").reached == []


def test_the_gateway_serves_its_status_page(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        page = await harness.send_request(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert json.loads(page.partition(b"\r\n\r\n")[2]) == {
            "gateway": "blueflame",
            "attempt": "попытка один",
            "hosts": ["example.org", "*.example.net:8443"],
        }
        nowhere = await harness.send_request(b"POST /v1/messages?key=geheim HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert nowhere.startswith(b"HTTP/1.1 404 ")
        assert b'"error": "no model is configured on this gateway' in nowhere
        assert (await harness.send_request(b"DELETE / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        assert (await harness.send_request(b"HEAD / HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")

    harness = run_scenario(folder, scenario, "example.org", "*.example.net:8443")

    assert [line["decision"] for line in harness.read_log()] == ["allow", "block", "block", "allow"]
    assert "geheim" not in (folder / "gateway.jsonl").read_text()


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nName : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nName: x\rHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nName: x\0\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"CONNECT example.org:443\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n",
        b"",
    ],
)
def test_a_malformed_request_is_answered_with_400(folder: Path, request_: bytes) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        assert (await harness.send_request(request_)).startswith(b"HTTP/1.1 400 ")

    harness = run_scenario(folder, scenario)

    assert (harness.reached, harness.read_log()[0]["rule"]) == ([], "malformed_request")


def test_an_endless_head_and_a_slow_one_are_refused(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        assert (await harness.send_request(b"GET / HTTP/1.1\r\nA: " + b"b" * 200_000, end=False)).startswith(
            b"HTTP/1.1 431 "
        )
        assert (await harness.send_request(b"CONNECT example.org:443 HT", end=False)).startswith(b"HTTP/1.1 408 ")

    assert run_scenario(folder, scenario).reached == []


@settings(max_examples=150)
@given(sent=st.lists(st.binary(max_size=600) | damaged_requests(), min_size=1, max_size=8))
def test_random_bytes_reach_no_host_and_never_end_the_gateway(
    tmp_path_factory: pytest.TempPathFactory, sent: list[bytes]
) -> None:
    """Whatever is sent, only the listed host is resolved, and only a ClientHello for it is forwarded."""

    async def scenario(harness: GatewayHarness) -> None:
        for data in sent:
            await harness.send_request(data)
        assert (await harness.send_request(b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")

    harness = run_scenario(tmp_path_factory.mktemp("rubbish"), scenario)

    assert set(harness.asked) <= {"example.org"}
    assert harness.upstream.received == b""
    assert len(harness.read_log()) == len(sent) + 1
