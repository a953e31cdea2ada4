"""The loopback model, asked over real sockets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, IncompleteRead
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from blueflame.model.errors import ScriptError
from blueflame.testing import LoopbackModel, ServedAnswer

USAGE = {"input": 100, "output": 20, "cache_read": 30, "cache_write": 7, "cache_write_1h": 2, "thinking": 5}
SCRIPT = {
    "scenarios": [
        {
            "when": {"user": r"do (?P<task>task-\d+)"},
            "turns": [
                {
                    "text": "I will write the file, and then I will look at it.",
                    "thinking": "What would a file be like?",
                    "tool": {"write": "{{cwd}}/{{task}}.txt", "content": "a long enough content\n"},
                    "usage": USAGE,
                },
                {"tools": [{"shell": "ls"}, {"read": "a.txt"}]},
                {"text": "done"},
            ],
        },
        {"when": {"user": "^answer"}, "turns": [{"structured": {"status": "pass"}}]},
        {"when": {"user": "wait"}, "turns": [{"text": "well", "pings": 2, "pace": 0.01}]},
        {"when": {"user": "cut"}, "turns": [{"text": "x" * 200, "cut": 4, "usage": USAGE}]},
        {"when": {"user": "break"}, "turns": [{"text": "x" * 200, "broken": 4, "error": "too busy"}]},
        {
            "when": {"user": "fail"},
            "turns": [
                {
                    "status": 429,
                    "headers": {"retry-after": "2", "reset": "{{epoch+60}}"},
                    "error": "slow down",
                    "times": 2,
                    "then": {"text": "well"},
                }
            ],
        },
        {"when": {"user": "blank"}, "turns": [{"text": "{{nothing}}"}]},
        {"when": {"model": "small-*", "system": "be brief", "tool": "Grep"}, "turns": [{"text": "brief"}]},
    ]
}


class Got(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:  # noqa: ANN401 (it is)
        return json.loads(self.text)

    @property
    def events(self) -> list[Any]:
        data = (line[6:] for line in self.text.splitlines() if line.startswith("data: "))
        return [json.loads(each) for each in data if each != "[DONE]"]


def ask(model: LoopbackModel, path: str, body: object = None, *, method: str = "POST", **headers: str) -> Got:
    connection = HTTPConnection(model.url.removeprefix("http://"), timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), named)
        answer = connection.getresponse()
        return Got(answer.status, dict(answer.headers), answer.read().decode())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[LoopbackModel]:
    with LoopbackModel(SCRIPT) as model:
        yield model


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    with LoopbackModel(SCRIPT) as model:
        yield model


def served(api: str, *, cache_write: int, whole: int) -> ServedAnswer:
    return ServedAnswer(
        api=api,
        model="m1",
        key="k",
        input=whole,
        output=20,
        cache_read=30,
        cache_write=cache_write,
        cache_write_1h=2 if cache_write else 0,
        complete=True,
    )


CLAUDE_TOOLS: list[dict[str, Any]] = [{"name": name, "input_schema": {}} for name in ("Write", "Bash", "Read")]
CWD = {"type": "text", "text": "# Environment\n - Primary working directory: /here\n"}


def anthropic(user: str, *more: object, **fields: object) -> dict[str, Any]:
    messages = [{"role": "user", "content": user}, {"role": "system", "content": [CWD]}, *more]
    return {"model": "m1", "max_tokens": 9, "messages": messages, "tools": CLAUDE_TOOLS, **fields}


def test_anthropic_answers_whole(model: LoopbackModel) -> None:
    got = ask(model, "/v1/messages?beta=true", anthropic("do task-001"), x_api_key="k").json
    assert [block["type"] for block in got["content"]] == ["thinking", "text", "tool_use"]
    assert got["content"][2]["input"] == {"file_path": "/here/task-001.txt", "content": "a long enough content\n"}
    assert got["stop_reason"] == "tool_use"
    assert got["usage"]["cache_creation"] == {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 2}
    assert model.served == (served("anthropic", cache_write=7, whole=100),)


def test_anthropic_streams_the_same_answer_in_small_pieces(model: LoopbackModel) -> None:
    events = ask(model, "/v1/messages", anthropic("do task-001", stream=True), x_api_key="k").events
    assert [events[0]["type"], events[-2]["type"], events[-1]["type"]] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(d["text"] for d in deltas if d["type"] == "text_delta").startswith("I will write")
    parts = [d["partial_json"] for d in deltas if d["type"] == "input_json_delta"]
    assert len(parts) > 1
    assert json.loads("".join(parts))["file_path"] == "/here/task-001.txt"
    assert events[0]["message"]["usage"]["output_tokens"] == 1
    assert events[-2]["usage"]["output_tokens"] == 20
    assert model.served == (served("anthropic", cache_write=7, whole=100),)


def test_the_turn_is_the_number_of_the_models_turns_so_far(shared: LoopbackModel) -> None:
    call = {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
    aside = {"role": "system", "content": "by the way"}
    result = {"role": "user", "content": [{"type": "tool_result", "content": "fine"}]}
    second = ask(shared, "/v1/messages", anthropic("do task-1", call, aside, call, result)).json
    third = ask(shared, "/v1/messages", anthropic("do task-1", *[call, result] * 2)).json
    ninth = ask(shared, "/v1/messages", anthropic("do task-1", *[call, result] * 8)).json
    assert [block["name"] for block in second["content"]] == ["Bash", "Read"]
    assert third["content"] == ninth["content"] == [{"type": "text", "text": "done"}]


def test_a_structured_answer_is_a_call_where_there_is_a_tool_for_it(shared: LoopbackModel) -> None:
    offered = anthropic("answer", tools=[{"name": "StructuredOutput"}])
    call = ask(shared, "/v1/messages", offered).json["content"][0]
    text = ask(shared, "/v1/messages", anthropic("answer")).json["content"][0]
    assert (call["name"], call["input"]) == ("StructuredOutput", {"status": "pass"})
    assert json.loads(text["text"]) == {"status": "pass"}


CODEX_TOOLS = [
    {"type": "function", "name": "exec_command", "parameters": {}},
    {"type": "custom", "name": "apply_patch", "format": {}},
    {"type": "web_search"},
]


def responses(user: str, *more: object, **fields: object) -> dict[str, Any]:
    said = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be good"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<cwd>/here</cwd>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": user}]},
    ]
    return {"model": "m1", "instructions": "x", "input": [*said, *more], "tools": CODEX_TOOLS, **fields}


def test_openai_responses_streams(model: LoopbackModel) -> None:
    events = ask(model, "/v1/responses", responses("do task-001", stream=True), Authorization="Bearer k").events
    done = events[-1]["response"]
    assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
    assert [item["type"] for item in done["output"]] == ["reasoning", "message", "custom_tool_call"]
    assert done["output"][2]["input"].splitlines()[1:3] == [
        "*** Add File: /here/task-001.txt",
        "+a long enough content",
    ]
    assert "".join(e["delta"] for e in events if e["type"] == "response.custom_tool_call_input.delta").startswith("***")
    assert done["usage"]["input_tokens"] == 137
    assert done["usage"]["input_tokens_details"] == {"cached_tokens": 30}
    assert model.served == (served("openai", cache_write=0, whole=107),)


def test_openai_responses_answers_whole_and_counts_turns(model: LoopbackModel) -> None:
    call = [{"type": "function_call", "name": "exec_command"}, {"type": "function_call_output", "output": "x"}]
    body = responses("do task-001", *call, *call, input_schema={})
    got = ask(model, "/v1/responses", body).json
    assert got["output"][0]["content"][0]["text"] == "done"
    second = ask(
        model, "/responses", responses("do task-001", *call) | {"tools": [*CODEX_TOOLS, {"name": "read"}]}
    ).json
    assert json.loads(second["output"][0]["arguments"]) == {"cmd": "ls"}


def chat(user: str, **fields: object) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in ("bash", "write", "read")]
    system = {"role": "system", "content": "<env>\n  Working directory: /here\n</env>"}
    return {"model": "m1", "messages": [system, {"role": "user", "content": user}], "tools": tools, **fields}


def test_openai_chat_streams_with_usage_when_it_is_wanted(model: LoopbackModel) -> None:
    wanted = chat("do task-001", stream=True, stream_options={"include_usage": True})
    events = ask(model, "/v1/chat/completions", wanted, Authorization="Bearer k").events
    calls = [c for e in events for choice in e["choices"] for c in choice["delta"].get("tool_calls", ())]
    arguments = json.loads("".join(call["function"]["arguments"] for call in calls))
    assert (calls[0]["function"]["name"], arguments["filePath"]) == ("write", "/here/task-001.txt")
    assert events[-1]["usage"]["prompt_tokens"] == 137
    assert model.served == (served("openai-chat", cache_write=0, whole=107),)


def test_openai_chat_counts_usage_that_it_does_not_report(model: LoopbackModel) -> None:
    events = ask(model, "/v1/chat/completions", chat("do task-001", stream=True), Authorization="Bearer k").events
    assert "usage" not in events[-1]
    assert model.served == (served("openai-chat", cache_write=0, whole=107),)


def test_openai_chat_answers_whole(model: LoopbackModel) -> None:
    got = ask(model, "/v1/chat/completions", chat("do task-001")).json
    assert got["choices"][0]["finish_reason"] == "tool_calls"
    assert got["usage"]["completion_tokens"] == 20


def gemini(user: str, **fields: object) -> dict[str, Any]:
    names = ("run_shell_command", "write_file", "read_file")
    opening = [{"text": "I'm currently working in the directory: /here\n"}, {"text": user}]
    return {
        "contents": [{"role": "user", "parts": opening}],
        "systemInstruction": {"parts": [{"text": "be good"}]},
        "tools": [{"functionDeclarations": [{"name": name} for name in names]}],
        **fields,
    }


def test_gemini_streams(model: LoopbackModel) -> None:
    path = "/v1beta/models/m1:streamGenerateContent?alt=sse"
    events = ask(model, path, gemini("do task-001"), x_goog_api_key="k").events
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    call = next(part["functionCall"] for part in parts if "functionCall" in part)
    assert call == {
        "name": "write_file",
        "args": {"file_path": "/here/task-001.txt", "content": "a long enough content\n"},
    }
    assert events[-1]["candidates"][0]["finishReason"] == "STOP"
    usage = events[-1]["usageMetadata"]
    assert (usage["promptTokenCount"], usage["candidatesTokenCount"], usage["thoughtsTokenCount"]) == (137, 15, 5)
    assert model.served == (served("gemini", cache_write=0, whole=107),)


def test_gemini_answers_whole_and_takes_the_key_of_the_query(model: LoopbackModel) -> None:
    got = ask(model, "/v1beta/models/m1:generateContent?key=k", gemini("do task-001")).json
    assert got["usageMetadata"]["cachedContentTokenCount"] == 30
    assert model.served == (served("gemini", cache_write=0, whole=107),)


def test_tokens_can_be_counted_without_being_served(model: LoopbackModel) -> None:
    assert ask(model, "/v1/messages/count_tokens", anthropic("x")).json["input_tokens"] > 10
    assert ask(model, "/v1beta/models/m1:countTokens", gemini("x")).json["totalTokens"] > 10
    assert model.served == ()


@pytest.mark.parametrize(
    ("path", "headers", "key"),
    [
        ("/v1/models", {"anthropic_version": "2023-06-01"}, "data"),
        ("/v1/models", {}, "object"),
        ("/v1beta/models", {}, "models"),
    ],
)
def test_models_are_listed(shared: LoopbackModel, path: str, headers: dict[str, str], key: str) -> None:
    got = ask(shared, path, method="GET", **headers)
    assert (got.status, key in got.json) == (200, True)


def test_the_root_path_answers(shared: LoopbackModel) -> None:
    said = [ask(shared, path, method=method).status for path in ("/", "/api/hello") for method in ("HEAD", "GET")]
    assert said == [200] * 4
    assert ask(shared, "/v1/else", {}).status == 404


def test_a_question_without_a_scenario_is_refused(shared: LoopbackModel) -> None:
    got = ask(shared, "/v1/messages", anthropic("something else"))
    assert got.status == 400
    assert "no scenario of the script fits this question" in got.json["error"]["message"]


def test_a_blank_without_a_value_is_refused(shared: LoopbackModel) -> None:
    got = ask(shared, "/v1/messages", anthropic("blank"))
    assert "{{nothing}} has no value" in got.json["error"]["message"]


def test_a_scenario_is_picked_by_model_system_and_tool(shared: LoopbackModel) -> None:
    body = anthropic("hm", model="small-1", system="now be brief", tools=[{"name": "Grep"}])
    assert ask(shared, "/v1/messages", body).json["content"][0]["text"] == "brief"
    changes: list[dict[str, Any]] = [{"model": "large"}, {"system": ""}, {"tools": []}]
    for change in changes:
        assert ask(shared, "/v1/messages", body | change).status == 400


def test_a_turn_fails_so_many_times_and_then_succeeds(model: LoopbackModel) -> None:
    got = [ask(model, "/v1/messages", anthropic("fail")) for _ in range(4)]
    assert [each.status for each in got] == [429, 429, 200, 200]
    assert got[0].json["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert got[0].headers["retry-after"] == "2"
    assert got[0].headers["reset"].isdigit()
    assert len(model.served) == 2


def test_pings_come_before_the_answer(shared: LoopbackModel) -> None:
    events = ask(shared, "/v1/messages", anthropic("wait", stream=True)).events
    assert [event["type"] for event in events[:3]] == ["ping", "ping", "message_start"]
    said = ask(shared, "/v1/chat/completions", chat("wait", stream=True)).text
    assert said.startswith(": wait\n\n: wait\n\ndata: {")


def test_a_cut_off_answer_counts_what_had_been_reported(model: LoopbackModel) -> None:
    with pytest.raises((IncompleteRead, HTTPException)):
        ask(model, "/v1/messages", anthropic("cut", stream=True))
    (cut,) = model.served
    assert (cut.input, cut.output, cut.complete) == (100, 1, False)


def test_an_answer_can_break_in_mid_stream(model: LoopbackModel) -> None:
    events = ask(model, "/v1/messages", anthropic("break", stream=True)).events
    assert events[-1]["error"] == {"type": "overloaded_error", "message": "too busy"}
    assert [each.complete for each in model.served] == [False]


def test_another_credential_is_refused() -> None:
    with LoopbackModel({"key": "sk-test", "scenarios": [{"turns": [{"text": "hi"}]}]}) as model:
        assert ask(model, "/v1/messages", anthropic("x"), x_api_key="sk-other").status == 401
        assert ask(model, "/v1/messages", anthropic("x"), Authorization="Bearer sk-test").status == 200
        assert [request.headers.get("x-api-key") for request in model.requests] == ["sk-other", None]
        assert model.totals.complete


def test_an_invalid_script_reports_all_problems_with_their_lines(tmp_path: Path) -> None:
    script = tmp_path / "model.yaml"
    script.write_text('scenarios:\n  - when: {user: "("}\n    turns:\n      - {txt: hi}\n      - {tool: {}}\n')
    with pytest.raises(ScriptError) as caught:
        LoopbackModel(script)
    assert [problem.partition("model.yaml:")[2].partition(": ")[0] for problem in caught.value.problems] == [
        "2",
        "4",
        "5",
    ]
    with pytest.raises(ScriptError, match=r"missing\.yaml"):
        LoopbackModel(tmp_path / "missing.yaml")


def test_the_model_runs_as_a_process_that_writes_a_ledger(tmp_path: Path) -> None:
    script, ledger = tmp_path / "model.yaml", tmp_path / "served.jsonl"
    script.write_text("scenarios:\n  - turns:\n      - {text: hi, usage: {input: 5, output: 2}}\n")
    argv = [sys.executable, "-m", "blueflame.testing", "model", "--script", str(script), "--ledger", str(ledger)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        connection = HTTPConnection(url.removeprefix("http://"), timeout=30)
        connection.request("POST", "/v1/messages", json.dumps(anthropic("x")))
        assert connection.getresponse().read()
        connection.close()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
    (line,) = ledger.read_text().splitlines()
    assert json.loads(line) | {"input": 5, "output": 2, "complete": True} == json.loads(line)
