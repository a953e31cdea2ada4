"""A diff in colour, in the pager on a terminal and plain in a pipe."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text

from blueflame.cli.console import THEME
from blueflame.model.errors import ProcessFailed
from blueflame.system.terminal import find_pager, is_interactive, run_in_terminal
from blueflame.text.sanitize import clean_text

STYLES = (
    ("diff --git ", "head"),
    ("index ", "quiet"),
    ("+++ ", "head"),
    ("--- ", "head"),
    ("@@ ", "id"),
    ("+", "good"),
    ("-", "bad"),
)


def render_diff(diff: str) -> Text:
    """Colour a diff; carriage returns and escapes in the files are made visible."""
    painted = Text(no_wrap=True, overflow="ignore")
    for line in diff.removesuffix("\n").split("\n"):
        style = next((style for start, style in STYLES if line.startswith(start)), "")
        painted.append(clean_text(line.replace("\r", "␍")) + "\n", style or None)
    painted.right_crop(1)
    return painted


async def show_in_pager(view: Text, console: Console) -> None:
    """Show a text in the pager on a terminal, else print it."""
    if not (console.is_terminal and is_interactive()):
        console.print(view, soft_wrap=True)
        return
    with tempfile.TemporaryDirectory(prefix="blueflame-") as folder:
        (Path(folder) / "diff").write_text(format_for_pager(view, console), encoding="utf-8")
        try:
            await run_in_terminal([*find_pager(), "diff"], cwd=Path(folder))
        except ProcessFailed:  # no pager on this machine
            console.print(view, soft_wrap=True)


def format_for_pager(view: Text, console: Console) -> str:
    """Format without rich's layout: the pager wraps lines, and the layout of a long diff is slow."""
    if console.color_system is None or console.no_color:
        return f"{view.plain}\n"
    parts, at = [], 0
    for span in view.spans:
        style = THEME.styles[str(span.style)]
        line = view.plain[span.start : span.end]
        parts += [view.plain[at : span.start], style.render(line.rstrip("\n"), color_system=ColorSystem.STANDARD)]
        parts.append("\n" if line.endswith("\n") else "")
        at = span.end
    return "".join([*parts, view.plain[at:], "\n"])
