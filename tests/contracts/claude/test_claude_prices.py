"""The prices it uses: our table has the same, and a version with other prices fails here."""

from __future__ import annotations

from fractions import Fraction

import pytest

from blueflame.billing.prices import build_fallback_row, build_listed_rows, compute_cost, find_row
from blueflame.billing.usage import Usage
from support.claude_cli import SEALED, ClaudeRunner

USED = {
    "input": 12_345,
    "output": 678,
    "cache_read": 90_123,
    "cache_write": 4_567,
    "cache_write_1h": 1_234,
    "web_search": 3,
}
LITTLE = {"input": 5_000, "output": 321, "cache_read": 7_000, "cache_write": 900, "cache_write_1h": 0, "web_search": 0}
FLAGS = ("--output-format", "json", *SEALED, "--tools", "", "--no-session-persistence")


@pytest.mark.parametrize("alias", ["opus", "sonnet", "haiku"])
@pytest.mark.parametrize("used", [USED, LITTLE], ids=["much", "little"])
def test_our_prices_are_its_own(claude: ClaudeRunner, alias: str, used: dict[str, int]) -> None:
    ran = claude.run({"text": "done", "usage": used}, flags=[*FLAGS, "--model", alias])
    ((model, reported),) = ran.result["modelUsage"].items()
    usage = Usage(
        model=model,
        input=used["input"],
        output=used["output"],
        cache_read=used["cache_read"],
        cache_write=used["cache_write"],
        cache_write_1h=used["cache_write_1h"],
        web_search=used["web_search"],
    )
    row = find_row(build_listed_rows(), usage, build_fallback_row(build_listed_rows()))
    assert row.model != "fallback"
    assert reported["costUSD"] == ran.result["total_cost_usd"]
    assert -0.001 < compute_cost(row, usage) - Fraction(reported["costUSD"]) * 1_000_000 < 1.001  # ours is rounded up
