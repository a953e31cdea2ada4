"""Structured output: what happens when the model gives none, or one that does not fit the schema."""

from __future__ import annotations

import json

from support.claude_cli import SEALED, STREAM, ClaudeRunner, Json

SCHEMA = {"type": "object", "properties": {"status": {"enum": ["pass", "fail"]}}, "required": ["status"]}
FLAGS = [*STREAM, *SEALED, "--permission-mode", "dontAsk", "--tools", "Read", "--json-schema"]
WRONG: Json = {"tool": {"name": "StructuredOutput", "input": {"status": "perhaps"}}}


def test_an_answer_that_never_comes_is_no_error_but_there_is_no_key(claude: ClaudeRunner) -> None:
    """Claude asks for it once more and then reports `success`: only the missing key shows the failure."""
    ran = claude.run({"text": "I would rather talk."}, flags=[*FLAGS, json.dumps(SCHEMA)])
    assert (ran.code, ran.result["subtype"], ran.result["is_error"]) == (0, "success", False)
    assert "structured_output" not in ran.result
    assert len(ran.asked) == 2


def test_an_answer_that_does_not_fit_is_sent_back_five_times_and_then_it_is_an_error(claude: ClaudeRunner) -> None:
    ran = claude.run(WRONG, flags=[*FLAGS, json.dumps(SCHEMA)])
    result = ran.result
    assert (ran.code, result["subtype"], result["is_error"], result["terminal_reason"]) == (
        1,
        "error_max_structured_output_retries",
        True,
        "structured_output_retry_exhausted",
    )
    assert len(ran.asked) == 5
    assert "structured_output" not in result


def test_an_answer_that_fits_ends_the_run_even_after_one_that_did_not(claude: ClaudeRunner) -> None:
    ran = claude.run(WRONG, {"structured": {"status": "pass"}}, {"text": "never"}, flags=[*FLAGS, json.dumps(SCHEMA)])
    assert (ran.code, ran.result["structured_output"], len(ran.asked)) == (0, {"status": "pass"}, 2)


def test_a_schema_that_is_none_stops_it_before_it_starts(claude: ClaudeRunner) -> None:
    ran = claude.run({"text": "hi"}, flags=[*FLAGS, '{"type": "nonsense"}'])
    assert (ran.code, ran.out, ran.asked) == (1, "", ())
    assert "not a valid JSON Schema" in ran.err
