"""A gate as a message: what is asked, its evidence in a fixed width, a button for each answer."""

from __future__ import annotations

import re
from typing import NamedTuple

from blueflame.model.gate import Gate, Option
from blueflame.session.gates.edits import EDIT_CHOICES
from blueflame.text.sanitize import clean_text, shorten_line
from blueflame.text.utf16 import count_units, cut_to_units

MAX_TEXT_UNITS = 4096
MAX_LABEL_CHARS = 60
MAX_TITLE_CHARS = 300
ADDRESS = re.compile(r" \((telegram|terminal|github|gitlab|house):[^()\s]{1,64}\)")
EVIDENCE_WIDTH = 44  # columns that a phone shows without breaking lines


class GateMessage(NamedTuple):
    text: str
    fixed: tuple[int, int] | None  # the evidence: offset and length in UTF-16 units
    is_cut: bool


def list_tappable(gate: Gate) -> tuple[Option, ...]:
    """The answers that a button can give: tasks are edited in a file."""
    return tuple(option for option in gate.options if option.name not in EDIT_CHOICES)


def format_button(option: Option) -> str:
    return shorten_line(f"{option.name}: {option.label}", MAX_LABEL_CHARS)


def build_gate_message(where: str, gate: Gate, evidence: str, *, until: str = "") -> GateMessage:
    """`where` names repository and session; `until` says what happens at the deadline."""
    head = f"{clean_text(where)}\n{shorten_line(gate.title, MAX_TITLE_CHARS)}\n"
    others = [option.name for option in gate.options if option.name in EDIT_CHOICES]
    by_file = f"At a terminal: blueflame answer {gate.id} {others[0]} --file FILE" if others else ""
    foot = "\n".join(line for line in (until, by_file) if line)
    room = MAX_TEXT_UNITS - count_units(head) - count_units(foot) - 4
    whole = clean_text(evidence).rstrip()
    shown = cut_to_units(whole, room)
    text = f"{head}\n{shown}\n\n{foot}".rstrip() if shown else f"{head}\n{foot}".rstrip()
    fixed = (count_units(head) + 1, count_units(shown)) if shown else None
    return GateMessage(text, fixed, shown != whole)


def format_settled(text: str, fixed: tuple[int, int] | None, words: str) -> GateMessage:
    """The message of a gate that needs no answer any more: who answered what is above, what is below is gone."""
    if fixed is None:
        return GateMessage(cut_to_units(f"{words}\n\n{text}", MAX_TEXT_UNITS), None, False)
    asked = text.encode("utf-16-le")[: 2 * sum(fixed)].decode("utf-16-le")
    shown = cut_to_units(f"{words}\n\n{asked}", MAX_TEXT_UNITS)
    begin = fixed[0] + count_units(words) + 2
    return GateMessage(shown, (begin, count_units(shown) - begin), False)


def describe_answer(choice: str, by: str, note: str = "") -> str:
    reason = f": {shorten_line(note, MAX_TITLE_CHARS)}" if note.strip() else ""
    return f"Answered: {choice}, by {name_people(shorten_line(by, 80))}{reason}"


def name_people(text: str) -> str:
    """`anna (telegram:1001)` as people in a chat read it: who, and from where if it was elsewhere."""
    return ADDRESS.sub(lambda found: f" ({found[1]})" if found[1] not in ("telegram", "house") else "", text)
