"""What the model door is told, read strictly. Light: the warden reads it before it forks.

Secrets come apart from it and are named in it only: launch.json is a file.
"""

from __future__ import annotations

import re

from blueflame.text.strict_json import check_keys, read_absolute_path, read_integer, read_object, read_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

KEYS = (
    *("runtime", "token", "apis", "budgets", "warn", "prices", "fallback", "rate_limit_wait", "outage_wait"),
    *("shared", "record", "replay", "key", "places"),
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
        self.auth = _read_choice(read.get("auth"), AUTHS, f"{what}: auth")
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
        self.unit = _read_choice(read.get("unit"), UNITS, f"gateway: model: budgets: {self.name}: unit")
        self.limit = read_integer(read.get("limit"), f"gateway: model: budgets: {self.name}: limit")


class ModelOptions:
    __slots__ = (
        *("apis", "budgets", "fallback", "key", "outage_wait", "places", "prices", "rate_limit_wait", "record"),
        *("replay", "shared", "token"),
    )

    def __init__(self, read: Mapping[str, Any], secrets: Mapping[str, str]) -> None:
        check_keys(read, KEYS, "gateway: model")
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
        _read_seconds(read.get("warn"), "gateway: model: warn")  # the orchestrator warns; it reads the record
        self.prices = _read_prices(read.get("prices"))
        self.fallback = _read_price_row(read.get("fallback"), "gateway: model: fallback")
        self.rate_limit_wait = _read_seconds(read.get("rate_limit_wait"), "gateway: model: rate_limit_wait")
        self.outage_wait = _read_seconds(read.get("outage_wait"), "gateway: model: outage_wait")
        self.shared = _read_path(read, "shared")
        self.key = read_string(read.get("key", ""), "gateway: model: key")
        self.places = _read_placeholders(read.get("places", {}))


def read_model_options(value: object, secrets: Mapping[str, str]) -> ModelOptions | None:
    """Raises ValueError: a door that is asked for something it does not know must not open."""
    if value is None:
        return None
    try:
        return ModelOptions(read_object(value, "gateway: model"), secrets)
    except TypeError as e:
        raise ValueError(str(e)) from e


def _read_choice(value: object, known: tuple[str, ...], what: str) -> str:
    if value not in known:
        raise ValueError(f"{what} is {value!r:.80}, not one of {', '.join(known)}")
    return str(value)


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
    """A row as billing/prices reads it; `above` is how many tokens a call must read at least to be priced by it."""
    read = read_object(value, what)
    check_keys(read, ("model", *PRICE_COLUMNS, "above"), what)
    model = read_string(read.get("model", "fallback"), f"{what}: model")
    figures = {name: read_integer(read.get(name), f"{what}: {model}: {name}") for name in PRICE_COLUMNS}
    return {"model": model, "above": read_integer(read.get("above", 0), f"{what}: {model}: above"), **figures}


def _read_seconds(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{what} must be a number that is not negative, not {value!r:.80}")
    return float(value)


def _read_path(read: Mapping[str, Any], name: str) -> str:
    value = read.get(name, "")
    return (
        read_absolute_path(value, f"gateway: model: {name}") if value else read_string(value, f"gateway: model: {name}")
    )


def _read_placeholders(value: object) -> dict[str, str]:
    read = read_object(value, "gateway: model: places")
    return {name: read_string(place, f"gateway: model: places: {name}") for name, place in read.items()}
