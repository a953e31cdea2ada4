"""The request as the provider gets it: the agent's, without its token and with the person's credential."""

from __future__ import annotations

import hmac
import json
import time
from typing import Any
from urllib.parse import unquote

from blueflame.billing.sse import parse_json
from blueflame.gateway.model_api.endpoints import ModelRoute
from blueflame.gateway.options import ProviderApi
from blueflame.gateway.request import RequestHead, RequestRefused, build_malformed_refusal

TOKEN_HEADERS = ("x-api-key", "authorization", "x-goog-api-key")
REPLACED_HEADERS = ("host", "content-length", "expect", "accept-encoding", "cookie", *TOKEN_HEADERS)
OAUTH_BETA = "oauth-2025-04-20"


class LoginUnusable(Exception):
    """The person's login cannot be used: only they can change that."""


def check_token(head: RequestHead, route: ModelRoute, token: str) -> None:
    """Check every place a client may send the token in, in constant time."""
    shown = [value.decode("latin-1") for name in TOKEN_HEADERS for value in head.get_all(name)]
    words = [value[7:].strip() if value[:7].lower() == "bearer " else value for value in (*shown, unquote(route.shown))]
    fits = [hmac.compare_digest(word.encode(), token.encode()) for word in words]
    if not any(fits):
        raise RequestRefused(401, "wrong_token", "wrong key: this gateway serves only its own attempt")


def format_provider_request(head: RequestHead, route: ModelRoute, api: ProviderApi, body: bytes) -> bytes:
    """Format the request, for each try again: a login may have been renewed meanwhile."""
    headers = _add_credential(head.list_forwarded(*REPLACED_HEADERS), api)
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


def _add_oauth_beta(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    name = "anthropic-beta"
    given = [value for key, value in headers if key == name]
    betas = [beta for value in given for beta in map(str.strip, value.split(",")) if beta]
    if OAUTH_BETA not in betas:
        betas.append(OAUTH_BETA)
    return [*((key, value) for key, value in headers if key != name), (name, ",".join(betas))]


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


def prepare_body(route: ModelRoute, body: bytes) -> bytes:
    """Return the body to send. The answer must report usage, or it could not be metered."""
    if route.api != "openai":
        return body  # these always report usage; not parsing a large request saves milliseconds
    content = _parse_json_object(body)
    if content.get("background"):
        raise RequestRefused(400, "not_metered", "background responses cannot be metered; ask without background")
    options = content.get("stream_options")
    reported = isinstance(options, dict) and options.get("include_usage") is True
    if route.path != "/chat/completions" or not content.get("stream") or reported:
        return body
    content["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _parse_json_object(body: bytes) -> dict[str, Any]:
    found = parse_json(body)
    if not isinstance(found, dict):
        raise build_malformed_refusal("the body of the request is not a JSON object")
    return found
