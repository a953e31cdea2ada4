"""What an agent may ask of its model's provider. What it may not is tried in tests/escape/gateway_calls.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blueflame.gateway.model_api.asked import DEFAULT_OUTPUT_TOKENS, MAX_PARTS, parse_request, read_call
from blueflame.gateway.model_api.body import BodyMemory
from blueflame.gateway.model_api.features import check_features
from blueflame.system.http import RequestHead, RequestRefused

HEAD = RequestHead(method="POST", target="/", version="1.1", headers=())
PNG = "data:image/png;base64,iVBORw0KGgo="


def say(*parts: object) -> list[Any]:
    return [{"role": "user", "content": list(parts)}]


def check(body: bytes, api: str, *, web_search: bool = False, allowed: tuple[str, ...] = ()) -> None:
    check_features(parse_request(HEAD, body), api, web_search=web_search, allowed=allowed)


@pytest.mark.parametrize(
    ("api", "request_body"),
    [
        (
            "anthropic",
            {"tools": [{"name": "Bash", "input_schema": {}}, {"type": "custom", "name": "x"}], "service_tier": "auto"},
        ),
        ("anthropic", {"tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250728"}]}),
        ("openai", {"tools": [{"type": "function", "name": "shell"}, {"type": "local_shell"}, {"type": "custom"}]}),
        ("openai", {"tools": [{"type": "shell", "environment": {"type": "local"}}], "store": False}),
        ("openai", {"tools": [{"type": "namespace", "tools": [{"type": "function", "name": "x"}]}]}),
        ("gemini", {"tools": [{"functionDeclarations": [{"name": "web_fetch"}]}]}),
        ("gemini", {"generationConfig": {"responseModalities": ["TEXT"], "maxOutputTokens": 9}}),
        (
            "gemini",
            {"contents": say({"functionResponse": {"name": "read", "response": {"fileData": {"fileUri": "x"}}}})},
        ),
        ("anthropic", {"messages": say({"type": "image", "source": {"type": "base64", "data": "aGk="}})}),
        ("anthropic", {"messages": say({"type": "text", "text": '"mcp_servers": "web_search_20250305" https://x'})}),
        ("anthropic", {"messages": say({"type": "search_result", "source": "https://x", "content": []})}),
        ("openai", {"messages": say({"type": "image_url", "image_url": {"url": PNG}})}),
        ("openai", {"input": say({"type": "input_image", "image_url": PNG})}),
        ("openai", {"input": say({"type": "input_file", "file_data": "aGk="})}),
        (
            "anthropic",
            {
                "messages": say(
                    {"type": "tool_use", "input": {"source": {"type": "url"}, "file_id": "a", "image_url": "http://x"}}
                )
            },
        ),
        ("anthropic", {"speed": None, "container": None, "mcp_servers": []}),
        ("anthropic", {"metadata": {"user_id": "x"}, "context_management": {"edits": [{"type": "x_20251015"}]}}),
    ],
    ids=lambda body: json.dumps(body)[:70],
)
def test_what_stays_between_agent_and_model_is_forwarded(api: str, request_body: dict[str, Any]) -> None:
    check(json.dumps(request_body).encode(), api)


@pytest.mark.parametrize(
    ("api", "tool"),
    [
        ("anthropic", {"type": "web_search_20250305"}),
        ("openai", {"type": "web_search"}),
        ("gemini", {"google_search": {}}),
    ],
)
def test_an_agent_that_may_search_the_web_may_have_it_searched(api: str, tool: dict[str, Any]) -> None:
    body = json.dumps({"tools": [tool]}).encode()
    check(body, api, web_search=True)
    with pytest.raises(RequestRefused, match="not forwarded"):
        check(body, api)


def test_a_person_can_allow_a_feature_by_its_name() -> None:
    body = json.dumps({"tools": [{"type": "web_fetch_20250910"}], "mcp_servers": [{"type": "url"}]}).encode()
    check(body, "anthropic", allowed=("web_fetch_*", "mcp_servers"))
    with pytest.raises(RequestRefused, match=r"sandbox.model_features: \[mcp_servers\]"):
        check(body, "anthropic", allowed=("web_fetch_*",))


def test_deeply_nested_parts_are_read() -> None:
    deep = b"[" * 200 + b'{"source": {"type": "url"}}' + b"]" * 200
    with pytest.raises(RequestRefused):
        check(b'{"messages": ' + deep + b"}", "anthropic")


def test_a_request_that_would_take_much_memory_is_refused() -> None:
    with pytest.raises(RequestRefused, match="parts"):
        check(b'{"messages": [' + b"{}," * MAX_PARTS + b"{}]}", "anthropic")


@pytest.mark.parametrize(
    ("content", "most"),
    [
        ({}, DEFAULT_OUTPUT_TOKENS),
        ({"max_tokens": 100}, 100),
        ({"max_tokens": 1, "max_completion_tokens": 100_000}, 100_000),
        ({"max_tokens": "64000"}, 64_000),
        ({"max_tokens": 64e3}, 64_000),
        ({"max_tokens": -5}, DEFAULT_OUTPUT_TOKENS),
        ({"max_tokens": True}, DEFAULT_OUTPUT_TOKENS),
        ({"max_tokens": 10**12}, 1_000_000),
        ({"generation_config": {"max_output_tokens": 9}, "generationConfig": {"maxOutputTokens": 60_000}}, 60_000),
        ({"max_tokens": 100, "n": 8}, 800),
        ({"generationConfig": {"maxOutputTokens": 100, "candidateCount": 4}}, 400),
    ],
    ids=str,
)
def test_the_highest_limit_counts(content: dict[str, Any], most: int) -> None:
    assert read_call(content, "").max_output == most


def test_open_requests_share_one_memory() -> None:
    memory = BodyMemory(100)
    with memory.hold() as take:
        take(60)
        with memory.hold() as take_more, pytest.raises(RequestRefused, match="too large"):
            take_more(50)
    with memory.hold() as take:
        take(100)
