from __future__ import annotations

import pytest

from blueflame.checks.file_names import find_unsafe_part


@pytest.mark.parametrize(
    "path",
    [
        "src/app.py",
        "мой файл.py",
        "docs/日本語.md",
        "pages/[id].tsx",
        "a b/c,d;e.txt",
        ".gitignore",
        ".gitattributes",
        ".github/workflows/ci.yml",
        "git/config",
        "digit~1",
        "console.py",
        "com10.txt",
        "null",
        "e\u0301.txt",
        "emoji 🔥.md",
        "...a",
    ],
)
def test_honest_names_are_fine(path: str) -> None:
    assert find_unsafe_part(path) == ""


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a\nb", "control character U+000A"),
        ("src/\x1b[31m.py", "control character U+001B"),
        ("a\x7f", "control character U+007F"),
        ("a\udcffb", "not UTF-8"),
        ("a\u202egpj.exe", "invisible character U+202E"),
        ("re\u200badme", "invisible character U+200B"),
        ("a\\b", "backslash"),
        ("src/trailing.", "at the end"),
        ("trailing /x", "at the end"),
        ("con", "device"),
        ("src/AUX.py", "device"),
        ("lpt1", "device"),
        ("git~1", "treat it as .git"),
        ("GIT~1/config", "treat it as .git"),
        (".git /x", "treat it as .git"),
        (".git...", "treat it as .git"),
        (".git::$INDEX_ALLOCATION/config", "treat it as .git"),
        (".g\u200cit", "invisible"),
        (".ｇｉｔ/config", "treat it as .git"),
    ],
)
def test_names_that_are_something_else_elsewhere_are_reported(path: str, why: str) -> None:
    assert why in find_unsafe_part(path)
