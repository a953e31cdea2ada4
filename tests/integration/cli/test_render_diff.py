from __future__ import annotations

import asyncio
from io import StringIO

import pytest
from rich.console import Console

from blueflame.cli.console import THEME, make_console, render_text
from blueflame.cli.render.diff import render_diff, show_in_pager
from blueflame.system.terminal import find_pager

DIFF = "diff --git a/ф b/ф\nindex 1..2 100644\n--- a/ф\n+++ b/ф\n@@ -1 +1 @@\n-old\n+new \x1b[2J\r\n context\n"


def test_a_diff_keeps_its_lines_and_loses_its_escapes() -> None:
    assert render_text(render_diff(DIFF), width=200) == DIFF.replace("\x1b", "␛").replace("\r", "␍")


def test_added_and_removed_lines_are_coloured() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", theme=THEME, no_color=False)
    console.print(render_diff(DIFF))
    assert "\x1b[31m-old" in out.getvalue()
    assert "\x1b[32m+new" in out.getvalue()


def test_long_lines_are_not_broken_in_a_pipe() -> None:
    out = StringIO()
    asyncio.run(show_in_pager(render_diff("+" + "x" * 500), make_console(file=out, width=80)))
    assert out.getvalue() == "+" + "x" * 500 + "\n"


@pytest.mark.parametrize(
    ("chosen", "argv"),
    [
        (None, ["less", "-RFX"]),
        ("", ["less", "-RFX"]),
        ("/usr/bin/less -i", ["/usr/bin/less", "-i", "-RFX"]),
        ("more", ["more"]),
    ],
)
def test_the_persons_own_pager_is_used(chosen: str | None, argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGER", raising=False)
    if chosen is not None:
        monkeypatch.setenv("PAGER", chosen)
    assert find_pager() == argv
