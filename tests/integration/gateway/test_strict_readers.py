"""The strict parsers of the gateway: allow list, addresses, TLS ClientHello."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.gateway.options import find_rule, normalize_host, parse_allow_rule
from blueflame.gateway.tunnel import extract_client_hello, read_server_name
from blueflame.policy.addresses import is_private_use, is_public
from blueflame.system.http import RequestHead, RequestRefused, parse_head
from support.gateways import build_client_hello

LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=4).map(".".join)


NO_HOSTS = """
* *. .org example.org: example.org:0 example.org/ *.*.org a.*.org -a.org a-.org a_b.org пример.рф pypi．org ﬁle.org
127.1 *.1.2.3 1.2.3 1.2.3.4.5 256.1.1.1 0x7f.1 01.2.3.4 ::1 [::1%lo] [] user@example.org http://example.org
"""


@pytest.mark.parametrize(
    "text",
    [
        *NO_HOSTS.split(),
        "",
        "\u212a.org",
        "example.org\n",
        " example.org",
        "a" * 64 + ".org",
        "a." * 127 + "org",
        None,
        443,
    ],
)
def test_an_invalid_host_is_not_a_rule(text: object) -> None:
    with pytest.raises(ValueError, match=r"sandbox\.allowed_hosts"):
        parse_allow_rule(text)


@given(name=NAME, sub=NAME)
def test_a_star_covers_everything_below_and_nothing_else(name: str, sub: str) -> None:
    rules = (parse_allow_rule(f"*.{name}"),)

    assert find_rule(rules, f"{sub}.{name}", 443) is rules[0]
    assert find_rule(rules, name, 443) is None
    assert find_rule(rules, f"{sub}{name}", 443) is None
    assert find_rule(rules, f"{sub}.{name}", 80) is None


@given(text=st.text(max_size=30) | st.from_regex(r"[0-9a-fx.]{1,20}"))
def test_a_host_has_one_spelling_without_special_characters(text: str) -> None:
    host = normalize_host(text)

    if host is not None:
        assert host == host.lower()
        assert host.isascii()
        assert normalize_host(host) == host or ":" in host
        assert not set(host) & set(" /\\@?#%_*\r\n\t\0")


@given(number=st.integers(0, 2**32 - 1))
def test_no_public_address_is_special_to_python_whatever_way_it_is_wrapped(number: int) -> None:
    four = IPv4Address(number)
    if not four.is_global or four.is_multicast or four.is_reserved:
        assert not is_public(str(four))
    assert is_public(str(IPv6Address((0x64FF9B << 96) + number))) == is_public(str(four))
    for prefix in (0xFFFF << 32, 0):  # mapped, compatible
        assert not is_public(str(IPv6Address(prefix + number)))
    assert not is_public(str(IPv6Address((0x2002 << 112) + (number << 80))))


@given(number=st.integers(0, 2**128 - 1))
def test_no_public_v6_address_is_special_to_python(number: int) -> None:
    six = IPv6Address(number)
    if (not six.is_global or six.is_multicast or six.is_reserved or six.is_link_local) and (
        number >> 32 != 0x64FF9B << 64
    ):
        assert not is_public(str(six))


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("151.101.0.223", True),
        ("2a04:4e42::223", True),
        ("64:ff9b::9765:df", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b:1::9765:df", False),
        ("169.254.169.254", False),
        ("100.100.100.200", False),
        ("168.63.129.16.", False),
        ("fd00:ec2::254", False),
        ("fe80::1%eth0", False),
        ("ff02::1", False),
        ("255.255.255.255", False),
        ("127.1", False),
        ("", False),
    ],
)
def test_public_addresses_are_recognised(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_a_private_network_may_be_listed_but_never_this_machine() -> None:
    assert all(is_private_use(text) for text in ("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1"))
    assert not any(is_private_use(text) for text in ("127.0.0.1", "169.254.169.254", "::1", "fe80::1", "0.0.0.0", "x"))


@given(name=NAME.filter(lambda name: len(name) < 200))
def test_a_real_client_hello_names_its_server(name: str) -> None:
    data = build_client_hello(name)

    hello = extract_client_hello(data)

    assert hello is not None
    assert read_server_name(hello) == name


@given(cuts=st.lists(st.integers(1, 600), min_size=1, max_size=6))
def test_a_client_hello_may_span_several_records(cuts: list[int]) -> None:
    data = build_client_hello("example.org")
    body, records = data[5:], b""
    for cut in cuts:
        records += _record(body[:cut]) if body[:cut] else b""
        body = body[cut:]
    records += _record(body) if body else b""

    assert extract_client_hello(records) == extract_client_hello(data)
    assert all(extract_client_hello(records[:end]) is None for end in range(0, len(records), 7))


def _record(part: bytes) -> bytes:
    return b"\x16\x03\x01" + len(part).to_bytes(2) + part


def _hello(extensions: bytes) -> bytes:
    return b"\x03\x03" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + len(extensions).to_bytes(2) + extensions


def _extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2) + len(content).to_bytes(2) + content


def _names(*names: tuple[int, bytes]) -> bytes:
    inner = b"".join(bytes([kind]) + len(name).to_bytes(2) + name for kind, name in names)
    return _extension(0, len(inner).to_bytes(2) + inner)


GOOD = _names((0, b"example.org"))


@pytest.mark.parametrize(
    ("hello", "rule"),
    [
        (_hello(GOOD + _extension(0xFE0D, b"hidden")), "sni_hidden"),
        (_hello(_extension(0xFFCE, b"hidden")), "sni_hidden"),
        (_hello(GOOD + GOOD), "not_tls"),
        (_hello(_names((0, b"example.org"), (0, b"evil.example"))), "not_tls"),
        (_hello(_names((1, b"example.org"))), "not_tls"),
        (_hello(_names((0, b""))), "not_tls"),
        (_hello(_names((0, "пи.рф".encode()))), "not_tls"),
        (_hello(GOOD)[:-1], "not_tls"),
        (_hello(GOOD) + b"x", "not_tls"),
        (_hello(_extension(0, b"\0\x0b\0\0\x08example.orgx")), "not_tls"),
        (b"\x02\x00" + _hello(GOOD)[2:], "not_tls"),
        (b"", "not_tls"),
    ],
)
def test_an_unusual_client_hello_is_refused(hello: bytes, rule: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        read_server_name(hello)
    assert refused.value.rule == rule


def test_a_plain_client_hello_is_accepted() -> None:
    assert read_server_name(_hello(GOOD)) == "example.org"
    assert read_server_name(_hello(b"")) is None
    assert read_server_name(_hello(b"")[:-2]) is None


@settings(max_examples=300)
@given(data=st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: b"\x16\x03\x01" + tail))
def test_any_bytes_are_a_client_hello_a_refusal_or_incomplete(data: bytes) -> None:
    try:
        hello = extract_client_hello(data)
        if hello is not None:
            read_server_name(hello)
    except RequestRefused as e:
        assert e.rule in ("not_tls", "sni_hidden")


@given(
    data=st.binary(max_size=300) | st.from_regex(rb"[A-Z]{1,8} [!-~]{1,20} HTTP/1\.1(\r\n[!-~]{1,9}:[ -~]{0,9}){0,3}")
)
def test_any_bytes_are_a_head_or_a_refusal(data: bytes) -> None:
    try:
        assert isinstance(parse_head(data), RequestHead)
    except RequestRefused as e:
        assert e.rule == "malformed_request"
