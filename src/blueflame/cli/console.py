"""The console, its colours, and the shapes that every rendered view is built of."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import StringIO
from typing import IO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from blueflame.text.marks import DOT
from blueflame.text.sanitize import clean_line, clean_text
from blueflame.views.parts import MarkedLine, NamedValue

THEME = Theme(
    {
        "head": "bold",
        "id": "cyan",
        "group": "blue",
        "good": "green",
        "bad": "red",
        "warn": "yellow",
        "quiet": "dim",
        "key": "bold",
        "flame": "bold blue",
    }
)
"""Colour only repeats what words and marks say: everything reads the same without it."""


def make_console(*, stderr: bool = False, file: IO[str] | None = None, width: int | None = None) -> Console:
    """Make a console with colour only on a terminal without NO_COLOR, and without markup: texts contain brackets."""
    stream = file or (sys.stderr if stderr else sys.stdout)
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a character that the terminal lacks becomes a question mark
    return Console(file=stream, width=width, theme=THEME, markup=False, emoji=False, highlight=False)


def render_text(view: RenderableType, *, width: int = 80) -> str:
    """A view as plain text, for logs, pipes and tests."""
    out = StringIO()
    console = Console(file=out, width=width, theme=THEME, markup=False, emoji=False, highlight=False, color_system=None)
    console.print(view)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


class Heading:
    """A title on the left, facts on the right (below the title where it is narrow), a rule under both."""

    def __init__(self, title: str, *facts: str) -> None:
        self.title, self.facts = title, f" {DOT} ".join(fact for fact in facts if fact)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        gap = options.max_width - len(self.title) - len(self.facts)
        apart = " " * gap if gap >= 2 else "\n"
        yield (
            Text.assemble((self.title, "head"), apart, (self.facts, "quiet"))
            if self.facts
            else Text(self.title, "head")
        )
        yield Text("─" * options.max_width, "quiet")


def build_columns(
    rows: Sequence[Sequence[RenderableType]],
    *,
    head: Sequence[str] = (),
    indent: int = 2,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> Table:
    """Aligned columns without lines; where it is narrow they fold, except those in `whole`."""
    rows = [[Text(word, "quiet") for word in head], *rows] if head else rows
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=max(indent - 2, 0), no_wrap=True)
    for n in range(max((len(row) for row in rows), default=0)):
        grid.add_column(justify="right" if n in right else "left", overflow="fold", no_wrap=n in whole)
    for row in rows:
        grid.add_row("", *row)
    return grid


def build_facts(facts: Sequence[NamedValue]) -> Table:
    """Name and value, one per line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=0, no_wrap=True)
    grid.add_column(no_wrap=True, style="quiet")
    grid.add_column(overflow="fold")
    for fact in facts:
        note = f"\n{clean_text(fact.note)}" if fact.note else ""
        grid.add_row("", f"{fact.name}:", Text.assemble((clean_text(fact.text), fact.tone), (note, "quiet")))
    return grid


def draw_line(line: MarkedLine) -> Text:
    return Text.assemble((line.mark, line.tone), f" {clean_line(line.text)}")


def stack_parts(*parts: RenderableType | None) -> Group:
    """Parts with an empty line between them; None is left out."""
    shown = [part for part in parts if part is not None]
    spaced: list[RenderableType] = []
    for part in shown:
        spaced += [part, ""]
    return Group(*spaced[:-1])


def print_view(console: Console, view: RenderableType) -> None:
    """Print a view; to a file or a pipe without trailing spaces."""
    if console.is_terminal:
        console.print(view)
    else:
        console.file.write(render_text(view, width=console.width))
