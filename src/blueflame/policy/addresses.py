"""Which addresses are public: a name from outside that leads to this machine or its network is refused."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# The tables of the ipaddress module differ between Python versions; what is refused here must not.
RESERVED_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # "this network"; Linux takes 0.0.0.0 for the machine itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, also with metadata services of clouds
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, with the metadata services of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
PUBLIC_IPV6 = IPv6Network("2000::/3")  # all that was ever assigned for public use
RESERVED_IPV6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
NAT64 = IPv6Network("64:ff9b::/96")  # carries an IPv4 address in its last 32 bits
PRIVATE_IPV4 = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"))
PRIVATE_IPV6 = IPv6Network("fc00::/7")
# Addresses that a network gives to names of its own choice: mirrors, and proxies that answer for every name.
MIRROR_IPV4 = (*PRIVATE_IPV4, *(IPv4Network(text) for text in ("192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
                                                               "203.0.113.0/24")))  # fmt: skip


def is_public(text: str) -> bool:
    """Whether the text is a public address; False for what is not an address."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return _is_public_ipv4(address) if isinstance(address, IPv4Address) else _is_public_ipv6(address)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in network for network in RESERVED_IPV4)


def _is_public_ipv6(address: IPv6Address) -> bool:
    if address in NAT64:
        return _is_public_ipv4(IPv4Address(int(address) & 0xFFFFFFFF))
    return (
        address.scope_id is None
        and address in PUBLIC_IPV6
        and not any(address in network for network in RESERVED_IPV6)  # 6to4 and Teredo; mapped ones are not in 2000::/3
    )


def is_private_use(text: str, networks: Sequence[IPv4Network] = PRIVATE_IPV4) -> bool:
    """Whether it is in a private network, which may be listed by literal address; never this machine or its link."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return any(address in network for network in networks)
    return address in PRIVATE_IPV6


def is_same_address(one: str, other: str) -> bool:
    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False
