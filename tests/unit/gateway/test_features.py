"""What a provider must not do for an agent: reach other hosts, run code, or charge another price."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blueflame.gateway.model_api.body import BodyMemory
from blueflame.gateway.model_api.features import check_features
from blueflame.gateway.request import RequestRefused

PNG = "data:image/png;base64,iVBORw0KGgo="


def say(*parts: object) -> list[Any]:
    return [{"role": "user", "content": list(parts)}]


@pytest.mark.parametrize(
    "request_body",
    [
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
        {"tools": [{"type": "mcp", "server_url": "https://example.org"}]},
        {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]},
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": [{"type": "something_new_20270101"}], "speed": "standard"},
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"urlContext": {}}]},
        {"tools": [{"functionDeclarations": []}, {"codeExecution": {}}]},
        {"mcp_servers": [{"type": "url", "url": "https://example.org"}]},
        {"container": "container_1"},
        {"service_tier": "priority"},
        {"speed": "fast"},
        {"inference_geo": "us"},
        {"messages": say({"type": "image", "source": {"type": "url", "url": "https://example.org/?leak"}})},
        {"messages": say({"type": "document", "source": {"type": "file", "file_id": "file_1"}})},
        {"messages": say({"type": "tool_result", "content": [{"type": "image", "source": {"type": "url"}}]})},
        {"messages": say({"type": "image_url", "image_url": {"url": "https://example.org"}})},
        {"input": say({"type": "input_image", "image_url": "https://example.org"})},
        {"input": say({"type": "input_file", "file_url": "https://example.org"})},
        {"contents": [{"parts": [{"fileData": {"fileUri": "https://example.org"}}]}]},
    ],
    ids=lambda body: json.dumps(body)[:70],
)
def test_what_runs_at_the_provider_is_refused(request_body: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused, match="not forwarded"):
        check_features(json.dumps(request_body).encode(), web_search=False)


def test_a_key_that_is_written_with_escapes_is_refused_too() -> None:
    with pytest.raises(RequestRefused, match="mcp_servers"):
        check_features(rb'{"mcp\u005fservers": [{"type": "url"}]}', web_search=False)


@pytest.mark.parametrize(
    "request_body",
    [
        {"tools": [{"name": "Bash", "input_schema": {}}, {"type": "custom", "name": "x"}], "service_tier": "auto"},
        {"tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250728", "name": "e"}]},
        {"tools": [{"type": "function", "name": "shell"}, {"type": "local_shell"}, {"type": "custom", "name": "p"}]},
        {"tools": [{"functionDeclarations": [{"name": "web_fetch"}]}]},
        {"messages": say({"type": "image", "source": {"type": "base64", "data": "aGk="}})},
        {"messages": say({"type": "text", "text": '"mcp_servers": use "web_search_20250305" at https://x'})},
        {"messages": say({"type": "image_url", "image_url": {"url": PNG}})},
        {"input": say({"type": "input_image", "image_url": PNG})},
        {"messages": say({"type": "tool_use", "name": "Read", "input": {"file": "a", "source": "url"}})},
        {"speed": None, "container": None},
    ],
    ids=lambda body: json.dumps(body)[:70],
)
def test_what_stays_between_agent_and_model_is_forwarded(request_body: dict[str, Any]) -> None:
    check_features(json.dumps(request_body).encode(), web_search=False)


@pytest.mark.parametrize("tool", [{"type": "web_search_20250305"}, {"type": "web_search"}, {"google_search": {}}])
def test_an_agent_that_may_search_the_web_may_have_it_searched(tool: dict[str, Any]) -> None:
    check_features(json.dumps({"tools": [tool]}).encode(), web_search=True)


def test_deeply_nested_parts_are_read() -> None:
    deep = b"[" * 200 + b'{"source": {"type": "url"}}' + b"]" * 200
    with pytest.raises(RequestRefused):
        check_features(b'{"messages": ' + deep + b"}", web_search=False)


def test_open_requests_share_one_memory() -> None:
    memory = BodyMemory(100)
    with memory.hold() as take:
        take(60)
        with memory.hold() as take_more, pytest.raises(RequestRefused, match="too large"):
            take_more(50)
    with memory.hold() as take:
        take(100)
