"""The request as the provider gets it: the agent's, without its token and with the person's credential."""

from __future__ import annotations

import hmac
import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from blueflame.gateway.model_api.endpoints import ModelRoute
from blueflame.gateway.model_api.features import is_allowed
from blueflame.gateway.options import ProviderApi
from blueflame.system.http import RequestHead, RequestRefused

TOKEN_HEADERS = ("x-api-key", "authorization", "x-goog-api-key")
REPLACED_HEADERS = ("host", "content-length", "expect", "accept-encoding", "cookie", *TOKEN_HEADERS)
DROPPED_HEADERS = re.compile(
    r"x-(?:http-)?method(?:-override)?|x-original-\S+|x-rewrite-\S+|x-forwarded-\S+|forwarded|via"
    r"|openai-(?:organization|project)|x-goog-(?!api-client$)\S+"
)
"""What names another address, another account to bill, or the part of an answer that is wanted."""
BETA_HEADER, OAUTH_BETA = "anthropic-beta", "oauth-2025-04-20"
HARMLESS_BETAS = re.compile(
    r"(?:claude-code|claude-code-side-query|interleaved-thinking|fine-grained-tool-streaming|context-(?:management|1m|hint)"
    r"|prompt-caching(?:-scope|-evict)?|extended-cache-ttl|cache-diagnosis|effort|structured-outputs|task-budgets|timing"
    r"|token-(?:efficient-tools|counting)|tool-(?:search-tool|examples|provenance)|advanced-tool-use|thinking-[a-z-]+"
    r"|(?:redact|adaptive|dev-full)-thinking|mid-conversation-[a-z-]+|per-turn-control|request-tags|computer-use|pdfs"
    r"|model-context-window-exceeded|output-\d+k|max-tokens-[a-z0-9-]+|search-results|web-search|compact|oauth"
    r"|afk-mode|auto-mode-classifier)-20\d\d-?\d\d-?\d\d"
)
"""Beta features that reach no other host, store nothing and keep the price, of any date."""
QUERY_NAMES = ("alt", "api-version", "beta", "limit", "after_id", "before_id", "pageSize", "pageToken")
READABLE_FORMATS = ("json", "sse")  # of an answer: of another one no usage can be read


class LoginUnusable(Exception):
    """The person's login cannot be used: only they can change that."""


def check_token(head: RequestHead, route: ModelRoute, token: str) -> None:
    """Check every place a client may send the token in, in constant time."""
    shown = [value.decode("latin-1") for name in TOKEN_HEADERS for value in head.get_all(name)]
    words = [value[7:].strip() if value[:7].lower() == "bearer " else value for value in (*shown, unquote(route.shown))]
    fits = [hmac.compare_digest(word.encode(), token.encode()) for word in words]
    if not any(fits):
        raise RequestRefused(401, "wrong_token", "wrong key: this gateway serves only its own attempt")


def check_query(route: ModelRoute) -> None:
    """Refuse unknown parameters: some choose another method, account or part of the answer."""
    for name, equals, value in (part.partition("=") for part in route.query.split("&")):
        if equals and (name not in QUERY_NAMES or (name == "alt" and value not in READABLE_FORMATS)):
            raise RequestRefused(400, "not_allowed", f"the parameter {name[:60]!r} of the address is not forwarded")


def format_provider_request(
    head: RequestHead, route: ModelRoute, api: ProviderApi, body: bytes, features: Iterable[str] = ()
) -> bytes:
    """Format the request, for each try again: a login may have been renewed meanwhile."""
    headers = _add_credential(_filter_headers(head, features), api)
    upstream = api.upstream
    host = f"[{upstream.host}]" if ":" in upstream.host else upstream.host
    port = "" if upstream.port == (443 if upstream.tls else 80) else f":{upstream.port}"
    target = f"{upstream.base}{route.path}" + (f"?{route.query}" if route.query else "")
    length = [("content-length", str(len(body)))] if body or head.method == "POST" else []
    own = [("host", f"{host}{port}"), *headers, ("accept-encoding", "identity"), *length]
    lines = (f"{head.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in own), "", "")
    return "\r\n".join(lines).encode("latin-1") + body


def _add_credential(headers: list[tuple[str, str]], api: ProviderApi) -> list[tuple[str, str]]:
    match api.auth:
        case "bearer":
            return [*headers, ("authorization", f"Bearer {api.secret}")]
        case "oauth":
            return [*_add_oauth_beta(headers), ("authorization", f"Bearer {api.secret or read_login(api.file)}")]
        case "none":
            return headers
    return [*headers, (api.auth, api.secret)]


def _filter_headers(head: RequestHead, features: Iterable[str]) -> list[tuple[str, str]]:
    """List the headers to forward. Unknown beta features are left out: clients can do without them."""
    given = [(name.replace("_", "-"), name, value) for name, value in head.list_forwarded(*REPLACED_HEADERS)]
    kept = [
        (name, value)
        for plain, name, value in given
        if plain not in (BETA_HEADER, *REPLACED_HEADERS) and not DROPPED_HEADERS.fullmatch(plain)
    ]
    betas = [beta.strip() for plain, _, value in given if plain == BETA_HEADER for beta in value.split(",")]
    harmless = [beta for beta in betas if HARMLESS_BETAS.fullmatch(beta) or is_allowed(beta, features)]
    return [*kept, *([(BETA_HEADER, ",".join(harmless))] if harmless else [])]


def _add_oauth_beta(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    given = [value for name, value in headers if name == BETA_HEADER]
    others = [value for value in given if OAUTH_BETA in value.split(",")] or [",".join([*given, OAUTH_BETA])]
    return [*(header for header in headers if header[0] != BETA_HEADER), (BETA_HEADER, others[0])]


def read_login(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (the gateway is light)
            found = json.loads(file.read(1 << 20))["claudeAiOauth"]
        token, expires = str(found["accessToken"]), float(found.get("expiresAt") or 0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise LoginUnusable(f"the login in {path} cannot be read") from None
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise LoginUnusable(f"the login in {path} holds no usable token")
    if expires and expires / 1000 < time.time():
        raise LoginUnusable(f"the login in {path} has expired")
    return token


def prepare_body(route: ModelRoute, body: bytes, content: Mapping[str, Any]) -> bytes:
    """Return the body to send. The answer must report usage, or it could not be metered; other APIs always do."""
    options = content.get("stream_options")
    reported = isinstance(options, dict) and options.get("include_usage") is True
    if route.path != "/chat/completions" or not content.get("stream") or reported:
        return body
    changed = {**content, "stream_options": {**(options if isinstance(options, dict) else {}), "include_usage": True}}
    return json.dumps(changed, ensure_ascii=False).encode("utf-8", "surrogatepass")
