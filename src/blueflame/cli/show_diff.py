"""A diff in colour, page by page on a terminal and plain in a pipe."""

from __future__ import annotations

import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from blueflame.cli.paint import THEME
from blueflame.cli.plain import clean
from blueflame.model.errors import ProcessFailed
from blueflame.tools.terminal import is_attended, lend, pager

STYLES = (
    ("diff --git ", "head"),
    ("index ", "quiet"),
    ("+++ ", "head"),
    ("--- ", "head"),
    ("@@ ", "id"),
    ("+", "good"),
    ("-", "bad"),
)


def show_diff(diff: str) -> Text:
    """Line by line; a carriage return and any escape in the files stay visible and do nothing."""
    painted = Text(no_wrap=True, overflow="ignore")
    for line in diff.removesuffix("\n").split("\n"):
        style = next((style for start, style in STYLES if line.startswith(start)), "")
        painted.append(clean(line.replace("\r", "␍")) + "\n", style or None)
    painted.right_crop(1)
    return painted


async def page(view: Text, console: Console) -> None:
    """Through the pager when somebody can leaf; whole, in the pipe, when nobody can."""
    if not (console.is_terminal and is_attended()):
        console.print(view, soft_wrap=True)
        return
    with tempfile.TemporaryDirectory(prefix="blueflame-") as folder:
        (Path(folder) / "diff").write_text(_encoded(view, console), encoding="utf-8")
        try:
            await lend([*pager(), "diff"], cwd=Path(folder))
        except ProcessFailed:  # no pager on this machine: the words matter more than the leafing
            console.print(view, soft_wrap=True)


def _encoded(view: Text, console: Console) -> str:
    out = StringIO()
    colour = console.color_system
    Console(
        file=out,
        force_terminal=colour is not None,
        color_system="standard" if colour else None,
        no_color=console.no_color,
        theme=THEME,
        width=console.width,
    ).print(view, soft_wrap=True)
    return out.getvalue()
