"""Which addresses are public. A listed name that leads into the machine or its network must lead nowhere.

The tables of the ipaddress module changed between Python versions; what is refused here must not.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

RESERVED_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # "this network"; Linux takes 0.0.0.0 for the machine itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; cloud metadata lives here, too
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
PUBLIC_IPV6 = IPv6Network("2000::/3")  # all that was ever given out for the public net
RESERVED_IPV6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
NAT64 = IPv6Network("64:ff9b::/96")  # carries an IPv4 address in its last 32 bits
PRIVATE_IPV4 = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"))
PRIVATE_IPV6 = IPv6Network("fc00::/7")


def is_public(text: str) -> bool:
    """False as well for what is no address at all."""
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
        and not any(address in network for network in RESERVED_IPV6)  # mapped, 6to4 and Teredo are not in or are here
    )


def is_private_use(text: str) -> bool:
    """Somebody's own network, which a person may list by its literal address; never the machine itself or its link."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return any(address in network for network in PRIVATE_IPV4)
    return address in PRIVATE_IPV6


def is_same_address(one: str, other: str) -> bool:
    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False
