"""Options of the model API: checked as a whole before anything starts; unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blueflame.gateway.options import Upstream, read_model_options
from blueflame.warden.gateway_process import start_gateway
from support.model_gateways import SECRET, build_model_options

SECRETS = {"key": SECRET}
ANTHROPIC = {"upstream": "https://api.example.org", "auth": "x-api-key", "secret": "key"}


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"colour": "blue"}, "gateway: model: colour is not one of"),
        ({"token": "short"}, "token must be at least"),
        ({"apis": {"mistral": ANTHROPIC}}, "apis: mistral is not one of"),
        ({"apis": {"anthropic": {**ANTHROPIC, "secret": "other"}}}, "the secret other was not given to the warden"),
        ({"apis": {"anthropic": {**ANTHROPIC, "auth": "basic"}}}, "auth is 'basic', not one of"),
        ({"apis": {"anthropic": {**ANTHROPIC, "secret": ""}}}, "needs either a secret or a file"),
        ({"apis": {"anthropic": {**ANTHROPIC, "file": "/a"}}}, "needs either a secret or a file"),
        ({"apis": {"anthropic": {**ANTHROPIC, "secret": "", "file": "/a"}}}, "only auth oauth can be read from a file"),
        ({"apis": {"anthropic": {**ANTHROPIC, "upstream": "ftp://example.org"}}}, "must be an address such as"),
        ({"apis": {"anthropic": {**ANTHROPIC, "upstream": "https://u:p@example.org"}}}, "must be an address such as"),
        ({"apis": {"anthropic": {**ANTHROPIC, "proxy": "x"}}}, "proxy is not one of"),
        ({"budgets": {}}, "budgets must be a list"),
        ({"budgets": [{"name": "a", "unit": "euro", "limit": 1}]}, "unit is 'euro', not one of"),
        ({"budgets": [{"name": "a", "unit": "usd", "limit": -1}]}, "must be a whole number"),
        ({"prices": [{"model": "x"}]}, "must be a whole number"),
        ({"prices": [{}]}, "model must be a string"),
        ({"fallback": None}, "fallback must be an object"),
        ({"rate_limit_wait": "long"}, "rate_limit_wait must be a number"),
        ({"outage_wait": float("nan")}, "outage_wait must be a number"),
        ({"shared": "relative"}, "shared must be an absolute path"),
        ({"places": {"a": 1}}, "places: a must be a string"),
    ],
)
def test_unknown_options_start_nothing(tmp_path: Path, wrong: dict[str, Any], reported: str) -> None:
    options = {"hosts": [], "model": {**build_model_options("https://api.example.org"), **wrong}}

    with pytest.raises(ValueError, match=reported) as refused:
        start_gateway(str(tmp_path), options, SECRETS)
    assert SECRET not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_secret_is_not_shown_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds characters that no header can") as refused:
        start_gateway(
            str(tmp_path), {"hosts": [], "model": build_model_options("https://api.example.org")}, {"key": "ab\r\ncd"}
        )
    assert "ab" not in str(refused.value).replace("above", "")


def test_a_replay_needs_no_secret() -> None:
    assert read_model_options(build_model_options("https://api.example.org", replay="/cassette.jsonl"), {}) is not None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://api.example.org", (True, "api.example.org", 443, "")),
        ("http://127.0.0.1:8765/", (False, "127.0.0.1", 8765, "")),
        ("https://api.example.org/v1", (True, "api.example.org", 443, "/v1")),
        ("https://[::1]:99/a/b/", (True, "::1", 99, "/a/b")),
    ],
)
def test_an_upstream_url_is_parsed(text: str, parts: tuple[bool, str, int, str]) -> None:
    upstream = Upstream(text, "upstream")

    assert (upstream.tls, upstream.host, upstream.port, upstream.base) == parts
