"""The rules that find secrets: read from rules.toml, with the fragments and checks that they name."""

from __future__ import annotations

import re
import tomllib
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache, reduce
from pkgutil import get_data
from typing import Any, Final

from blueflame.checks.secrets.entropy import is_example, is_placeholder, is_random
from blueflame.lazy_dataclass import dataclass
from blueflame.lazy_pattern import compile_later

MatchCheck = Callable[[re.Match[str]], bool]


@dataclass(frozen=True, slots=True)
class SecretRule:
    """The pattern begins at the anchor, and its group `secret` is the secret."""

    name: str
    about: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    check: MatchCheck
    fold: bool = False  # anchors are written in small letters, and letter case does not count
    config_only: bool = False  # tried only in files with settings: elsewhere it would match names, not values


def _is_vendor_token(found: re.Match[str]) -> bool:
    """The shape identifies it; only obvious examples are allowed."""
    secret = found["secret"]
    return len(set(secret)) >= 8 and not is_example(secret)


def _is_random_value(found: re.Match[str]) -> bool:
    """The name identifies it, and the value is random."""
    return not is_example(found["secret"]) and is_random(found["secret"])


def _is_random_not_placeholder(found: re.Match[str]) -> bool:
    secret = found["secret"]
    return not is_placeholder(secret) and is_random(secret)


HARMLESS_SUFFIX = compile_later(
    r"(?i)hash|digest|name|path|file|ur[il]|header|type|field|label|regex|pattern|hint|prompt|policy|ttl|limit|size|"
    r"count|length|expir|placeholder|template|endpoint|scope|version|format|prefix|(?:^|[_.-])ids?$|^i[sz]"
)


def _is_assigned_secret(found: re.Match[str]) -> bool:
    """`token_name` and `password_hash` hold no secret, whatever their value."""
    return not HARMLESS_SUFFIX.search(found["rest"]) and _is_random_not_placeholder(found)


COMMON_PASSWORDS = compile_later(
    r"(?i)postgres|passw(?:or)?d|pass|root|admin|guest|secret|user(?:name)?|mysql|redis|rabbitmq|mongo|token|changeit"
)
TEST_HOSTS = compile_later(
    r"(?i)(localhost|127\.|0\.0\.0\.0|\[?::1|example\.|[\w.-]*\.example\b|[\w.-]*\.(test|invalid)\b)"
)


def _is_url_password(found: re.Match[str]) -> bool:
    """Passwords of local test databases and those that equal the user are not secrets."""
    secret, user = found["secret"], found["user"]
    plain = COMMON_PASSWORDS.fullmatch(secret) or secret.lower() == user.lower() or is_placeholder(secret)
    return not plain and len(set(secret)) >= 5 and not TEST_HOSTS.match(found["host"])


def _is_netrc_password(found: re.Match[str]) -> bool:
    secret = found["secret"]
    return not COMMON_PASSWORDS.fullmatch(secret) and not is_placeholder(secret)


EDGE: Final = r"(?<![A-Za-z0-9_])"
STOP: Final = r"(?![A-Za-z0-9_])"
SET: Final = r"[\"'`\]]{0,2}[ \t]{0,8}(?::[ \t]{0,4}[\w\[\]|. ]{1,30}=|=>|:=|\?=|={1,3}|:)[ \t]{0,8}"
BODY: Final = r"(?:\\[nrt]|[bruf](?=[\"'])|[\s\"'`+\\,()>#*|;.-]|[A-Z][A-Za-z-]{2,20}:[ ][^\n\\]{0,100}){1,80}"
UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

KEY_KINDS = ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP ")


def _build_base64_heads() -> str:
    """Return `-----BEGIN RSA PRIVATE` and the like in base64, up to the last letter that is certain."""
    heads = (f"-----BEGIN {kind}PRIVATE".encode() for kind in KEY_KINDS)
    return "|".join(re.escape(b64encode(head).decode()[: len(head) * 8 // 6]) for head in heads)


# By the last word of a name; a `key` is a secret only after one of these words.
KEY: Final = "|".join(
    rf"(?<={word}[_-])key|(?<={word})key" for word in ("api", "access", "private", "auth", "secret", "encryption")
)
NAMED: Final = rf"(?i:passw(?:or)?d|passphrase|secret|token|credential|{KEY})(?P<rest>[\w.-]{{0,30}}){SET}"

FRAGMENTS: Final = {
    "<EDGE>": EDGE,
    "<STOP>": STOP,
    "<SET>": SET,
    "<BODY>": BODY,
    "<UUID>": UUID,
    "<NAMED>": NAMED,
    "<BASE64_HEADS>": _build_base64_heads(),
}
CHECKS: Final[Mapping[str, MatchCheck]] = {
    "vendor": _is_vendor_token,
    "random": _is_random_value,
    "assigned": _is_assigned_secret,
    "url": _is_url_password,
    "netrc": _is_netrc_password,
}


def _build_rule(row: Mapping[str, Any]) -> SecretRule:
    options = dict(row)
    pattern = reduce(lambda text, part: text.replace(*part), FRAGMENTS.items(), options.pop("pattern"))
    anchors, check = tuple(options.pop("anchors").split()), CHECKS[options.pop("check", "vendor")]
    return SecretRule(anchors=anchors, pattern=compile_later(pattern), check=check, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTable:
    """All rules, the more specific ones first, and how they are found."""

    rules: tuple[SecretRule, ...]
    ranks: Mapping[str, int]  # by name
    prefixes: Mapping[str, SecretRule]  # each before TAIL
    anchors: Mapping[tuple[str, bool], tuple[SecretRule, ...]]  # of the others, with `fold`; each is searched once


@cache
def load_rules() -> RuleTable:
    """Not at import: a session needs them when its first agent has ended."""
    tables = tomllib.loads((get_data(__name__, "rules.toml") or b"").decode())
    vendor, prefixed, named = (tuple(map(_build_rule, tables[kind])) for kind in ("vendor", "prefixed", "named"))
    anchors: dict[tuple[str, bool], tuple[SecretRule, ...]] = {}
    for rule in (*vendor, *named):
        for anchor in rule.anchors:
            anchors[anchor, rule.fold] = (*anchors.get((anchor, rule.fold), ()), rule)
    rules = (*vendor, *prefixed, *named)
    return RuleTable(
        rules=rules,
        ranks={rule.name: rank for rank, rule in enumerate(rules)},
        prefixes={anchor: rule for rule in prefixed for anchor in rule.anchors},
        anchors=anchors,
    )


TAIL: Final = compile_later(r"[_-][A-Za-z0-9]{14}")
"""The end of a prefix and what follows it, in every rule of `prefixed`."""

CONFIG_FILE = compile_later(
    r"(?i)(?:^|/)(?:\.env[^/]*|[^/]*\.(?:env|ya?ml|ini|cfg|conf|config|properties|toml|tfvars|sh|bash|zsh|service|txt|"
    r"npmrc|pypirc|pgpass)|\.npmrc|\.pypirc|\.netrc|\.bashrc|\.profile|credentials|dockerfile[^/]*|makefile)$"
)
