"""The message of a gate: within Telegram's limits, whatever the evidence is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.chat.gate_message import (
    MAX_TEXT_UNITS,
    build_gate_message,
    describe_answer,
    format_button,
    format_settled,
    list_tappable,
    name_people,
)
from blueflame.model.gate import FORMS, Gate, GateKind
from blueflame.text.utf16 import count_units, cut_to_units


def build_gate(kind: GateKind, title: str = "Approve the plan of 3 tasks?") -> Gate:
    form = FORMS[kind]
    return Gate(id=kind.value, kind=kind, subject="s", title=title, options=form.options, default=form.safe)


def read_units(text: str, offset: int, length: int) -> str:
    return text.encode("utf-16-le")[2 * offset : 2 * (offset + length)].decode("utf-16-le")


@pytest.mark.parametrize(
    "evidence", ["x" * 5_000, "😀" * 5_000, "a😀" * 2_500, "\n".join(["line of a plan"] * 700), "é" * 4_096]
)
def test_evidence_that_is_too_long_is_cut_between_characters_and_marked(evidence: str) -> None:
    built = build_gate_message("shop · ses-1", build_gate(GateKind.PLAN), evidence, until="Without an answer: quit.")

    assert count_units(built.text) <= MAX_TEXT_UNITS
    assert built.is_cut
    assert "\n…" in built.text
    assert built.text.endswith("At a terminal: blueflame answer plan edit --file FILE")
    assert built.fixed is not None
    assert read_units(built.text, *built.fixed).startswith(evidence[:100])


def test_short_evidence_is_whole_and_in_a_fixed_width() -> None:
    built = build_gate_message("shop 😀", build_gate(GateKind.BUDGET), "a < b & c\n  d 😀")

    assert not built.is_cut
    assert built.fixed is not None
    assert read_units(built.text, *built.fixed) == "a < b & c\n  d 😀"


def test_no_evidence_has_no_fixed_part() -> None:
    assert build_gate_message("shop", build_gate(GateKind.BUDGET), "").fixed is None


def test_a_settled_gate_keeps_its_evidence_and_not_what_would_have_happened() -> None:
    built = build_gate_message("shop 😀", build_gate(GateKind.PLAN), "a 😀 b", until="Without an answer: quit.")

    settled = format_settled(built.text, built.fixed, "Answered: approve, by anna 😀")

    assert settled.text.startswith("Answered: approve, by anna 😀\n\nshop 😀\n")
    assert settled.text.endswith("a 😀 b")
    assert settled.fixed is not None
    assert read_units(settled.text, *settled.fixed) == "a 😀 b"


@given(st.text(max_size=6_000), st.text(max_size=400))
def test_every_message_fits(evidence: str, title: str) -> None:
    built = build_gate_message("shop", build_gate(GateKind.PLAN, title), evidence)

    assert count_units(built.text) <= MAX_TEXT_UNITS
    settled = format_settled(built.text, built.fixed, describe_answer("approve", "anna", evidence))
    assert count_units(settled.text) <= MAX_TEXT_UNITS
    assert settled.fixed is None or sum(settled.fixed) == count_units(settled.text)
    built.text.encode()  # no half of a character


@given(st.text(max_size=300), st.integers(2, 200))
def test_a_cut_text_is_as_long_as_allowed_and_a_beginning(text: str, limit: int) -> None:
    cut = cut_to_units(text, limit)

    assert count_units(cut) <= limit
    assert cut == text or text.startswith(cut.removesuffix("\n…"))


@pytest.mark.parametrize("kind", GateKind)
def test_buttons_offer_what_a_tap_can_answer(kind: GateKind) -> None:
    offered = list_tappable(build_gate(kind))

    assert offered
    assert not {"edit", "split"} & {option.name for option in offered}
    assert all(len(format_button(option)) <= 60 for option in offered)


def test_people_are_named_without_their_numbers_and_with_where_they_were() -> None:
    assert describe_answer("approve", "anna (telegram:1001)") == "Answered: approve, by anna"
    assert name_people("stopped by root (terminal:root)") == "stopped by root (terminal)"
    assert name_people("deadline (house:deadline): no answer in time") == "deadline: no answer in time"
    assert name_people("see f(x: 1) (telegram: 5)") == "see f(x: 1) (telegram: 5)"
