"""What a model call costs: the table of prices, and exact sums in millionths of a dollar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from blueflame.billing.price_table import PRICE_LINES
from blueflame.billing.usage import Usage
from blueflame.lazy_dataclass import dataclass
from blueflame.model.spend import to_micro_usd

MILLION = 1_000_000
COLUMNS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "web_search")
FALLBACK = "fallback"  # the name of the row for models that match no other
DEFAULT_WEB_SEARCH_PRICE = 10_000  # what a search costs where a person's own price does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """Millionths of a dollar per million tokens; `web_search` per request.

    `model` may contain *. `above`: only for calls that read more tokens than that, caches included.
    """

    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    web_search: int = 0
    above: int = 0

    def matches(self, model: str, read: int = 0) -> bool:
        large_enough = read > self.above or not self.above
        return large_enough and _compile_pattern(self.model).fullmatch(model.casefold()) is not None


def compute_cost(row: PriceRow, usage: Usage) -> int:
    """Compute the exact cost, rounded up once for the whole call."""
    parts = (
        row.input * usage.input,
        row.output * usage.output,
        row.cache_read * usage.cache_read,
        row.cache_write * (usage.cache_write - usage.cache_write_1h),
        row.cache_write_1h * usage.cache_write_1h,
    )
    return -(-sum(parts) // MILLION) + row.web_search * usage.web_search


def find_row(rows: Iterable[PriceRow], usage: Usage, otherwise: PriceRow) -> PriceRow:
    """Find the first row that matches."""
    read = usage.input + usage.cache_read + usage.cache_write
    return next((row for row in rows if row.matches(usage.model, read)), otherwise)


def is_dearer(rows: Sequence[PriceRow], model: str, than: Iterable[str]) -> bool:
    """Whether a model costs more than all of `than`: names, or a vendor's short names such as `opus`.

    Where the prices of all of those are unknown, they count as the highest, and no model is dearer.
    """
    names = [name.rpartition("/")[2].partition("[")[0].casefold() for name in than]
    found = [row for name in names for row in _list_rows(rows, name)]
    name = model.rpartition("/")[2].partition("[")[0].casefold()
    if not found or name in names or any(word.isalpha() and word in re.split(r"[^a-z]", name) for word in names):
        return False
    own = _list_rows(rows, name)
    most = [max(getattr(row, column) for row in found) for column in ("input", "output")]
    return not own or any(row.input > most[0] or row.output > most[1] for row in own)


def _list_rows(rows: Sequence[PriceRow], name: str) -> list[PriceRow]:
    """List the rows that price a name, also those of its large calls; a short name means the first that contains it."""
    fits = [row for row in rows if row.matches(name, row.above + 1)]
    if not fits and name.isalpha():
        first = next((row.model for row in rows if name in re.split(r"[^a-z]", row.model.casefold())), None)
        fits = [row for row in rows if row.model == first]
    ends = next((at for at, row in enumerate(fits) if not row.above), len(fits))
    return fits[: ends + 1]


@lru_cache(maxsize=512)
def _compile_pattern(model: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in model.casefold().split("*")), re.DOTALL)


class OwnPrice(Protocol):
    """A price from the configuration, in dollars per million tokens."""

    @property
    def input(self) -> float: ...
    @property
    def output(self) -> float: ...
    @property
    def cache_read(self) -> float | None: ...
    @property
    def cache_write(self) -> float | None: ...
    @property
    def cache_write_1h(self) -> float | None: ...


def compile_prices(own: Mapping[str, OwnPrice], observed: Mapping[str, Fraction] | None = None) -> tuple[PriceRow, ...]:
    """Configured rows first (the longer, more exact pattern before the shorter), then rows corrected by the observed
    factor between bill and table, then the table."""
    mine = [
        _build_own_row(model, price) for model, price in sorted(own.items(), key=lambda pair: (-len(pair[0]), pair[0]))
    ]
    table = build_listed_rows()
    corrected = [
        row for model in sorted(observed or {}) for row in _correct_rows(table, model, (observed or {})[model])
    ]
    return (*mine, *corrected, *table)


@lru_cache(maxsize=1)
def build_listed_rows() -> tuple[PriceRow, ...]:
    return tuple(
        PriceRow(model=model, above=above, **dict(zip(COLUMNS, map(to_micro_usd, dollars), strict=True)))
        for _vendor, model, above, *dollars in PRICE_LINES
    )


def build_fallback_row(rows: Sequence[PriceRow]) -> PriceRow:
    """Build the row for unknown models: the highest price of each column, so that a budget holds in any case."""
    return PriceRow(model=FALLBACK, **{column: max(getattr(row, column) for row in rows) for column in COLUMNS})


def parse_row(line: Mapping[str, Any]) -> PriceRow:
    """Parse what `asdict` of a row gave; raises KeyError or TypeError for anything else."""
    figures = {column: line[column] for column in COLUMNS}
    if not all(type(figure) is int and figure >= 0 for figure in figures.values()):
        raise TypeError(f"prices are whole numbers of millionths of a dollar: {dict(line)!r}")
    return PriceRow(model=str(line.get("model", FALLBACK)), above=int(line.get("above", 0)), **figures)


def _build_own_row(model: str, price: OwnPrice) -> PriceRow:
    cache_write = price.input if price.cache_write is None else price.cache_write
    return PriceRow(
        model=model,
        input=to_micro_usd(price.input),
        output=to_micro_usd(price.output),
        cache_read=to_micro_usd(price.input if price.cache_read is None else price.cache_read),
        cache_write=to_micro_usd(cache_write),
        cache_write_1h=to_micro_usd(cache_write if price.cache_write_1h is None else price.cache_write_1h),
        web_search=DEFAULT_WEB_SEARCH_PRICE,
    )


def _correct_rows(table: Sequence[PriceRow], model: str, factor: Fraction) -> list[PriceRow]:
    """Correct every row that the model is priced by, also that of its large calls."""
    return [_scale_row(row, model, factor) for row in _list_rows(table, model) or [build_fallback_row(table)]]


def _scale_row(row: PriceRow, model: str, factor: Fraction) -> PriceRow:
    """Scale and round up: a correction never makes a budget larger."""
    tokens = {column: -int(-getattr(row, column) * factor // 1) for column in COLUMNS if column != "web_search"}
    return replace(row, model=model, **tokens)
