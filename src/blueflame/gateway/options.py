"""What a gateway is told, and the allow list's own language. Light: the warden reads it before it forks.

example.org          this very name, port 443          *.example.net       every name below it, not example.net itself
example.org:8443  another port                      10.1.2.3:443      a literal address, also when it is a private one
"""

from __future__ import annotations

import re

from blueflame.gateway.model_options import read_model_options

TYPE_CHECKING = False  # the typing module alone would cost every attempt some 8 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from blueflame.gateway.model_options import ModelOptions

HTTPS_PORT = 443
MAX_HOST_LENGTH = 253
MAX_RULES = 10_000
KEYS = ("allow_private", "hosts", "model", "port")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")  # 127.1, 0x7f.1 and 2130706433 are addresses to a resolver
_IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}")
_IPV6 = re.compile(r"\[([0-9a-f:.]{2,45})\]")
_ENTRY = re.compile(r"(?P<wild>\*\.)?(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[1-9][0-9]{0,4}))?")


class AllowRule:
    """One entry of the allow list; `text` is how the person wrote it."""

    __slots__ = ("host", "port", "text", "wildcard")

    def __init__(self, host: str, port: int, text: str, *, wildcard: bool) -> None:
        self.host = host
        self.port = port
        self.text = text
        self.wildcard = wildcard

    def matches(self, host: str) -> bool:
        return host.endswith(f".{self.host}") if self.wildcard else host == self.host


class GatewayOptions:
    """`private`: only tests may lead to addresses that are not public."""

    __slots__ = ("attempt", "folder", "model", "private", "rules")

    def __init__(
        self, folder: str, rules: tuple[AllowRule, ...], *, private: bool = False, model: ModelOptions | None = None
    ) -> None:
        self.attempt = folder.rpartition("/")[2]
        self.folder = folder
        self.model = model
        self.private = private
        self.rules = rules


def read_options(folder: str, gateway: Mapping[str, Any], secrets: Mapping[str, str] | None = None) -> GatewayOptions:
    """Raises ValueError: a gateway that is asked for something it does not know must not start."""
    unknown = sorted(set(gateway) - set(KEYS))
    if unknown:
        raise ValueError(f"gateway: {unknown[0]!r} is not one of {', '.join(KEYS)}")
    hosts = gateway.get("hosts", [])
    if not isinstance(hosts, list | tuple) or len(hosts) > MAX_RULES:
        raise ValueError(f"gateway: hosts must be a list of at most {MAX_RULES} host names, not {hosts!r:.80}")
    private = gateway.get("allow_private", False)
    if private not in (True, False):
        raise ValueError(f"gateway: allow_private must be true or false, not {private!r:.80}")
    model = read_model_options(gateway.get("model"), secrets or {})
    return GatewayOptions(
        folder.rstrip("/"), tuple(parse_allow_rule(text) for text in hosts), private=bool(private), model=model
    )


def parse_allow_rule(text: object) -> AllowRule:
    found = _ENTRY.fullmatch(text) if isinstance(text, str) else None
    host = normalize_host(found["host"]) if found else None
    if found is None or host is None or (found["wild"] and is_ip_literal(host)):
        raise ValueError(
            f"gateway: {text!r:.80} in sandbox.allowed_hosts is no host;"
            " write example.org, *.example.net or example.org:8443"
        )
    port = int(found["port"] or HTTPS_PORT)
    if port > 65535:
        raise ValueError(f"gateway: {text!r:.80} in sandbox.allowed_hosts: there is no port {port}")
    return AllowRule(host, port, str(text), wildcard=bool(found["wild"]))


def normalize_host(text: str) -> str | None:
    """The one spelling of a name or literal address by which rules are compared; None for anything odd."""
    if not text.isascii():  # lower() turns some letters of other scripts into ASCII
        return None
    name = text.lower()
    six = _IPV6.fullmatch(name)
    if six:
        return six[1]
    name = name.removesuffix(".")
    if len(name) > MAX_HOST_LENGTH or not _NAME.fullmatch(name):
        return None
    return name if not _NUMBER.fullmatch(name) or _IPV4.fullmatch(name) else None


def is_ip_literal(host: str) -> bool:
    return ":" in host or _NUMBER.fullmatch(host) is not None


def find_rule(rules: tuple[AllowRule, ...], host: str, port: int) -> AllowRule | None:
    return next((rule for rule in rules if rule.port == port and rule.matches(host)), None)


def list_allowed_ports(rules: tuple[AllowRule, ...], host: str) -> list[int]:
    """At which ports the host may be reached, so that a refusal can say so."""
    return sorted({rule.port for rule in rules if rule.matches(host)})
