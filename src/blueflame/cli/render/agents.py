"""The agents at work, as `blueflame status` tells of them: figures in columns, words below, whole at any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.render.activity import format_tokens
from blueflame.model.attempt import AttemptRecord
from blueflame.orchestrator.engine.health import Health, HealthReport
from blueflame.text.format import format_clock
from blueflame.text.sanitize import clean_line, shorten_line

HEALTH: Mapping[Health, str] = {Health.STARTING: "", Health.WORKING: "good", Health.ENDED: "", Health.LOST: "bad"}
UNKNOWN_HEALTH = HealthReport(state=Health.UNKNOWN)
AGENT_HEAD = ("agent", "for", "pid", "age", "silent", "tokens", "cost", "state")
RIGHT_ALIGNED = range(2, 7)
GAP = "  "
MAX_WORDS = 160  # characters


def render_agents(
    records: Sequence[AttemptRecord], *, now: float, checkups: Mapping[str, HealthReport]
) -> RenderableType:
    ordered = sorted(records, key=lambda r: (r.intended_at, r.attempt.id))
    found = [checkups.get(record.attempt.id, UNKNOWN_HEALTH) for record in ordered]
    rows = [_build_row(record, each, now) for record, each in zip(ordered, found, strict=True)]
    widths = [max(cell_len(row[n]) for row in (AGENT_HEAD, *rows)) for n in range(len(AGENT_HEAD))]
    lines = [Text("Agents at work", "head"), _build_line(AGENT_HEAD, widths, ["quiet"] * len(AGENT_HEAD))]
    for row, each in zip(rows, found, strict=True):
        lines.append(_build_line(row, widths, ["id", *[""] * 6, HEALTH.get(each.state, "warn")]))
        if words := shorten_line(each.why or each.said, MAX_WORDS):
            lines.append(Text(f"{GAP * 2}{words}", "quiet"))
    return Group(*lines)


def _build_row(record: AttemptRecord, found: HealthReport, now: float) -> tuple[str, ...]:
    attempt = record.attempt
    return (
        attempt.agent_id,
        f"{clean_line(attempt.subject)} #{attempt.n}",
        str(found.agent_pid or ""),
        format_clock(now - (record.started_at or record.intended_at)),
        format_clock(now - found.last_output) if found.last_output else "",
        format_tokens(found.spend.tokens),
        f"${found.spend.usd:.2f}",
        found.state.value,
    )


def _build_line(row: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for n, (cell, width, style) in enumerate(zip(row, widths, styles, strict=True)):
        space = " " * (width - cell_len(cell))
        line.append(GAP).append(space + cell if n in RIGHT_ALIGNED else cell + space, style)
    line.rstrip()
    return line
