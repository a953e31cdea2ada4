"""Fetching pages that others control: what servers and addresses may do to us."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import ssl
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from blueflame.intake import fetch
from blueflame.intake.fetch import FetchFailed, PageFetcher
from support.feed_servers import (
    FeedServer,
    format_response,
    run_feed_server,
)

LOCAL = PageFetcher(private=("127.0.0.0/8",), total_timeout=20)
Play = Callable[[FeedServer], Coroutine[None, None, None]]


def with_server(play: Play) -> None:
    async def run() -> None:
        async with run_feed_server() as server:
            await play(server)

    asyncio.run(run())


def resolve_to(*addresses: str) -> fetch.Resolver:
    async def resolve(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return resolve


def test_a_page_is_fetched_with_our_name_and_without_cookies() -> None:
    async def play(server: FeedServer) -> None:
        server.pages["/feed?a=1"] = format_response(body=gzip.compress(b"hello"), Content_Encoding="gzip", ETag='"x"')
        page = await LOCAL.fetch(server.build_url("/feed?a=1"), {"If-None-Match": '"w"'})
        assert (page.status, page.body, page.headers["etag"]) == (200, b"hello", '"x"')
        ((_, headers),) = server.requests
        assert headers["User-Agent"].startswith("blueflame/")
        assert headers["If-None-Match"] == '"w"'
        assert set(headers) <= {"Host", "User-Agent", "Accept", "Accept-Encoding", "If-None-Match", "Connection"}

    with_server(play)


def test_a_chunked_page_of_a_server_that_stays_connected_is_complete() -> None:
    async def stay(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        await asyncio.sleep(60)

    async def play(server: FeedServer) -> None:
        server.pages["/feed"] = stay
        assert (await LOCAL.fetch(server.build_url(), {})).body == b"abcde"

    with_server(play)


def test_a_page_that_was_not_modified_has_no_body_to_wait_for() -> None:
    async def stay(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 304 X\r\nETag: x\r\n\r\n")
        await asyncio.sleep(60)

    async def play(server: FeedServer) -> None:
        server.pages["/feed"] = stay
        assert (await LOCAL.fetch(server.build_url(), {})).status == 304

    with_server(play)


def test_permanent_redirects_are_remembered_and_others_are_not() -> None:
    async def play(server: FeedServer) -> None:
        server.pages |= {
            "/old": format_response(301, Location="/feed"),
            "/now": format_response(302, Location="/old"),
            "/feed": format_response(body=b"here"),
        }
        moved = await LOCAL.fetch(server.build_url("/old"), {"If-None-Match": "secret"})
        assert (moved.body, moved.moved_to) == (b"here", server.build_url("/feed"))
        assert "If-None-Match" not in server.requests[1][1]
        assert (await LOCAL.fetch(server.build_url("/now"), {})).moved_to == ""

    with_server(play)


def test_the_checked_address_is_connected_to_and_the_name_is_not_resolved_again() -> None:
    """A name server that answers with a public address first, and then with this machine."""
    asked = 0

    async def rebind(_host: str, _port: int) -> list[str]:
        nonlocal asked
        asked += 1
        return ["127.0.0.2" if asked == 1 else "127.0.0.1"]

    async def play(server: FeedServer) -> None:
        fetcher = PageFetcher(private=("127.0.0.2",), resolve=rebind)  # stands for a public one: not where we listen
        with pytest.raises(FetchFailed, match="refused"):
            await fetcher.fetch(server.build_url(host="localhost"), {})
        assert (asked, server.requests) == (1, [])

    with_server(play)


def test_each_redirect_is_resolved_and_checked() -> None:
    async def play(server: FeedServer) -> None:
        answers = iter([["127.0.0.1"], ["10.0.0.1"]])

        async def resolve(_host: str, _port: int) -> list[str]:
            return next(answers)

        server.pages["/feed"] = format_response(302, Location="/other")
        with pytest.raises(FetchFailed, match=r"10\.0\.0\.1, which is not a public address"):
            await PageFetcher(private=("127.0.0.1",), resolve=resolve).fetch(server.build_url(), {})

    with_server(play)


def test_the_key_in_a_query_is_in_no_message() -> None:
    with pytest.raises(FetchFailed) as failed:
        asyncio.run(PageFetcher(resolve=resolve_to()).fetch("https://example.com/feed?key=s3cret", {}))
    assert "s3cret" not in str(failed.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
def test_the_certificate_must_be_trusted_and_be_for_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    made = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=a.example")
    names = ("-addext", "subjectAltName=DNS:feeds.example", "-keyout", key, "-out", certificate)
    subprocess.run(["openssl", *made, *names], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    fetcher = PageFetcher(private=("127.0.0.1",), resolve=resolve_to("127.0.0.1"))

    async def play() -> None:
        async with run_feed_server(tls) as server:
            server.pages["/feed"] = format_response(body=b"hello")
            url = f"https://feeds.example:{server.port}/feed"
            with pytest.raises(FetchFailed, match="its certificate cannot be trusted"):
                await fetcher.fetch(url, {})
            monkeypatch.setenv("SSL_CERT_FILE", certificate)
            assert (await fetcher.fetch(url, {})).body == b"hello"
            with pytest.raises(FetchFailed, match="its certificate cannot be trusted"):
                await fetcher.fetch(url.replace("feeds", "other"), {})

    asyncio.run(play())
