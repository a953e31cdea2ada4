"""Where the credential for a model comes from, and that it is in no file that is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame.agents.credentials import VENDORS, Access, find_access
from blueflame.model.errors import Refused
from blueflame.system.environment import remove_model_keys

KEY = "sk-ant-really-secret"


def anthropic(environ: dict[str, str], home: Path, **options: object) -> Access:
    return find_access("anthropic", "claude", options, environ, home)


def test_a_key_of_the_environment_is_shown_as_the_vendor_wants_it(tmp_path: Path) -> None:
    assert anthropic({"ANTHROPIC_API_KEY": KEY}, tmp_path).auth == "x-api-key"
    assert anthropic({"ANTHROPIC_AUTH_TOKEN": KEY}, tmp_path).auth == "bearer"
    assert anthropic({"CLAUDE_CODE_OAUTH_TOKEN": KEY}, tmp_path).auth == "oauth"
    assert find_access("openai", "codex", {}, {"OPENAI_API_KEY": KEY}, tmp_path).auth == "bearer"
    assert find_access("gemini", "gemini", {}, {"GEMINI_API_KEY": KEY}, tmp_path).auth == "x-goog-api-key"


def test_the_value_is_neither_in_the_orders_nor_in_what_is_printed_of_it(tmp_path: Path) -> None:
    access = anthropic({"ANTHROPIC_API_KEY": KEY}, tmp_path)
    assert access.value == KEY
    assert KEY not in repr(access) + json.dumps(access.build_launch_entry("anthropic"))
    assert access.build_launch_entry("anthropic") == {
        "upstream": "https://api.anthropic.com",
        "auth": "x-api-key",
        "secret": "anthropic",
    }


def test_the_address_comes_from_the_settings_then_the_environment_then_the_vendor(tmp_path: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:8080"}
    assert anthropic(environ, tmp_path).upstream == "http://127.0.0.1:8080"
    assert anthropic(environ, tmp_path, upstream="https://example.org/claude").upstream == "https://example.org/claude"


def test_a_login_is_named_by_its_file_and_read_by_the_gateway(tmp_path: Path) -> None:
    file = tmp_path / ".claude" / ".credentials.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"claudeAiOauth": {"accessToken": KEY}}))
    access = anthropic({}, tmp_path)
    assert (access.auth, access.file, access.value) == ("oauth", str(file), "")
    assert anthropic({"ANTHROPIC_API_KEY": KEY}, tmp_path, credential="login").file == str(file)
    with pytest.raises(Refused, match="has no credential"):
        anthropic({}, tmp_path, credential="environment")


def test_a_codex_login_serves_when_it_is_a_key(tmp_path: Path) -> None:
    file = tmp_path / ".codex" / "auth.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"OPENAI_API_KEY": KEY}))
    assert find_access("openai", "codex", {}, {}, tmp_path).value == KEY
    file.write_text(json.dumps({"tokens": {"access_token": "x"}}))
    with pytest.raises(Refused, match="ChatGPT login cannot"):
        find_access("openai", "codex", {}, {}, tmp_path)


def test_a_missing_credential_is_reported_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"set ANTHROPIC_API_KEY, or log in.*runtimes\.claude\.credential: none"):
        anthropic({"ANTHROPIC_API_KEY": "  "}, tmp_path)
    assert anthropic({}, tmp_path, credential="none").auth == "none"


@pytest.mark.parametrize(
    "odd", ["ftp://example.org", "example.org", "https://", "https://me:word@example.org", "http://a b"]
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, odd: str) -> None:
    with pytest.raises(Refused, match="cannot go to"):
        anthropic({"ANTHROPIC_API_KEY": KEY}, tmp_path, upstream=odd)


def test_a_key_with_a_line_end_in_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="line end"):
        anthropic({"ANTHROPIC_API_KEY": "sk-a\nX-Evil: 1"}, tmp_path)


def test_no_variable_that_holds_a_key_is_handed_to_a_program_of_ours() -> None:
    keys = {name for vendor in VENDORS.values() for name, _ in vendor.keys}
    assert remove_model_keys({**dict.fromkeys(keys, KEY), "PATH": "/bin"}) == {"PATH": "/bin"}
