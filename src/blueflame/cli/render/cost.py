"""What agents cost, in tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.session.accounts import CostTotal
from blueflame.text.format import format_count, format_dollar_range, format_dollars, format_tokens
from blueflame.text.marks import NOTE
from blueflame.text.sanitize import clean_line
from blueflame.views.cost import CostView, count_tokens, rank_totals

MAX_ROWS = 40
TOKEN_KINDS = {"input": "input", "output": "output", "cache_read": "cached", "cache_write": "to cache"}


def render_cost(view: CostView) -> RenderableType:
    sessions = format_count(len({entry.session for entry in view.entries}), "session")
    tables = [_render_table(view, by, found) for by, found in view.tables.items()]
    notes = [Text(f"{NOTE} {note}", "warn") for note in view.notes]
    return stack_parts(
        Group(Heading("Cost", view.session or sessions), build_facts(view.facts)),
        *(tables if view.entries else [Text("No agent has been started.", "quiet")]),
        Group(*notes) if notes else None,
    )


def _render_table(view: CostView, by: str, found: Sequence[CostTotal]) -> RenderableType:
    ranked = rank_totals(found, by)
    shown, hidden = ranked[:MAX_ROWS], ranked[MAX_ROWS:]
    table = [_build_column(by, [clean_line(total.name) for total in shown], "id")]
    work = {entry.agent: f"{entry.subject} #{entry.n}" for entry in view.entries} if by == "agent" else {}
    table += _build_figures(shown, work)
    if by == "role" and view.foreseen is not None:
        ranges = {each.role: format_dollar_range(each.low, each.high) for each in view.foreseen.roles}
        table.append(_build_column("estimate", [ranges.get(total.name, "") for total in shown], "quiet"))
    right = [n for n, column in enumerate(table) if n and column[0].plain != "for"]
    rest = sum(total.spend.micro_usd for total in hidden)
    more = [Text(f"  … and {len(hidden)} more, {format_dollars(rest)} together", "quiet")] if hidden else []
    rows = list(zip(*table, strict=True))
    return Group(Text(f"By {by}", "head"), build_columns(rows, right=right, whole=range(1, len(table))), *more)


def _build_column(head: str, cells: Sequence[str], style: str = "") -> list[Text]:
    return [Text(head, "quiet"), *(Text(cell, style) for cell in cells)]


def _build_figures(shown: Sequence[CostTotal], work: Mapping[str, str]) -> Iterator[list[Text]]:
    """A column for each kind of token that was used; an agent is one attempt, and has its work instead of a count."""
    if work:
        yield _build_column("for", [work[total.name] for total in shown])
    else:
        yield _build_column("attempts", [f"{total.attempts}" for total in shown])
    for kind, title in TOKEN_KINDS.items():
        amounts = [count_tokens(total.spend)[kind] for total in shown]
        if any(amounts) or kind in ("input", "output"):
            yield _build_column(title, [format_tokens(amount) for amount in amounts])
    costs = [total.spend.micro_usd for total in shown]
    small = any(0 < cost < 10_000 for cost in costs)
    places = 4 if small else None
    yield _build_column(
        "cost",
        [f"{'~' if total.live else ''}{format_dollars(total.spend.micro_usd, places=places)}" for total in shown],
    )
