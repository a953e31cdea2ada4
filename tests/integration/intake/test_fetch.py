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
    GZIP_BOMB,
    FeedServer,
    Misbehave,
    drip_forever,
    format_response,
    run_feed_server,
    send_chunks_forever,
    send_endless_head,
    send_half,
    stream_forever,
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


MISBEHAVING: dict[str, tuple[bytes | Misbehave, str]] = {
    "a byte now and then": (drip_forever, "not finished after"),
    "an endless body": (stream_forever, "more than 2000000 bytes"),
    "endless chunks": (send_chunks_forever, "more than 2000000 bytes"),
    "an endless head": (send_endless_head, "not valid HTTP"),
    "a large length": (format_response(Content_Length="99999999999"), "has 99999999999 bytes"),
    "a bomb of gzip": (GZIP_BOMB, "more than 2000000 bytes"),
    "broken gzip": (format_response(body=b"abc", Content_Encoding="gzip"), "not valid gzip"),
    "half of a gzip": (format_response(body=gzip.compress(b"abc" * 99)[:-9], Content_Encoding="gzip"), "cut off"),
    "another compression": (format_response(body=b"abc", Content_Encoding="br"), "compressed with br"),
    "half of a page": (send_half, "not valid HTTP"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not valid HTTP"),
    "nothing": (b"", "not valid HTTP"),
    "a redirect to itself": (format_response(302, Location="/feed"), "redirected more than 3 times"),
    "a redirect to a file": (format_response(302, Location="file:///etc/passwd"), "is not a web address"),
    "a redirect without TLS": (format_response(302, Location="http://example.com/"), "is not encrypted"),
    "a redirect to a user": (format_response(301, Location="https://a@127.0.0.1/"), "is not a web address"),
    "a redirect to the machine": (format_response(302, Location="http://localhost:1/"), "not a public address"),
    "a redirect to the cloud": (format_response(302, Location="https://169.254.169.254/meta"), "not a public address"),
}


@pytest.mark.parametrize("what", MISBEHAVING)
def test_a_server_that_misbehaves_costs_a_limited_time_and_memory(what: str) -> None:
    page, reason = MISBEHAVING[what]

    async def resolve(host: str, _port: int) -> list[str]:
        return {"127.0.0.1": ["127.0.0.1"], "localhost": ["::1"]}.get(host, [host])

    async def play(server: FeedServer) -> None:
        server.pages["/feed"] = page
        impatient = PageFetcher(
            private=("127.0.0.1",), total_timeout=0.3 if page is drip_forever else 20, resolve=resolve
        )
        with pytest.raises(FetchFailed, match=reason):
            await impatient.fetch(server.build_url(), {})

    with_server(play)


PRIVATE_ADDRESSES = {
    "https://127.0.0.1/": "this machine",
    "https://2130706433/": "this machine, as a decimal number",
    "https://0x7f.1/": "this machine, in hexadecimal",
    "https://0177.0.0.1/": "this machine, in octal",
    "https://0.0.0.0/": "this machine, as Linux takes it",
    "https://[::1]/": "this machine, IPv6",
    "https://[::ffff:127.0.0.1]/": "this machine, mapped into IPv6",
    "https://[::ffff:7f00:1]/": "this machine, mapped into IPv6 in hexadecimal",
    "https://[64:ff9b::7f00:1]/": "this machine, through NAT64",
    "https://[2002:7f00:1::]/": "this machine, through 6to4",
    "https://10.1.2.3/": "a private network",
    "https://192.168.1.1/": "a private network",
    "https://[fd00::1]/": "a private network, IPv6",
    "https://[fe80::1]/": "the link",
    "https://169.254.169.254/latest/meta-data/": "the metadata of a cloud",
    "https://100.100.100.200/": "the metadata of a cloud",
    "https://localhost/": "this machine, by name",
    "http://localhost:1/": "this machine, without TLS",
}


@pytest.mark.parametrize("url", PRIVATE_ADDRESSES)
def test_addresses_of_our_own_network_are_refused_in_every_form(url: str) -> None:
    """Resolved by the system, as a connection would."""
    with pytest.raises(FetchFailed, match=r"is not a public address|cannot be resolved"):
        asyncio.run(PageFetcher(total_timeout=20).fetch(url, {}))


@pytest.mark.parametrize(
    "addresses", [("93.184.215.14", "127.0.0.1"), ("127.0.0.1",), ("not an address",), ("::1%lo",)]
)
def test_a_name_with_any_private_address_is_refused(addresses: tuple[str, ...]) -> None:
    fetcher = PageFetcher(resolve=resolve_to(*addresses))
    with pytest.raises(FetchFailed, match="is not a public address"):
        asyncio.run(fetcher.fetch("https://rebinding.example/", {}))


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
