"""Nothing an agent wrote reaches the person's terminal raw, neither as words nor as JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import blueflame.cli
from blueflame.cli.output import outlive_output, print_json, print_text
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_a_session_outlives_a_log_whose_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        full.write("what was printed before, and is not written yet")
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stderr", full)
        with outlive_output():
            print_text("a line")
            print_text("a warning", err=True)


def test_a_warning_outlives_a_reader_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        print_text("a warning", err=True)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_reach_no_file_of_ours(tmp_path: Path, closed: str) -> None:
    """The next file would get the number of a closed stream, and what is printed with it."""
    code = (
        "import sys; from blueflame.cli.output import open_closed_streams, print_text; open_closed_streams(); "
        "file = open('journal', 'w'); print_text('loud'); print_text('louder', err=True); sys.stdin.read(); "
        "file.write(f'{file.fileno() > 2}')"
    )
    shell = f'"$@" < /dev/null > /dev/null {closed}'
    done = subprocess.run(["sh", "-c", shell, "sh", sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / "journal").read_text() == "True"


@pytest.mark.parametrize("command", [["--version"], ["status", "--config", "nowhere.yaml"]])
def test_commands_end_as_usual_without_standard_streams(tmp_path: Path, command: list[str]) -> None:
    usual = subprocess.run(
        [sys.executable, "-m", "blueflame", *command], cwd=tmp_path, capture_output=True, check=False
    )
    closed = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "blueflame", *command]
    assert subprocess.run(closed, cwd=tmp_path, check=False).returncode == usual.returncode
