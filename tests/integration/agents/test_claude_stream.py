"""Lines that the real claude printed, and the signals in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.agents.claude import build_runtime
from blueflame.agents.claude.stream import parse_line
from blueflame.agents.runtime import (
    AgentOutput,
    CallNotRun,
    CallResult,
    OutputProblem,
    RunResult,
    Signal,
    StructuredOutput,
    TextOutput,
    read_spool,
)
from blueflame.model.audit import ObservedCall
from blueflame.model.spend import Spend

STREAMS = Path(__file__).parent / "claude_streams"


def spool(path: Path) -> AgentOutput:
    return read_spool(build_runtime({}, Path()), path)


def gathered(name: str) -> AgentOutput:
    return spool(STREAMS / f"{name}.jsonl")


def result(**fields: object) -> RunResult:
    said = {"type": "result", "is_error": False, "terminal_reason": "completed", **fields}
    (finished,) = (signal for signal in parse_line(json.dumps(said)) if isinstance(signal, RunResult))
    return finished


def test_texts_and_calls_are_signalled_in_order_and_once() -> None:
    found = gathered("calls")

    assert found.text == "Done."
    assert [(act.tool, act.target, act.denied) for act in found.calls] == [
        ("Read", "a.txt", False),
        ("Write", "b.txt", False),
        ("Write", "DENYME", True),
        ("Bash", 'echo "<tool_use_error>Error: No such tool available: Bash</tool_use_error>"; false', False),
    ]
    assert len({act.call for act in found.calls}) == 4
    assert all(act.call and not act.digest and not act.open for act in found.calls)
    assert found.problems == ()
    assert not found.metered  # the gateway meters


def test_calls_that_were_turned_away_without_asking_do_not_count() -> None:
    lines = [json.loads(line) for line in (STREAMS / "calls.jsonl").read_text().splitlines()]
    blocks = [block for line in lines if line["type"] == "assistant" for block in line["message"]["content"]]
    names = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
    signals = [signal for line in lines for signal in parse_line(json.dumps(line, separators=(",", ":")))]

    gone = [names[signal.call] for signal in signals if isinstance(signal, CallNotRun)]

    assert sorted(gone) == ["Edit", "Read", "WebFetch"]  # nothing to replace, no such input, no such tool


def test_what_a_tool_prints_does_not_make_its_call_disappear() -> None:
    """An allowed call has the decision in its entry; without it, a call whose output looks rejected is a call."""
    words = "<tool_use_error>Error: No such tool available: Bash</tool_use_error>"
    block = {"type": "tool_result", "tool_use_id": "t", "content": words, "is_error": True}
    bare = {"type": "user", "message": {"content": [block]}, "tool_use_result": "Error: No such tool available"}
    meta = [{"id": "t", "permission_decision": {"decision": "accept"}}]

    assert parse_line(json.dumps(bare)) == (CallNotRun("t"),)
    assert parse_line(json.dumps({**bare, "tool_result_meta": meta})) == (CallResult("t"),)
    assert parse_line(json.dumps({**bare, "tool_result_meta": []})) == (CallResult("t"),)
    assert parse_line(json.dumps({**bare, "tool_use_result": {"stdout": words}})) == (CallResult("t"),)
    ran = {**bare, "message": {"content": [{**block, "is_error": False}]}}
    assert parse_line(json.dumps(ran)) == (CallResult("t"),)
    printed = {**bare, "message": {"content": [{**block, "content": f"Exit code 1\n{words}"}]}}
    assert parse_line(json.dumps(printed)) == (CallResult("t"),)


def test_a_hook_that_died_did_not_refuse() -> None:
    def parse(content: str, decision: str = "reject") -> tuple[Signal, ...]:
        block = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": True}
        meta = [{"id": "t", "permission_decision": {"decision": decision, "source": "hook"}}]
        return parse_line(json.dumps({"type": "user", "message": {"content": [block]}, "tool_result_meta": meta}))

    died = 'PreToolUse:Bash hook error: [/opt/hook.sh]: failed; blocking because onFailure is "block"\nNo stderr output'
    refused = f"PreToolUse:Bash hook error: [/opt/hook.sh]: refused by policy: echo '{died}'"

    assert parse(died) == (CallResult("t", denied=True, hook_failed=True),)
    assert parse(refused) == (CallResult("t", denied=True),)
    assert parse(died, "accept") == (CallResult("t"),), "a tool may print anything"


def test_a_structured_output_is_taken_from_its_own_key() -> None:
    found = gathered("structured_output")

    assert found.output == {"answer": "42"}
    assert [act.tool for act in found.calls] == ["StructuredOutput"]
    assert found.result == RunResult(
        reported=Spend(micro_usd=851, input_tokens=100, output_tokens=20, cache_read_tokens=5, cache_write_tokens=10)
    )


def test_prose_is_not_structured_output() -> None:
    found = gathered("no_structured_output")

    assert (found.output, found.text) == (None, "no")
    assert found.result is not None
    assert found.result.failure == ""


@pytest.mark.parametrize(
    ("stream", "failure", "words"),
    [
        ("bad_structured_output", "output", "must be string"),
        ("budget", "budget", "Reached maximum budget ($0.001)"),
        ("overloaded", "outage", "529"),
        ("no_connection", "outage", "ECONNREFUSED"),
        ("unauthorised", "account", "401"),
    ],
)
def test_a_failed_run_has_its_kind_of_failure(stream: str, failure: str, words: str) -> None:
    finished = gathered(stream).result

    assert finished is not None
    assert finished.failure == failure
    assert words in finished.detail


def test_a_call_that_was_cut_off_by_the_budget_does_not_count() -> None:
    found = gathered("budget")

    assert len(found.calls) == found.call_count == 1
    assert found.result is not None
    assert found.result.reported == Spend(
        micro_usd=1702, input_tokens=200, output_tokens=40, cache_read_tokens=10, cache_write_tokens=20
    )


def test_a_call_without_a_result_counts_in_a_run_that_ended_well(tmp_path: Path) -> None:
    lines = (STREAMS / "budget.jsonl").read_text().splitlines()[:-1]
    ended = json.dumps({"type": "result", "is_error": False, "terminal_reason": "completed", "result": "done"})
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.write_text("\n".join([*lines, ended, ""]))
    broken.write_text("\n".join([*lines, ""]))

    assert len(spool(whole).calls) == 2
    assert len(spool(broken).calls) == 1


def test_the_subtype_decides_nothing() -> None:
    assert result(subtype="error_during_execution").failure == ""
    assert result(subtype="success", is_error=True).failure == "error"
    assert result(subtype="success", is_error=True, result="all is well").failure == "error"


def test_only_a_run_that_was_completed_went_well() -> None:
    assert result(terminal_reason=None).failure == ""
    assert result(is_error=None).failure == "error"
    assert result(is_error="false").failure == "error"
    for reason in ("hook_stopped", "tool_deferred", "max_turns", "something_new", "", 5, ["completed"]):
        assert result(terminal_reason=reason).failure == "error", reason


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_an_overloaded_or_failing_model_is_an_outage(status: int) -> None:
    assert result(is_error=True, terminal_reason="api_error", api_error_status=status).failure == "outage"


@pytest.mark.parametrize("status", [400, 403, 404, 413, None, True, "529"])
def test_a_refused_question_is_an_error(status: object) -> None:
    assert result(is_error=True, terminal_reason="api_error", api_error_status=status).failure == "error"


def test_an_answer_that_is_no_json_is_an_outage() -> None:
    words = {
        "API Error: JSON Parse error: Unable to parse JSON string": "outage",
        "API Error: Unexpected end of input": "outage",
        "API Error: The model has reached its context window limit.": "error",
        "I could not finish: JSON is hard": "error",
    }
    for text, failure in words.items():
        assert result(is_error=True, terminal_reason="api_error", result=text).failure == failure, text


@pytest.mark.parametrize("failed", [True, False])
def test_two_results_are_a_failure_whichever_comes_first(tmp_path: Path, failed: bool) -> None:
    """A run has one end; a second one may be printed by code that the agent ran."""
    good = {"type": "result", "is_error": False, "terminal_reason": "completed", "structured_output": {"n": 1}}
    bad = {**good, "is_error": True, "terminal_reason": "api_error", "structured_output": {"n": 2}}
    output = tmp_path / "stdout.log"
    output.write_text("".join(f"{json.dumps(entry)}\n" for entry in ((bad, good) if failed else (good, good))))

    found = spool(output)

    assert found.result is not None
    assert found.result.failure == "error"


def test_a_structured_output_that_is_not_an_object_is_a_problem() -> None:
    assert OutputProblem("its structured output is not an object") in parse_line(
        '{"type":"result","structured_output":[1]}'
    )


def test_new_kinds_of_lines_are_ignored_and_broken_ones_are_problems() -> None:
    assert parse_line('{"type":"rate_limit_event","x":1}') == ()
    assert parse_line('{"type":"stream_event","event":{}}') == ()
    assert parse_line("{}") == ()
    assert isinstance(parse_line('{"type":')[0], OutputProblem)
    assert isinstance(parse_line("Error: no")[0], OutputProblem)
    assert isinstance(parse_line("[1]")[0], OutputProblem)


def test_unknown_blocks_are_ignored() -> None:
    said = {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "hm"}, 5, {"type": "text"}]}}

    assert parse_line(json.dumps(said)) == ()
    assert parse_line('{"type":"assistant","message":{"content":"x"}}') == ()
    assert parse_line('{"type":"assistant"}') == ()


def test_a_call_that_the_provider_made_by_itself_is_a_call() -> None:
    block = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}

    (act,) = parse_line(json.dumps({"type": "assistant", "message": {"content": [block]}}))

    assert act == ObservedCall("web_search", "x", "srv_1")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("is_error", "terminal_reason", "api_error_status", "errors", "result", "structured_output", "modelUsage")
KINDS = {"type": st.sampled_from(["text", "tool_use", "tool_result"])}
BLOCK = JSON | st.fixed_dictionaries(KINDS, optional=dict.fromkeys(("id", "input", "text", "content"), JSON))
BLOCKS = st.lists(BLOCK, max_size=3)
SAID = st.fixed_dictionaries(
    {"type": st.sampled_from(["assistant", "user", "result", "system"])},
    optional={
        **dict.fromkeys((*NAMES, "total_cost_usd", "tool_result_meta", "tool_use_result"), JSON),
        "message": JSON | st.fixed_dictionaries({"content": BLOCKS}),
    },
)


@given(SAID)
def test_no_line_can_make_the_reader_fail(said: dict[str, Any]) -> None:
    for signal in parse_line(json.dumps(said)):
        assert isinstance(
            signal, TextOutput | ObservedCall | CallResult | CallNotRun | StructuredOutput | RunResult | OutputProblem
        )


@given(st.text())
def test_no_text_can_either(text: str) -> None:
    parse_line(text)
