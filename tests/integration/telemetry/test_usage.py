from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from blueflame.billing.prices import build_fallback_row, compile_prices, compute_cost, find_row
from blueflame.billing.usage import Usage
from blueflame.model.spend import Spend
from blueflame.telemetry.observed_prices import read_observed_prices, record_observed_price
from blueflame.telemetry.usage import MeteredUsage, is_credible, read_metered_usage, settle_spend

OPUS = "claude-opus-5-5"


def call(**changes: object) -> dict[str, Any]:
    """As the gateway writes it: 1000 tokens in and 50 out."""
    line = {
        "at": "2026-11-16T04:00:00.000Z",
        "attempt": "a",
        "api": "anthropic",
        "model": OPUS,
        "status": 200,
        "input": 1000,
        "output": 50,
        "cache_read": 0,
        "cache_write": 0,
        "cache_write_1h": 0,
        "web_search": 0,
        "micro_usd": 5000,
        "priced_as": f"*{OPUS}*",
        "complete": True,
        "refused": "",
        "ms": 10,
        "first_byte_ms": 1,
        "tries": 1,
    }
    return line | changes


def metered(folder: Path, *lines: dict[str, Any] | str) -> MeteredUsage:
    folder.mkdir(exist_ok=True)
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (folder / "usage.jsonl").write_text(text)
    return read_metered_usage(folder)


REPORTED = Spend(micro_usd=6000, input_tokens=1000, output_tokens=50)


def test_without_a_book_nothing_was_metered(tmp_path: Path) -> None:
    assert read_metered_usage(tmp_path) == MeteredUsage()


def test_calls_add_up_by_model(tmp_path: Path) -> None:
    found = metered(
        tmp_path,
        call(),
        call(cache_read=7, cache_write=9, cache_write_1h=4, micro_usd=5047),
        call(model="strange", micro_usd=100, priced_as="fallback"),
    )
    assert found.calls == 3
    assert found.by_model[OPUS] == Spend(
        micro_usd=10_047, input_tokens=2000, output_tokens=100, cache_read_tokens=7, cache_write_tokens=9
    )
    assert found.spend == found.by_model[OPUS] + found.by_model["strange"]
    assert found.unpriced == ("strange",)


def test_what_broke_off_was_refused_or_cannot_be_read_is_counted(tmp_path: Path) -> None:
    found = metered(
        tmp_path,
        call(complete=False, output=1),
        call(complete=False, status=529, input=0, output=0, micro_usd=0),
        call(refused="budget", input=0, output=0, micro_usd=0, complete=False, status=403),
        "{oops",
        "[1]",
        call(input=-5),
        call(input=True),
        {"model": OPUS},
    )
    assert (found.calls, found.incomplete, found.refused, found.damaged) == (2, 1, 1, 5)
    assert found.spend.tokens == 1001


def test_a_last_line_that_is_cut_off_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "usage.jsonl").write_text(json.dumps(call()) + "\n" + json.dumps(call())[:40])
    found = read_metered_usage(tmp_path)
    assert (found.calls, found.damaged) == (1, 1)


def test_money_is_what_the_program_reports_when_it_saw_the_same_tokens(tmp_path: Path) -> None:
    assert settle_spend(metered(tmp_path, call()), REPORTED) == REPORTED


@pytest.mark.parametrize(
    ("reported", "lines"),
    [
        pytest.param(None, [call()], id="nothing was reported"),
        pytest.param(replace(REPORTED, output_tokens=51), [call()], id="it saw other tokens"),
        pytest.param(REPORTED, [call(complete=False)], id="we do not know all tokens"),
        pytest.param(REPORTED, [call(), "oops"], id="our book is damaged"),
        pytest.param(replace(REPORTED, micro_usd=5000 * 21), [call()], id="far too much"),
        pytest.param(replace(REPORTED, micro_usd=249), [call()], id="far too little"),
        pytest.param(replace(REPORTED, micro_usd=0), [call()], id="for free"),
    ],
)
def test_else_money_is_what_the_gateway_counted(tmp_path: Path, reported: Spend | None, lines: list[Any]) -> None:
    found = metered(tmp_path, *lines)
    assert settle_spend(found, reported) == found.spend


def test_a_persons_own_price_counts_more_than_what_the_program_reports(tmp_path: Path) -> None:
    found = metered(tmp_path, call(priced_as="claude-*", micro_usd=1))
    assert settle_spend(found, REPORTED, own={"claude-*": 1}).micro_usd == 1


def test_what_was_observed_prices_the_next_attempt_right(tmp_path: Path) -> None:
    record_observed_price(tmp_path, metered(tmp_path / "a", call()), REPORTED)
    observed = read_observed_prices(tmp_path)
    assert observed == {OPUS: Fraction(6, 5)}
    rows = compile_prices({}, observed)
    usage = Usage(model=OPUS, input=1000, output=50)
    assert compute_cost(find_row(rows, usage, build_fallback_row(rows)), usage) == 6000


def test_a_correction_is_measured_against_the_table_not_against_itself(tmp_path: Path) -> None:
    for micro_usd in (5000, 6000, 6000):  # as the gateway meters, before and after the correction
        record_observed_price(tmp_path, metered(tmp_path / "a", call(micro_usd=micro_usd)), REPORTED)
    assert read_observed_prices(tmp_path) == {OPUS: Fraction(6, 5)}


@pytest.mark.parametrize("forged", [5000, 4999, 5500, 2500, 0])
def test_no_later_run_lowers_a_correction(tmp_path: Path, forged: int) -> None:
    record_observed_price(tmp_path, metered(tmp_path / "a", call()), REPORTED)
    record_observed_price(tmp_path, metered(tmp_path / "a", call()), replace(REPORTED, micro_usd=forged))
    assert read_observed_prices(tmp_path) == {OPUS: Fraction(6, 5)}


@pytest.mark.parametrize(
    ("lines", "reported"),
    [
        pytest.param(
            [call(), call(model="other")], replace(REPORTED, input_tokens=2000, output_tokens=100), id="two models"
        ),
        pytest.param([call()], replace(REPORTED, micro_usd=5000 * 21), id="too far off"),
        pytest.param([call()], replace(REPORTED, micro_usd=4900), id="cheaper than the table"),
        pytest.param([call()], replace(REPORTED, input_tokens=9), id="other tokens"),
        pytest.param([call(input=10, output=0)], Spend(micro_usd=400, input_tokens=10), id="too small"),
        pytest.param([call()], None, id="nothing reported"),
    ],
)
def test_nothing_is_learned_from_a_doubtful_run(tmp_path: Path, lines: list[Any], reported: Spend | None) -> None:
    record_observed_price(tmp_path, metered(tmp_path / "a", *lines), reported)
    assert not (tmp_path / "prices.json").exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"models": []}',
        '{"models": {"m": 3}}',
        '{"models": {"m": {"reported": 1, "listed": 0}}}',
        '{"models": {"m": {"reported": 900000, "listed": 1000}}}',
        '{"models": {"m": {"reported": 0, "listed": 1000}}}',
        '{"models": {"m": {"reported": 900, "listed": 1000}}}',
        '{"models": {"m": {"reported": "9", "listed": 1000}}}',
    ],
)
def test_a_damaged_file_corrects_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "prices.json").write_text(content)
    assert read_observed_prices(tmp_path) == {}


@pytest.mark.parametrize(
    ("reported", "ours", "believed"),
    [(99, 100, False), (100, 100, True), (2000, 100, True), (2001, 100, False), (0, 100, False)],
)
def test_a_figure_below_ours_or_far_above_it_is_not_believed(reported: int, ours: int, believed: bool) -> None:
    assert is_credible(reported, ours) is believed
