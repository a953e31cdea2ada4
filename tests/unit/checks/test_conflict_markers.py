"""Conflict markers, and whether a merger left any."""

from __future__ import annotations

from blueflame.checks.conflict_markers import count_markers, find_leftover_markers, format_conflicts

MARKED = b"a\nb\nc\nd\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\ne\nf\ng\nh\n"


def broken(resolved: bytes, *sides: bytes) -> list[str]:
    found = find_leftover_markers(("a",), {"a": resolved}, [{"a": side} for side in sides])
    return [violation.rule for violation in found]


def test_markers_that_neither_side_had_are_found() -> None:
    assert broken(MARKED, b"x\n", b"y\n") == ["conflict_markers_left"]
    assert broken(b"x\n=======\ny\n", b"x\n", b"y\n") == ["conflict_markers_left"]
    assert broken(MARKED.replace(b"\n", b"\r\n"), b"x\r\n", b"y\r\n") == ["conflict_markers_left"]


def test_a_text_about_merging_keeps_its_own() -> None:
    assert broken(MARKED, MARKED, b"y\n") == []
    assert broken(b"Title\n=======\n", b"Title\n=======\n", b"Title\n=======\n") == []
    assert count_markers(b"======== eight\n<<<<<<<x\n") == 0


def test_only_the_conflicts_are_shown_with_a_few_lines_around() -> None:
    text = format_conflicts({"src/a.py": MARKED})
    assert text.splitlines()[:2] == ["--- src/a.py", "@@ lines 5-9"]
    assert "\na\n" not in text
    assert "\nb\nc\nd\n<<<<<<< ours\n" in text
    assert text.endswith("e\nf\ng")
