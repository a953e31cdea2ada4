"""Nothing an agent wrote reaches the person's terminal raw, neither as words nor as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import blueflame.cli
from blueflame.cli.output import print_json, print_text
from blueflame.text.sanitize import DANGEROUS, clean_text

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\x08\x08\r\x00\udc9b"


def test_words_lose_every_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(EVIL)
    assert not DANGEROUS.search(capsys.readouterr().out)


def test_json_keeps_the_string_and_shows_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"title": EVIL, "plain": "Grüße"})
    said = capsys.readouterr().out
    assert not DANGEROUS.search(said)
    assert json.loads(said) == {"title": EVIL, "plain": "Grüße"}


@given(st.text())
def test_cleaned_text_can_be_written_and_holds_nothing_dangerous(text: str) -> None:
    assert not DANGEROUS.search(clean_text(text).encode().decode())


def test_no_verb_has_a_door_of_its_own() -> None:
    folder = Path(blueflame.cli.__file__).parent
    doors = re.compile(r"click\.echo|\bprint\(|sys\.std(out|err)\.write")
    own = [
        f"{path.name}:{n}"
        for path in sorted(folder.rglob("*.py"))
        for n, line in enumerate(path.read_text().splitlines(), start=1)
        if path.name != "output.py" and doors.search(line) and not re.search(r"console\.print\(|\.print\(view", line)
    ]
    assert own == []
