"""The options of a gateway, read strictly, and the allow list syntax. Light: the warden reads it before it forks.

example.org        this name, port 443      *.example.net    every name below it, not example.net itself
example.org:8443   another port             10.1.2.3:443     a literal address, also a private one

Secrets are passed separately and only named here: launch.json is a file.
"""

from __future__ import annotations

import re

from blueflame.text.strict_json import (
    check_keys,
    read_absolute_path,
    read_choice,
    read_integer,
    read_object,
    read_string,
)

TYPE_CHECKING = False  # the typing module alone would cost every attempt some 8 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HTTPS_PORT = 443
MAX_HOST_LENGTH = 253
MAX_RULES = 10_000
AGENT_LISTENER, SETUP_LISTENER = b"L", b"S"  # how the warden announces a listener
KEYS = ("allow_private", "hosts", "model", "port", "registries", "setup")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")  # 127.1, 0x7f.1 and 2130706433 are addresses to a resolver
_IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}")
_IPV6 = re.compile(r"\[([0-9a-f:.]{2,45})\]")
_ENTRY = re.compile(r"(?P<wild>\*\.)?(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[1-9][0-9]{0,4}))?")


class AllowRule:
    """One entry of the allow list; `text` is as written in the configuration. The name of a `local` one may resolve to
    a mirror in the person's own network."""

    __slots__ = ("host", "local", "port", "text", "wildcard")

    def __init__(self, host: str, port: int, text: str, *, wildcard: bool, local: bool = False) -> None:
        self.host = host
        self.local = local
        self.port = port
        self.text = text
        self.wildcard = wildcard

    def matches(self, host: str) -> bool:
        return host.endswith(f".{self.host}") if self.wildcard else host == self.host


class GatewayOptions:
    """`private` allows addresses that are not public, for tests; `setting` is where a person allows more hosts."""

    __slots__ = ("attempt", "folder", "model", "private", "registries", "rules", "setting")

    def __init__(
        self,
        folder: str,
        rules: tuple[AllowRule, ...],
        *,
        registries: tuple[AllowRule, ...] = (),
        private: bool = False,
        model: ModelOptions | None = None,
        setting: str = "sandbox.allowed_hosts",
    ) -> None:
        self.attempt = folder.rpartition("/")[2]
        self.folder = folder
        self.model = model
        self.private = private
        self.registries = registries
        self.rules = rules
        self.setting = setting

    def extend_for_setup(self) -> GatewayOptions:
        """What setup commands may reach: the registries too, but no model."""
        rules = (*self.rules, *self.registries)
        return GatewayOptions(self.folder, rules, private=self.private, setting="worktree.registries")


def read_options(folder: str, gateway: Mapping[str, Any], secrets: Mapping[str, str] | None = None) -> GatewayOptions:
    """Read and check. Raises ValueError: a gateway with unknown options must not start."""
    check_keys(gateway, KEYS, "gateway")
    hosts, registries = (_read_hosts(gateway, name) for name in ("hosts", "registries"))
    private = gateway.get("allow_private", False)
    if private not in (True, False):
        raise ValueError(f"gateway: allow_private must be true or false, not {private!r:.80}")
    model = read_model_options(gateway.get("model"), secrets or {})
    return GatewayOptions(
        folder.rstrip("/"),
        tuple(parse_allow_rule(text) for text in hosts),
        registries=tuple(parse_allow_rule(text, local=True) for text in registries),
        private=bool(private),
        model=model,
    )


def _read_hosts(gateway: Mapping[str, Any], name: str) -> list[object]:
    hosts = gateway.get(name, [])
    if not isinstance(hosts, list | tuple) or len(hosts) > MAX_RULES:
        raise ValueError(f"gateway: {name} must be a list of at most {MAX_RULES} host names, not {hosts!r:.80}")
    return list(hosts)


def parse_allow_rule(text: object, *, local: bool = False) -> AllowRule:
    found = _ENTRY.fullmatch(text) if isinstance(text, str) else None
    host = normalize_host(found["host"]) if found else None
    if found is None or host is None or (found["wild"] and is_ip_literal(host)):
        raise ValueError(
            f"gateway: {text!r:.80} in sandbox.allowed_hosts is not a host;"
            " write example.org, *.example.net or example.org:8443"
        )
    port = int(found["port"] or HTTPS_PORT)
    if port > 65535:
        raise ValueError(f"gateway: {text!r:.80} in sandbox.allowed_hosts: there is no port {port}")
    wildcard = bool(found["wild"])
    return AllowRule(host, port, str(text), wildcard=wildcard, local=local and not wildcard)


def normalize_host(text: str) -> str | None:
    """Return the one spelling by which hosts are compared; None if it is not a valid host."""
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
    """List the allowed ports of the host, for the message of a refusal."""
    return sorted({rule.port for rule in rules if rule.matches(host)})


MODEL_KEYS = (
    *("runtime", "token", "apis", "budgets", "warn", "prices", "fallback", "rate_limit_wait", "outage_wait"),
    *("shared", "record", "replay", "key", "places", "web_search", "models", "features", "silence"),
)
APIS = ("anthropic", "openai", "gemini")
AUTHS = ("x-api-key", "bearer", "oauth", "x-goog-api-key", "none")
PRICE_COLUMNS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "web_search")
UNITS = ("usd", "tokens")
MIN_TOKEN_LENGTH = 8
_UPSTREAM = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([1-9][0-9]{0,4}))?((?:/[A-Za-z0-9._~-]+)*)/?"
)
_VISIBLE = re.compile(r"[\x21-\x7e]+")


class Upstream:
    """`base` is the path before every endpoint, without a slash at its end."""

    __slots__ = ("base", "host", "port", "text", "tls")

    def __init__(self, value: object, what: str) -> None:
        found = _UPSTREAM.fullmatch(read_string(value, what))
        if found is None:
            raise ValueError(f"{what} must be an address such as https://api.example.org/v1, not {value!r:.80}")
        self.text = str(value)
        self.tls = found[1] == "https"
        self.host = found[2].strip("[]")
        self.port = int(found[3] or (443 if self.tls else 80))
        self.base = found[4]
        if self.port > 65535:
            raise ValueError(f"{what}: there is no port {self.port}")


class ProviderApi:
    """How one provider is reached. The credential is `secret`, or read from `file` for each call."""

    __slots__ = ("auth", "file", "name", "secret", "upstream")

    def __init__(self, name: str, value: object, secrets: Mapping[str, str], *, replayed: bool) -> None:
        what = f"gateway: model: apis: {name}"
        read = read_object(value, what)
        check_keys(read, ("upstream", "auth", "secret", "file"), what)
        self.name = name
        self.upstream = Upstream(read.get("upstream"), f"{what}: upstream")
        self.auth = read_choice(read.get("auth"), AUTHS, f"{what}: auth")
        self.file = read_absolute_path(read["file"], f"{what}: file") if read.get("file") else ""
        wanted = read_string(read.get("secret", ""), f"{what}: secret")
        self.secret = secrets.get(wanted, "") if wanted else ""
        if replayed or self.auth == "none":
            return
        if wanted and not _VISIBLE.fullmatch(self.secret):
            how = "holds characters that no header can" if self.secret else "was not given to the warden"
            raise ValueError(f"{what}: the secret {wanted} {how}")
        if bool(wanted) == bool(self.file):
            raise ValueError(f"{what}: auth {self.auth} needs either a secret or a file")
        if self.file and self.auth != "oauth":
            raise ValueError(f"{what}: only auth oauth can be read from a file, not {self.auth}")


class BudgetLimit:
    """One budget. `limit` is in millionths of a dollar, or in tokens."""

    __slots__ = ("limit", "name", "unit")

    def __init__(self, value: object) -> None:
        read = read_object(value, "gateway: model: budgets")
        check_keys(read, ("name", "unit", "limit"), "gateway: model: budgets")
        self.name = read_string(read.get("name"), "gateway: model: budgets: name")
        self.unit = read_choice(read.get("unit"), UNITS, f"gateway: model: budgets: {self.name}: unit")
        self.limit = read_integer(read.get("limit"), f"gateway: model: budgets: {self.name}: limit")


class ModelOptions:
    __slots__ = (
        *("apis", "budgets", "fallback", "features", "key", "models", "outage_wait", "places", "prices"),
        *("rate_limit_wait", "record", "replay", "shared", "silence", "token", "warn", "web_search"),
    )

    def __init__(self, read: Mapping[str, Any], secrets: Mapping[str, str]) -> None:
        check_keys(read, MODEL_KEYS, "gateway: model")
        read_string(read.get("runtime"), "gateway: model: runtime")  # for people who read the launch
        self.token = read_string(read.get("token"), "gateway: model: token")
        if len(self.token) < MIN_TOKEN_LENGTH or not _VISIBLE.fullmatch(self.token):
            raise ValueError(f"gateway: model: token must be at least {MIN_TOKEN_LENGTH} visible ASCII characters")
        self.record, self.replay = (_read_path(read, name) for name in ("record", "replay"))
        self.apis = _read_apis(read.get("apis"), secrets, replayed=bool(self.replay))
        budgets = read.get("budgets")
        if not isinstance(budgets, list):
            raise TypeError(f"gateway: model: budgets must be a list, not {budgets!r:.80}")
        self.budgets = tuple(BudgetLimit(value) for value in budgets)
        self.warn = _read_seconds(read.get("warn"), "gateway: model: warn")  # the part of a budget
        self.prices = _read_prices(read.get("prices"))
        self.fallback = _read_price_row(read.get("fallback"), "gateway: model: fallback")
        self.rate_limit_wait = _read_seconds(read.get("rate_limit_wait"), "gateway: model: rate_limit_wait")
        self.outage_wait = _read_seconds(read.get("outage_wait"), "gateway: model: outage_wait")
        self.silence = _read_seconds(read.get("silence", 0), "gateway: model: silence")  # 0: no limit of its own
        self.shared = _read_path(read, "shared")
        self.key = read_string(read.get("key", ""), "gateway: model: key")
        self.places = _read_placeholders(read.get("places", {}))
        self.web_search = read.get("web_search", False) is True
        self.models, self.features = (_read_names(read, name) for name in ("models", "features"))


def read_model_options(value: object, secrets: Mapping[str, str]) -> ModelOptions | None:
    """Read and check. Raises ValueError for anything unknown."""
    if value is None:
        return None
    try:
        return ModelOptions(read_object(value, "gateway: model"), secrets)
    except TypeError as e:
        raise ValueError(str(e)) from e


def _read_apis(value: object, secrets: Mapping[str, str], *, replayed: bool) -> dict[str, ProviderApi]:
    read = read_object(value, "gateway: model: apis")
    check_keys(read, APIS, "gateway: model: apis")
    return {name: ProviderApi(name, read[name], secrets, replayed=replayed) for name in sorted(read)}


def _read_prices(value: object) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list):
        raise TypeError(f"gateway: model: prices must be a list, not {value!r:.80}")
    for row in value:
        read_string(read_object(row, "gateway: model: prices").get("model"), "gateway: model: prices: model")
    return tuple(_read_price_row(row, "gateway: model: prices") for row in value)


def _read_price_row(value: object, what: str) -> dict[str, Any]:
    """Read a row for billing/prices; it applies to calls that read more than `above` tokens."""
    read = read_object(value, what)
    check_keys(read, ("model", *PRICE_COLUMNS, "above"), what)
    model = read_string(read.get("model", "fallback"), f"{what}: model")
    figures = {name: read_integer(read.get(name), f"{what}: {model}: {name}") for name in PRICE_COLUMNS}
    return {"model": model, "above": read_integer(read.get("above", 0), f"{what}: {model}: above"), **figures}


def _read_seconds(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{what} must be a number that is not negative, not {value!r:.80}")
    return float(value)


def _read_names(read: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = read.get(name, [])
    if not isinstance(value, list):
        raise TypeError(f"gateway: model: {name} must be a list, not {value!r:.80}")
    return tuple(read_string(each, f"gateway: model: {name}") for each in value)


def _read_path(read: Mapping[str, Any], name: str) -> str:
    value = read.get(name, "")
    return (
        read_absolute_path(value, f"gateway: model: {name}") if value else read_string(value, f"gateway: model: {name}")
    )


def _read_placeholders(value: object) -> dict[str, str]:
    read = read_object(value, "gateway: model: places")
    return {name: read_string(place, f"gateway: model: places: {name}") for name, place in read.items()}
