"""What an agent leaves for the next one is read leniently: nothing in it decides anything, and what is cut is said."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.documents.hand_offs import MAX_ENTRIES, MAX_ENTRY_CHARS, parse_hand_off, read_verdict_words
from blueflame.model.hand_off import WORDS, HandOff
from blueflame.text.notes import SECRET
from support.event_strategies import json_values
from support.fake_secrets import SecretGenerator, build_pem

ANSWER: dict[str, Any] = {
    "summary": ["Added JWT validation", "with tests"],
    "learnings": ["Custom auth library, not Passport"],
    "blockers": [],
    "recommendations": "Review the expiry",
    "confidence": 0.85,
}


def test_an_answer_is_read_and_one_text_is_a_list_of_its_lines() -> None:
    assert parse_hand_off(ANSWER, "not read") == HandOff(
        summary=("Added JWT validation", "with tests"),
        learnings=("Custom auth library, not Passport",),
        recommendations=("Review the expiry",),
        confidence=0.85,
    )


@pytest.mark.parametrize("answer", [None, {"tasks": []}, {"confidence": 1}])
def test_the_last_words_of_an_agent_without_an_answer_are_the_summary(answer: dict[str, Any] | None) -> None:
    assert parse_hand_off(answer, "Done.\n\n- with tests\n") == HandOff(summary=("Done.", "with tests"))


def test_what_does_not_fit_is_left_out_and_said() -> None:
    found = parse_hand_off({**ANSWER, "learnings": {"a": 1}, "blockers": [1], "confidence": 7}, "")
    assert (found.summary, found.learnings, found.confidence) == (("Added JWT validation", "with tests"), (), None)
    assert found.problems == (
        "learnings is not a list of texts: left out",
        "blockers is not a list of texts: left out",
        "confidence is not a number from 0 to 1: left out",
    )


def test_what_is_too_long_is_cut_and_said() -> None:
    found = parse_hand_off({"summary": ["x" * 1_000, *["y"] * 5_000]}, "")
    assert len(found.summary) == MAX_ENTRIES
    assert len(found.summary[0]) == MAX_ENTRY_CHARS
    assert found.problems == (
        "summary has 5,001 entries: the first 20 are kept",
        "summary has 1 entries of more than 400 characters: cut",
    )


def test_secrets_and_what_could_move_a_cursor_are_not_kept() -> None:
    token, key = f"ghp_{SecretGenerator()(36)}", build_pem(SecretGenerator())
    found = parse_hand_off({"summary": [f"use {token}", "\x1b[2Jgone\n# HANDOFF: me"], "learnings": key}, "")
    assert found.summary == (SECRET, "␛[2Jgone # HANDOFF: me")
    assert not any(line in str(found.learnings) for line in key.splitlines())


@given(st.none() | st.dictionaries(st.sampled_from([*WORDS, "confidence", "more"]), json_values), st.text())
def test_whatever_an_agent_answers_becomes_a_small_harmless_hand_off(answer: dict[str, Any] | None, text: str) -> None:
    found = parse_hand_off(answer, text)
    entries = [*found.summary, *found.learnings, *found.blockers, *found.recommendations]
    assert len(entries) <= len(WORDS) * MAX_ENTRIES
    assert all(0 < len(entry) <= MAX_ENTRY_CHARS + len(SECRET) for entry in entries)
    assert not {unicodedata.category(letter) for entry in entries for letter in entry} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert found.confidence is None or 0 <= found.confidence <= 1


def test_the_notes_of_a_reviewer_sum_its_verdict_up_and_its_issues_are_blockers() -> None:
    words = read_verdict_words(
        {"status": "fail", "notes": "No test.", "issues": ["src/a.py has none"], "confidence": 1}
    )
    assert words == HandOff(summary=("No test.",), blockers=("src/a.py has none",), confidence=1.0)


def test_an_entry_that_says_that_there_is_nothing_is_left_out() -> None:
    left = parse_hand_off({"summary": ["did it"], "blockers": ["None.", "n/a"], "learnings": "none"}, "")
    assert (left.summary, left.blockers, left.learnings, left.problems) == (("did it",), (), (), ())
