"""Credentials that the gateway sends to a model's provider, from the person's environment or login.

The values go through a pipe to the warden (`Order.secrets`) and nowhere else: no file, no environment, no journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.system.files import read_json_object

CLAUDE_LOGIN_FILE, CODEX_LOGIN_FILE = ".claude/.credentials.json", ".codex/auth.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How one API is reached. `file` is a login that is read for each call; else `value` is sent."""

    upstream: str
    auth: str = "none"  # x-api-key | bearer | oauth | x-goog-api-key | none
    value: str = field(default="", repr=False)
    file: str = ""
    origin: str = "no credential"  # for people: where the credential comes from

    def build_launch_entry(self, api: str) -> dict[str, str]:
        """Build the entry of launch.json, without the credential's value."""
        secret = {"secret": api} if self.value else {}
        return {"upstream": self.upstream, "auth": self.auth, **secret, **({"file": self.file} if self.file else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    address: str
    address_variables: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]  # variable -> how it is sent
    how: str
    login: Callable[[Mapping[str, str], Path], tuple[str, str, str] | None] | None = None  # auth, value, file


def _find_claude_login(environ: Mapping[str, str], home: Path) -> tuple[str, str, str] | None:
    folder = environ.get("CLAUDE_CONFIG_DIR")
    path = Path(folder) / ".credentials.json" if folder else home / CLAUDE_LOGIN_FILE
    return ("oauth", "", str(path)) if path.is_file() else None


def _find_codex_login(environ: Mapping[str, str], home: Path) -> tuple[str, str, str] | None:
    """Find a key only: a ChatGPT login uses another server and protocol."""
    folder = environ.get("CODEX_HOME")
    path = Path(folder) / "auth.json" if folder else home / CODEX_LOGIN_FILE
    key = read_json_object(path).get("OPENAI_API_KEY")
    return ("bearer", key, "") if isinstance(key, str) and key else None


VENDORS: Mapping[str, Vendor] = {
    "anthropic": Vendor(
        address="https://api.anthropic.com",
        address_variables=("ANTHROPIC_BASE_URL",),
        keys=(
            ("ANTHROPIC_API_KEY", "x-api-key"),
            ("ANTHROPIC_AUTH_TOKEN", "bearer"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "oauth"),
        ),
        login=_find_claude_login,
        how="set ANTHROPIC_API_KEY, or log in with 'claude'",
    ),
    "openai": Vendor(
        address="https://api.openai.com/v1",
        address_variables=("OPENAI_BASE_URL",),
        keys=(("OPENAI_API_KEY", "bearer"), ("CODEX_API_KEY", "bearer")),
        login=_find_codex_login,
        how="set OPENAI_API_KEY, or log in with 'codex login --with-api-key' (a ChatGPT login cannot be used here)",
    ),
    "gemini": Vendor(
        address="https://generativelanguage.googleapis.com",
        address_variables=("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
        keys=(("GEMINI_API_KEY", "x-goog-api-key"), ("GOOGLE_API_KEY", "x-goog-api-key")),
        how="set GEMINI_API_KEY (a Google login cannot be used here)",
    ),
}


def find_access(api: str, runtime: str, options: Mapping[str, Any], environ: Mapping[str, str], home: Path) -> Access:
    """Find how the API is reached, by the runtime's settings `credential` and `upstream`. Raises Refused without a
    credential."""
    vendor = VENDORS[api]
    upstream = options.get("upstream") or _read_first_variable(environ, vendor.address_variables) or vendor.address
    _check_upstream(upstream, runtime)
    source = options.get("credential") or "auto"
    if source == "none":
        return Access(upstream=upstream)
    if source in ("auto", "environment"):
        for name, auth in vendor.keys:
            if value := environ.get(name, "").strip():
                return Access(upstream=upstream, auth=auth, value=_check_header_value(value, name), origin=name)
    if source in ("auto", "login") and vendor.login and (login := vendor.login(environ, home)) is not None:
        auth, value, file = login
        return Access(upstream=upstream, auth=auth, value=value, file=file, origin=file or "your login")
    raise Refused(
        f"the runtime {runtime} has no credential for {upstream}: {vendor.how}; "
        f"for a server without authentication set runtimes.{runtime}.credential: none"
    )


def _read_first_variable(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")


def _check_header_value(value: str, name: str) -> str:
    """Refuse a value with a line end, which would end the header."""
    if not value.isascii() or not value.isprintable():
        raise Refused(f"{name} has characters that no key has (a line end?); set it to the key alone")
    return value


def _check_upstream(upstream: str, runtime: str) -> None:
    scheme, _, rest = upstream.partition("://")
    host = rest.partition("/")[0]
    if scheme not in ("http", "https") or not host or "@" in host or not upstream.isascii() or " " in upstream:
        raise Refused(
            f"model calls of the runtime {runtime} cannot go to {upstream!r}: write http://host or https://host, "
            "without a name and password (runtimes.<name>.upstream, or the variable of your environment)"
        )


def find_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 (HOME first, as the CLIs do)
