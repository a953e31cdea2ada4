"""Fetch a page that others control: limits on time, bytes and redirects, and no way into our own network.

A name is resolved once for each redirect, and the connection is made to the address that was checked: a second lookup
could be answered differently.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import cast
from urllib.parse import urljoin, urlsplit

from blueflame import __version__
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError
from blueflame.model.settings.notifications import find_url_problem
from blueflame.policy.addresses import is_public, is_same_address
from blueflame.text.sanitize import clean_line

MAX_BODY_BYTES = 2_000_000  # also after decompression
MAX_HEAD_BYTES = 64_000
MAX_REDIRECTS = 3
MAX_ADDRESSES = 4
CONNECT_TIMEOUT, TOTAL_TIMEOUT = 15.0, 60.0
USER_AGENT = f"blueflame/{__version__} (feed reader)"
PERMANENT, TEMPORARY = frozenset({301, 308}), frozenset({302, 303, 307})

Resolver = Callable[[str, int], Awaitable[list[str]]]


class FetchFailed(WorldError):
    """The page could not be fetched, or was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    moved_to: str = ""  # where it is from now on: all redirects were permanent


async def resolve_with_system(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(where[0]) for *_, where in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFetcher:
    """`private`: networks of ours that may be reached. Tests replace `resolve`."""

    private: tuple[str, ...] = ()
    resolve: Resolver = resolve_with_system
    total_timeout: float = TOTAL_TIMEOUT

    async def fetch(self, url: str, headers: Mapping[str, str]) -> FetchedPage:
        """GET a page. `headers` go to the first address only. Raises FetchFailed."""
        try:
            async with asyncio.timeout(self.total_timeout):
                return await self._follow(url, headers)
        except TimeoutError:
            raise FetchFailed(f"{_show(url)}: not finished after {self.total_timeout:g} seconds; try later") from None
        except (OSError, UnicodeError) as error:
            raise FetchFailed(f"{_show(url)}: {_explain(error)}; check the address") from error
        except (http.client.HTTPException, ValueError, EOFError, asyncio.LimitOverrunError) as error:
            raise FetchFailed(f"{_show(url)}: the answer is not valid HTTP ({type(error).__name__})") from error

    async def _follow(self, url: str, headers: Mapping[str, str]) -> FetchedPage:
        moved_to, is_permanent, at = "", True, url
        for _ in range(MAX_REDIRECTS + 1):
            try:
                status, found, body = await self._get(at, headers)
            except FetchFailed as error:
                raise error if at == url else FetchFailed(f"{_show(url)} redirects to {_show(at)}: {error}") from error
            if status not in PERMANENT | TEMPORARY or "location" not in found:
                return FetchedPage(status=status, headers=found, body=body, moved_to=moved_to if is_permanent else "")
            at, headers = urljoin(at, found["location"]), {}
            is_permanent = is_permanent and status in PERMANENT
            moved_to = at
        raise FetchFailed(f"{_show(url)}: redirected more than {MAX_REDIRECTS} times; correct the address")

    async def _get(self, url: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        if problem := find_url_problem(url):
            raise FetchFailed(f"{_show(url)} {problem}: not fetched; correct the address")
        parts = urlsplit(url)
        secure, host = parts.scheme == "https", cast("str", parts.hostname)
        port = parts.port or (443 if secure else 80)
        reader, writer = await self._connect(host, port, secure=secure)
        try:
            writer.write(_format_request(parts.netloc, parts.path or "/", parts.query, headers))
            await writer.drain()
            return _parse_response(await _read_response(reader))
        finally:
            writer.transport.abort()  # no orderly end for a server that may never read

    async def _connect(
        self, host: str, port: int, *, secure: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first address that answers. All of them must be public, or listed."""
        addresses = list(dict.fromkeys(await self.resolve(host, port)))[:MAX_ADDRESSES]
        for text in addresses:
            if not is_public(text) and not self._is_listed(text):
                raise self._build_private_error(host, text)
        context = await asyncio.to_thread(ssl.create_default_context) if secure else None
        failure: OSError = OSError("it has no address")
        for text in addresses:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    reader, writer = await asyncio.open_connection(
                        text, port, ssl=context, server_hostname=host if context else None, limit=MAX_HEAD_BYTES
                    )
            except OSError as error:  # TimeoutError is one
                failure = error
                continue
            here, there = (str(writer.get_extra_info(end)[0]) for end in ("sockname", "peername"))
            if is_same_address(here, there) and not self._is_listed(there):
                writer.transport.abort()
                raise self._build_private_error(host, there)  # this machine, by its public address
            return reader, writer
        raise failure

    def _build_private_error(self, host: str, address: str) -> FetchFailed:
        named = address if host == address else f"{host} leads to {address}, which"
        return FetchFailed(
            f"{clean_line(named)} is not a public address: not fetched;"
            " if it is a server of yours, list it under sources.feeds.private_addresses in house.yaml"
        )

    def _is_listed(self, text: str) -> bool:
        try:
            address = _unmap(ip_address(text))
        except ValueError:
            return False
        return any(address in ip_network(network, strict=False) for network in self.private)


def _unmap(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return getattr(address, "ipv4_mapped", None) or address


def _format_request(authority: str, path: str, query: str, headers: Mapping[str, str]) -> bytes:
    target = f"{path}?{query}" if query else path
    own = {"Host": authority, "User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "gzip"}
    lines = [f"{name}: {value}" for name, value in {**own, **headers, "Connection": "close"}.items()]
    return "\r\n".join([f"GET {target} HTTP/1.1", *lines, "", ""]).encode("ascii")


async def _read_response(reader: asyncio.StreamReader) -> bytes:
    """Read to the end of the connection, or of the body where that is known before."""
    head = await reader.readuntil(b"\r\n\r\n")
    _, found, _ = _parse_response(head, only_head=True)
    most = MAX_BODY_BYTES + MAX_BODY_BYTES // 8  # chunks have heads, too
    length = found.get("content-length", "")
    if length.isdigit() and "transfer-encoding" not in found:
        if int(length) > MAX_BODY_BYTES:
            raise FetchFailed(f"the answer has {length} bytes, and at most {MAX_BODY_BYTES} are read")
        return head + await reader.readexactly(int(length) if _has_body(head) else 0)
    body = bytearray()
    while _has_body(head) and (part := await reader.read(65_536)):
        body += part
        if len(body) > most:
            raise FetchFailed(f"the answer has more than {MAX_BODY_BYTES} bytes; it is not read")
        if found.get("transfer-encoding") and body.endswith(b"\r\n0\r\n\r\n"):
            break
    return head + bytes(body)


def _has_body(head: bytes) -> bool:
    return head[9:12] not in (b"204", b"304")


class _Received:
    """Bytes in the place of a socket, for http.client to parse."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _parse_response(data: bytes, *, only_head: bool = False) -> tuple[int, dict[str, str], bytes]:
    response = http.client.HTTPResponse(cast("socket.socket", _Received(data)), method="GET")
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    body = b"" if only_head else _decompress(response.read(), headers.get("content-encoding", ""))
    return response.status, headers, body


def _decompress(body: bytes, encoding: str) -> bytes:
    if encoding.strip().lower() in ("", "identity"):
        found = body
    elif encoding.strip().lower() in ("gzip", "x-gzip"):
        unpacker = zlib.decompressobj(31)
        try:
            found = unpacker.decompress(body, MAX_BODY_BYTES + 1)
        except zlib.error as error:
            raise FetchFailed(f"the answer is not valid gzip ({error})") from error
        if not unpacker.eof and len(found) <= MAX_BODY_BYTES:
            raise FetchFailed("the answer was cut off; try later")
    else:
        raise FetchFailed(f"the answer is compressed with {clean_line(encoding)[:40]}, which was not asked for")
    if len(found) > MAX_BODY_BYTES:
        raise FetchFailed(f"the answer has more than {MAX_BODY_BYTES} bytes; it is not read")
    return found


def _explain(error: OSError | UnicodeError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted ({error.verify_message})"
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return str(getattr(error, "strerror", None) or error)


def _show(url: str) -> str:
    """Scheme, host and path: a query may hold a key."""
    return clean_line(url.partition("?")[0])[:200]
