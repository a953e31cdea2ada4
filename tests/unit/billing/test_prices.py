from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.billing.prices import (
    COLUMNS,
    PriceRow,
    build_fallback_row,
    build_listed_rows,
    compile_prices,
    compute_cost,
    find_row,
    parse_row,
)
from blueflame.billing.usage import Usage
from blueflame.model.settings import Price

COUNT = st.integers(0, 10**9)
ROW = st.builds(PriceRow, model=st.just("*"), **{column: st.integers(0, 10**9) for column in COLUMNS})
USAGE = st.builds(
    Usage, input=COUNT, output=COUNT, cache_read=COUNT, cache_write=COUNT, web_search=st.integers(0, 1000)
)


BUILT_IN = build_listed_rows()


def priced(usage: Usage, rows: tuple[PriceRow, ...] = BUILT_IN) -> int:
    return compute_cost(find_row(rows, usage, build_fallback_row(rows)), usage)


@pytest.mark.parametrize(
    ("usage", "micro_usd"),
    [
        (Usage(model="claude-opus-5-5", input=1000, output=50), 5_000),
        (Usage(model="claude-opus-5-5", input=100_000), 400_000),
        (Usage(model="claude-opus-5-5", output=100_000), 2_000_000),
        (Usage(model="claude-opus-5-5", cache_read=100_000), 20_000),
        (Usage(model="claude-opus-5-5", cache_write=100_000), 500_000),
        (Usage(model="claude-opus-5-5", cache_write=100_000, cache_write_1h=100_000), 800_000),
        (Usage(model="claude-opus-5-5", web_search=100), 1_000_000),
        (Usage(model="claude-opus-5-5[1m]", input=400_000, output=100_000), 3_600_000),
        (Usage(model="claude-haiku-5-5", input=100_000), 10_000),
        (Usage(model="claude-haiku-5-5", input=1, cache_read=100_000), 5_001),
        (Usage(model="claude-haiku-5-5", input=400_000, output=100_000), 450_000),
        (Usage(model="claude-opus-5", input=100_000), 500_000),
        (Usage(model="claude-sonnet-4-5-20250929", input=100_000), 300_000),
        (Usage(model="us.anthropic.claude-opus-4-6-v1", output=100_000), 2_500_000),
        (Usage(model="Claude-Sonnet-5-5", input=100_000), 200_000),
    ],
)
def test_the_table_agrees_with_the_cli(usage: Usage, micro_usd: int) -> None:
    assert priced(usage) == micro_usd


def test_one_token_is_never_free() -> None:
    assert priced(Usage(model="claude-haiku-5-5", cache_read=1)) == 1


@given(ROW, USAGE, st.integers(0, 10**9))
def test_a_call_costs_the_exact_sum_rounded_up(row: PriceRow, usage: Usage, hour: int) -> None:
    hour = min(hour, usage.cache_write)
    usage = Usage(
        **{name: getattr(usage, name) for name in Usage.__slots__ if name != "cache_write_1h"}, cache_write_1h=hour
    )
    exact = Fraction(
        row.input * usage.input
        + row.output * usage.output
        + row.cache_read * usage.cache_read
        + row.cache_write * (usage.cache_write - hour)
        + row.cache_write_1h * hour,
        1_000_000,
    )
    assert compute_cost(row, usage) == ceil(exact) + row.web_search * usage.web_search


@given(USAGE)
def test_an_unknown_model_costs_at_least_as_much_as_any_other(usage: Usage) -> None:
    rows = build_listed_rows()
    dearest = compute_cost(build_fallback_row(rows), usage)
    assert all(compute_cost(row, usage) <= dearest for row in rows)
    assert find_row(rows, usage, build_fallback_row(rows)).model == "fallback"


def test_configured_prices_win_and_the_more_exact_name_comes_first() -> None:
    rows = compile_prices({"claude-*": Price(input=1, output=2), "claude-opus-*": Price(input=3, output=4)})
    assert priced(Usage(model="claude-opus-5-5", input=1_000_000), rows) == 3_000_000
    assert priced(Usage(model="claude-haiku-5-5", input=1_000_000), rows) == 1_000_000
    assert priced(Usage(model="gpt-5-mini", input=1_000_000), rows) == 250_000


def test_missing_cache_prices_default_to_the_input_price() -> None:
    row = compile_prices({"m": Price(input=3, output=4, cache_write=5)})[0]
    assert (row.cache_read, row.cache_write, row.cache_write_1h) == (3_000_000, 5_000_000, 5_000_000)


def test_observed_factors_correct_the_table_but_not_configured_prices() -> None:
    observed = {"claude-haiku-5-5": Fraction(3, 2), "claude-opus-5-5": Fraction(2), "new-model": Fraction(1, 100)}
    rows = compile_prices({"claude-opus-5-5": Price(input=1, output=1)}, observed)
    assert priced(Usage(model="claude-opus-5-5", input=1_000_000), rows) == 1_000_000
    assert priced(Usage(model="claude-haiku-5-5", input=100_000), rows) == 15_000
    assert priced(Usage(model="claude-haiku-5-5", input=400_000), rows) == 300_000
    assert priced(Usage(model="claude-sonnet-5-5", input=1_000_000), rows) == 2_000_000
    assert (
        priced(Usage(model="new-model", input=1_000_000), rows) == build_fallback_row(build_listed_rows()).input // 100
    )


def test_no_row_of_the_table_is_hidden_by_one_above_it() -> None:
    rows = build_listed_rows()
    for at, row in enumerate(rows):
        example = Usage(model=row.model.replace("*", "-"), input=row.above + 1 if row.above else 0)
        assert find_row(rows, example, build_fallback_row(rows)) in (row, *rows[at:])


@given(ROW)
def test_a_row_survives_json(row: PriceRow) -> None:
    assert parse_row(asdict(row)) == row


@pytest.mark.parametrize("wrong", [{"input": "4"}, {"output": -1}, {"cache_read": 0.5}, {"cache_write": True}])
def test_an_invalid_row_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="whole numbers"):
        parse_row(asdict(build_listed_rows()[0]) | wrong)
