from __future__ import annotations

import sys
import unicodedata

import pytest

from blueflame.text.sanitize import DANGEROUS, clean_line, encode_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\n\tc", "a b c"),
        ("\x1b[2Jgone", "␛[2Jgone"),
        ("\x9b31m", "\\x9b31m"),
        ("safe\u202egnp.exe", "safe<U+202E>gnp.exe"),
        ("zero\u200bwidth", "zero<U+200B>width"),
        ("a\u2028b", "a b"),
        ("lone \udcff", "lone \\xff"),
        ("hidden \U000e0041", "hidden <U+E0041>"),
        ("Ада, 日本", "Ада, 日本"),
    ],
)
def test_what_could_fool_a_terminal_is_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert clean_line(text) == shown


def test_every_control_format_and_private_character_is_dangerous() -> None:
    kinds = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    hidden = {code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in kinds} - {9, 10}
    assert {code for code in hidden if not DANGEROUS.match(chr(code))} == set()


def test_half_of_a_character_can_be_written_and_names_keep_their_bytes() -> None:
    assert encode_text("a\ud83d \udcff 😀") == b"a\xef\xbf\xbd \xff \xf0\x9f\x98\x80"
