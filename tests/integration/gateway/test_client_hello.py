"""A tunnel connects to the host that its TLS ClientHello names, or not at all."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gateways import (
    GatewayHarness,
    build_client_hello,
    close_stream,
    damaged_requests,
    format_connect,
    run_scenario,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "попытка один"


@pytest.mark.parametrize(
    ("opening", "rule"),
    [
        (build_client_hello("evil.example"), "sni_mismatch"),
        (build_client_hello("example.org.evil.example"), "sni_mismatch"),
        (build_client_hello(None), "sni_missing"),
        (build_client_hello("example.org")[:-1], "not_tls"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "not_tls"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not_tls"),
        (b"\x80\x2e\x01\x03\x01" + bytes(41), "not_tls"),
        (b"\x16", "not_tls"),
        (b"", "not_tls"),
    ],
)
def test_without_a_client_hello_for_the_named_host_no_byte_is_forwarded(
    folder: Path, opening: bytes, rule: str
) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        answer = await harness.send_request(format_connect("example.org:443") + opening)
        assert answer.partition(b"\r\n\r\n")[2] == (b"" if rule == "not_tls" else b"\x15\x03\x03\x00\x02\x02\x31")

    harness = run_scenario(folder, scenario)

    assert harness.upstream.received == b""
    (line,) = harness.read_log()
    assert (line["decision"], line["rule"], line["bytes_up"]) == ("block", rule, 0)


def test_a_silent_client_is_disconnected(folder: Path) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        assert (
            await harness.send_request(format_connect("example.org:443"), end=False)
            == b"HTTP/1.1 200 Connection established\r\n\r\n"
        )

    harness = run_scenario(folder, scenario)

    assert "no TLS ClientHello arrived" in harness.read_log()[0]["details"]


def test_a_client_hello_in_small_pieces_is_joined(folder: Path) -> None:
    hello = build_client_hello("example.org")

    async def scenario(harness: GatewayHarness) -> None:
        stream = await harness.open_tunnel()
        for at in range(0, len(hello), 50):
            stream.writer.write(hello[at : at + 50])
            await stream.writer.drain()
            await asyncio.sleep(0)
        assert await stream.reader.readexactly(len(hello)) == hello
        await close_stream(stream)

    run_scenario(folder, scenario)


def test_at_another_port_the_server_may_send_first_but_a_client_hello_must_name_it(folder: Path) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-greeting\r\n")
        await reader.read(100)

    async def scenario(harness: GatewayHarness) -> None:
        stream = await harness.open_tunnel("git.example.org:22")
        assert await stream.reader.readuntil(b"\n") == b"SSH-2.0-greeting\r\n"
        stream.writer.write(b"SSH-2.0-client\r\n")
        await stream.reader.read()
        await close_stream(stream)
        await harness.send_request(format_connect("git.example.org:22") + build_client_hello("evil.example"))

    harness = run_scenario(folder, scenario, "git.example.org:22", behave=greet)

    assert bytes(harness.upstream.received) == b"SSH-2.0-client\r\n"
    assert [line["rule"] for line in harness.read_log()] == ["git.example.org:22", "sni_mismatch"]


def test_a_real_tls_client_talks_to_a_real_tls_server(folder: Path, tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path)

    async def scenario(harness: GatewayHarness) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        server = await asyncio.start_server(shout, "127.0.0.1", 0, ssl=context)
        harness.upstream.port = server.sockets[0].getsockname()[1]
        stream = await harness.open_tunnel()
        await stream.writer.start_tls(
            ssl.create_default_context(cafile=str(certificate)), server_hostname="example.org"
        )
        stream.writer.write(b"hush\n")
        assert await stream.reader.readuntil(b"\n") == b"HUSH\n"
        await close_stream(stream)
        server.close()

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readuntil(b"\n")).upper())
        await reader.read()
        writer.close()

    (line,) = run_scenario(folder, scenario).read_log()

    assert line["decision"] == "allow"
    assert line["bytes_down"] > 500


def _certificate(folder: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=example.org"
    names = ["-addext", "subjectAltName=DNS:example.org", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *made.split(), *names], check=True, capture_output=True)
    return certificate, key


@settings(max_examples=150)
@given(opening=st.binary(max_size=600) | damaged_requests().filter(lambda data: data[:1] == b"\x16"))
def test_a_damaged_client_hello_is_forwarded_only_if_it_still_names_the_host(
    tmp_path_factory: pytest.TempPathFactory, opening: bytes
) -> None:
    async def scenario(harness: GatewayHarness) -> None:
        await harness.send_request(format_connect("example.org:443") + opening)

    harness = run_scenario(tmp_path_factory.mktemp("rubbish"), scenario)

    assert harness.upstream.received in (b"", opening)
    assert harness.upstream.received == b"" or b"example.org" in opening.lower()
