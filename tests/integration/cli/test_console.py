from __future__ import annotations

import unicodedata
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from blueflame.cli.console import Heading, make_console, print_view, render_text, stack_parts
from blueflame.text.format import format_clock, format_count, format_duration
from blueflame.text.sanitize import clean_line, clean_text, shorten_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("title \x1b]0;evil\x07", "title ␛]0;evil␇"),
        ("over\rwritten", "over␍written"),
        ("dos\r\nline", "dos\nline"),
        ("back\x08space", "back␈space"),
        ("c1 \x9b31m", "c1 \\x9b31m"),
        ("del\x7f", "del␡"),
        ("turned \u202eround", "turned <U+202E>round"),
        ("bad name \udcff", "bad name \\xff"),
        ("кириллица\tи таб\n", "кириллица\tи таб\n"),
        ("[bold]markup[/bold] :smile:", "[bold]markup[/bold] :smile:"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert clean_text(text) == shown


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    left = {unicodedata.category(letter) for letter in clean_text(text) if letter not in "\n\t"}
    assert not left & {"Cc", "Cs", "Zl", "Zp"}


@given(st.text())
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


@given(st.text(), st.integers(1, 50))
def test_a_shortened_text_fits_on_one_line(text: str, width: int) -> None:
    line = shorten_line(text, width)
    assert len(line) <= width
    assert "\n" not in line


def test_one_line_has_single_spaces() -> None:
    assert clean_line("  two\n\n words ") == "two words"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7620, "2 h 07 min"),
        (float("inf"), "an unknown time"),
        (float("nan"), "an unknown time"),
    ],
)
def test_durations_are_as_exact_as_is_useful(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


def test_a_running_time_is_shown_like_a_clock() -> None:
    assert [format_clock(seconds) for seconds in (-1, 7.9, 66, 7265)] == ["0:00", "0:07", "1:06", "2:01:05"]


def test_things_are_counted() -> None:
    assert [format_count(n, "task") for n in (0, 1, 2, 10_000)] == ["0 tasks", "1 task", "2 tasks", "10,000 tasks"]


def test_markup_in_texts_is_not_obeyed() -> None:
    out = StringIO()
    make_console(file=out, width=80).print("[bold]x[/bold] :smile:")
    assert out.getvalue() == "[bold]x[/bold] :smile:\n"


def test_no_colour_is_written_to_a_file() -> None:
    out = StringIO()
    make_console(file=out, width=80).print(Text("red", "bad"))
    assert out.getvalue() == "red\n"


def test_a_terminal_that_cannot_show_a_letter_shows_a_question_mark() -> None:
    raw = BytesIO()
    stream = TextIOWrapper(raw, encoding="ascii", write_through=True)
    make_console(file=stream, width=80).print("✓ да")
    assert raw.getvalue() == b"? ??\n"


def test_a_heading_moves_its_facts_down_where_it_is_narrow() -> None:
    heading = Heading("Plan review", "round 2", "ses-1")
    assert render_text(heading, width=40) == "Plan review              round 2 · ses-1\n" + "─" * 40 + "\n"
    assert render_text(heading, width=20) == "Plan review\nround 2 · ses-1\n" + "─" * 20 + "\n"


def test_a_pipe_gets_no_trailing_spaces() -> None:
    out = StringIO()
    print_view(make_console(file=out, width=30), stack_parts(Text("a  "), None, Text("b")))
    assert out.getvalue() == "a\n\nb\n"
