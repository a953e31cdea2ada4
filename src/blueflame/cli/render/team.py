"""The seats of a team, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from blueflame.cli.console import build_columns
from blueflame.text.format import format_count, format_duration
from blueflame.text.sanitize import shorten_line
from blueflame.views.team import TeamRow

HEAD = ("seat", "domain", "tasks", "landed", "first time", "last work", "conversation")
MAX_DOMAIN_CHARS = 40


def render_team(rows: Sequence[TeamRow], *, now: float) -> RenderableType:
    if not rows:
        return Text("No seats yet: the first attempt at a task takes one.", "quiet")
    cells = [
        (
            Text(row.seat.name, "id"),
            shorten_line(row.seat.domain, MAX_DOMAIN_CHARS),
            str(sum(row.seat.tasks.values())),
            str(row.seat.landed),
            str(row.seat.first_time),
            Text(_format_last_work(row, now), "" if row.works_on else "quiet"),
            Text(_format_conversation(row), "quiet"),
        )
        for row in rows
    ]
    return build_columns(cells, head=HEAD, right=(2, 3, 4), whole=range(5))


def _format_last_work(row: TeamRow, now: float) -> str:
    if row.works_on:
        return f"works on {row.works_on}"
    return f"{format_duration(now - row.seat.last_at)} ago" if row.seat.last_at else ""


def _format_conversation(row: TeamRow) -> str:
    tasks = format_count(row.context_tasks, "task")
    return f"{tasks}, {row.context_tokens:,} tokens" if row.context_tasks else ""
