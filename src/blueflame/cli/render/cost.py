"""What agents have cost, as a person reads it and as a machine does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.billing.price_table import AS_OF
from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.model.spend import Spend
from blueflame.session.accounts import CostEntry, CostTotal, sum_costs_by, sum_spend
from blueflame.session.estimate import CostRange
from blueflame.text.format import format_count, format_dollars
from blueflame.text.marks import NOTE
from blueflame.text.sanitize import clean_line, clean_text

SESSION_TABLES = ("role", "task", "model", "agent")
MAX_ROWS = 40
TOKEN_KINDS = {"input": "input", "output": "output", "cache_read": "cache read", "cache_write": "cache write"}


def render_cost(
    entries: Sequence[CostEntry], *, session: str, by: str | None, foreseen: CostRange | None
) -> RenderableType:
    spend = sum_spend(entries)
    about: dict[str, RenderableType] = {"Cost:": f"{format_dollars(spend.micro_usd)}, {spend.tokens:,} tokens"}
    if foreseen is not None:
        about["Foreseen:"] = Text.assemble(foreseen.text, (f"\n{foreseen.basis}", "quiet"))
    live = [entry for entry in entries if entry.live]
    if live:
        now = sum_spend(live)
        about["At work:"] = (
            f"{format_count(len(live), 'agent')}, {format_dollars(now.micro_usd)} so far (in these figures)"
        )
    tables = [_render_table(entries, each, foreseen) for each in ((by,) if by else SESSION_TABLES)]
    return stack_parts(
        Group(
            Heading("Cost", session or format_count(len({entry.session for entry in entries}), "session")),
            build_facts(about),
        ),
        *(tables if entries else [Text("No agent has been started.", "quiet")]),
        _render_notes(entries),
    )


def _render_table(entries: Sequence[CostEntry], by: str, foreseen: CostRange | None) -> RenderableType:
    ranked = _rank_totals(sum_costs_by(entries, by), by)
    shown = ranked[:MAX_ROWS]
    named = [_build_column(by, [clean_line(clean_text(total.name)) for total in shown], "id")]
    figures = list(_build_figures(shown, _list_work(entries) if by == "agent" else {}))
    last = (
        [_build_column("foreseen", _format_estimates(shown, foreseen), "quiet")]
        if by == "role" and foreseen is not None
        else []
    )
    if any(total.live for total in shown):
        last.append(_build_column("", [f"{total.live} at work" if total.live else "" for total in shown], "good"))
    table = [*named, *figures, *last]
    right = [n for n, column in enumerate(table) if n and column[0].plain != "for"]
    hidden = ranked[MAX_ROWS:]
    rest = sum(total.spend.micro_usd for total in hidden)
    more = [Text(f"  … and {len(hidden)} more, {format_dollars(rest)} together", "quiet")] if hidden else []
    rows = list(zip(*table, strict=True))
    return Group(Text(f"By {by}", "head"), build_columns(rows, right=right, whole=range(1, len(table))), *more)


def _build_column(head: str, cells: Sequence[str], style: str = "") -> list[Text]:
    return [Text(head, "quiet"), *(Text(cell, style) for cell in cells)]


def _build_figures(shown: Sequence[CostTotal], work: Mapping[str, str]) -> Iterator[list[Text]]:
    """One column for each kind of token that was used at all; an agent is one attempt, and has its work instead."""
    if work:
        yield _build_column("for", [work[total.name] for total in shown])
    else:
        yield _build_column("attempts", [f"{total.attempts}" for total in shown])
    for kind, title in TOKEN_KINDS.items():
        amounts = [_count_tokens(total.spend)[kind] for total in shown]
        if any(amounts) or kind in ("input", "output"):
            yield _build_column(title, [f"{amount:,}" for amount in amounts])
    costs = [total.spend.micro_usd for total in shown]
    small = any(0 < cost < 10_000 for cost in costs)
    yield _build_column("cost", [f"${cost / 1e6:.4f}" if small else format_dollars(cost) for cost in costs])


def _list_work(entries: Sequence[CostEntry]) -> Mapping[str, str]:
    return {entry.agent: f"{entry.subject} #{entry.n}" for entry in entries}


def _format_estimates(shown: Sequence[CostTotal], foreseen: CostRange | None) -> list[str]:
    expected = {each.role: each for each in foreseen.roles} if foreseen is not None else {}
    found = [expected.get(total.name) for total in shown]
    return [f"${each.low / 1e6:.2f} - ${each.high / 1e6:.2f}" if each else "" for each in found]


def _rank_totals(found: Sequence[CostTotal], by: str) -> list[CostTotal]:
    """Days and sessions as they came, roles as they work, the rest dearest first."""
    if by in ("day", "session", "role"):
        return list(found)
    return sorted(found, key=lambda total: (-total.spend.micro_usd, -total.spend.tokens, total.name))


def _count_tokens(spend: Spend) -> Mapping[str, int]:
    return {
        "input": spend.input_tokens,
        "output": spend.output_tokens,
        "cache_read": spend.cache_read_tokens,
        "cache_write": spend.cache_write_tokens,
    }


def _render_notes(entries: Sequence[CostEntry]) -> RenderableType | None:
    lines = [Text(f"{NOTE} {words}", "warn") for words in _list_notes(entries)]
    return Group(*lines) if lines else None


def _list_notes(entries: Sequence[CostEntry]) -> Iterator[str]:
    """What makes these figures less than certain."""
    unpriced = sorted({model for entry in entries for model in entry.unpriced})
    if unpriced:
        names = ", ".join(clean_line(clean_text(name)) for name in unpriced)
        yield f"no price is known of {names}: the dearest was taken; set it under `prices` (built-in table of {AS_OF})"
    broken = sum(entry.incomplete for entry in entries)
    if broken:
        yield f"{format_count(broken, 'call')} broke off before the model reported its usage: a little may be missing"
    damaged = sum(entry.damaged for entry in entries)
    if damaged:
        yield f"{format_count(damaged, 'line')} of the meters cannot be read and are not counted"


def build_cost_json(
    entries: Sequence[CostEntry], *, session: str, by: str | None, foreseen: CostRange | None
) -> dict[str, Any]:
    return {
        "session": session or None,
        **_build_spend_json(sum_spend(entries)),
        "foreseen": _build_estimate_json(foreseen),
        "by": {
            each: [_build_total_json(total) for total in sum_costs_by(entries, each)]
            for each in ((by,) if by else SESSION_TABLES)
        },
        "attempts": [_build_entry_json(entry) for entry in entries],
        "notes": list(_list_notes(entries)),
        "prices_as_of": AS_OF,
    }


def _build_spend_json(spend: Spend) -> dict[str, Any]:
    return {"cost_usd": spend.usd, "tokens": spend.tokens, **_count_tokens(spend)}


def _build_total_json(total: CostTotal) -> dict[str, Any]:
    return {"name": total.name, "attempts": total.attempts, "live": total.live, **_build_spend_json(total.spend)}


def _build_entry_json(entry: CostEntry) -> dict[str, Any]:
    return {
        "id": entry.attempt,
        "session": entry.session,
        "agent": entry.agent,
        "role": entry.role,
        "subject": entry.subject,
        "n": entry.n,
        "day": entry.day,
        "ending": entry.ending or None,
        "live": entry.live,
        "metered": entry.metered,
        **_build_spend_json(entry.spend),
        "models": {model: _build_spend_json(spend) for model, spend in entry.by_model.items()},
    }


def _build_estimate_json(foreseen: CostRange | None) -> dict[str, Any] | None:
    if foreseen is None:
        return None
    roles = {each.role: {"base": each.low / 1e6, "with_retries": each.high / 1e6} for each in foreseen.roles}
    return {
        "base": foreseen.low / 1e6,
        "with_retries": foreseen.high / 1e6,
        "learned": foreseen.learned,
        "roles": roles,
    }
