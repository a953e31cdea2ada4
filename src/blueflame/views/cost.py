"""What agents cost, against the estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blueflame.billing.price_table import AS_OF
from blueflame.lazy_dataclass import dataclass
from blueflame.model.spend import Spend
from blueflame.session.accounts import CostEntry, CostTotal, sum_costs_by, sum_spend
from blueflame.session.estimate import CostRange
from blueflame.text.format import format_count, format_dollars
from blueflame.text.sanitize import clean_line
from blueflame.views.parts import NamedValue, pick

SESSION_TABLES = ("role", "task", "model", "agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostView:
    """The costs of one session, or of all (then `session` is empty); `by` selects one table."""

    entries: tuple[CostEntry, ...]
    session: str = ""
    by: str | None = None
    foreseen: CostRange | None = None

    @property
    def tables(self) -> Mapping[str, tuple[CostTotal, ...]]:
        return {by: tuple(sum_costs_by(self.entries, by)) for by in ((self.by,) if self.by else SESSION_TABLES)}

    @property
    def facts(self) -> tuple[NamedValue, ...]:
        spend = sum_spend(self.entries)
        live = [entry for entry in self.entries if entry.live]
        so_far = format_dollars(sum_spend(live).micro_usd)
        running = f"{format_count(len(live), 'agent')}, {so_far} so far (included, and marked ~)"
        return (
            NamedValue("Cost", f"{format_dollars(spend.micro_usd)}, {spend.tokens:,} tokens"),
            *((NamedValue("Estimate", self.foreseen.text, note=self.foreseen.basis),) if self.foreseen else ()),
            *((NamedValue("Running", running),) if live else ()),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(_list_notes(self.entries))


def rank_totals(found: Sequence[CostTotal], by: str) -> list[CostTotal]:
    """Sort totals: days, sessions and roles keep their order, the rest by cost, highest first."""
    if by in ("day", "session", "role"):
        return list(found)
    return sorted(found, key=lambda total: (-total.spend.micro_usd, -total.spend.tokens, total.name))


def count_tokens(spend: Spend) -> Mapping[str, int]:
    return {
        "input": spend.input_tokens,
        "output": spend.output_tokens,
        "cache_read": spend.cache_read_tokens,
        "cache_write": spend.cache_write_tokens,
    }


def _list_notes(entries: Sequence[CostEntry]) -> Iterator[str]:
    """Yield what makes the figures uncertain."""
    unpriced = sorted({model for entry in entries for model in entry.unpriced})
    if unpriced:
        names = ", ".join(map(clean_line, unpriced))
        yield f"no price known for {names}: counted at the highest price; set it under `prices` (prices of {AS_OF})"
    broken = sum(entry.incomplete for entry in entries)
    if broken:
        yield (
            f"{format_count(broken, 'call')} ended before the model reported its usage: estimated, "
            "which may be too high"
        )
    damaged = sum(entry.damaged for entry in entries)
    if damaged:
        yield f"{format_count(damaged, 'line')} of the meters unreadable: not counted"


def build_cost_json(view: CostView) -> dict[str, Any]:
    return {
        "session": view.session or None,
        **_build_spend_json(sum_spend(view.entries)),
        "foreseen": _build_estimate_json(view.foreseen),
        "by": {by: [_build_total_json(total) for total in found] for by, found in view.tables.items()},
        "attempts": [_build_entry_json(entry) for entry in view.entries],
        "notes": list(view.notes),
        "prices_as_of": AS_OF,
    }


def _build_spend_json(spend: Spend) -> dict[str, Any]:
    return {"cost_usd": spend.usd, "tokens": spend.tokens, **count_tokens(spend)}


def _build_total_json(total: CostTotal) -> dict[str, Any]:
    return {"name": total.name, "attempts": total.attempts, "live": total.live, **_build_spend_json(total.spend)}


def _build_entry_json(entry: CostEntry) -> dict[str, Any]:
    return {
        "id": entry.attempt,
        **pick(entry, "session agent role subject n day"),
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
