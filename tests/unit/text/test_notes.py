"""Notes are one line of bounded length, without secrets."""

from __future__ import annotations

from blueflame.text.notes import SECRET, clean_note
from support.fake_secrets import SecretGenerator, build_pem


def test_lines_that_look_like_secrets_are_left_out() -> None:
    token = f"ghp_{SecretGenerator()(36)}"
    kept = clean_note(f"the first line\nexport TOKEN={token}\nthe last line", 500)
    assert token not in kept
    assert kept == f"the first line {SECRET} the last line"
    key = build_pem(SecretGenerator())
    assert not any(line in clean_note(f"see:\n{key}\nso", 500) for line in key.splitlines())


def test_what_is_kept_is_one_line_of_bounded_length() -> None:
    assert clean_note("a\n\tb\x1b[31m\u2028c", 100) == "a b␛[31m c"
    assert len(clean_note("x" * 10_000, 100)) <= 101
