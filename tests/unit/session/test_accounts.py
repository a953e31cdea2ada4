from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.spend import NO_SPEND, Spend
from blueflame.session.accounts import GROUPINGS, CostEntry, split_by_model, sum_costs_by, sum_spend

COUNT = st.integers(0, 10**7)
SPEND = st.builds(
    Spend,
    micro_usd=COUNT,
    input_tokens=COUNT,
    output_tokens=COUNT,
    cache_read_tokens=COUNT,
    cache_write_tokens=COUNT,
)
MODELS = st.dictionaries(st.sampled_from(["opus", "haiku", "gpt"]), SPEND, max_size=3)


def entry(n: int, **changes: object) -> CostEntry:
    spend = Spend(micro_usd=100 * n, input_tokens=n)
    base: dict[str, object] = {
        "session": "s1",
        "attempt": f"a{n}",
        "agent": f"worker-{n}",
        "role": "worker",
        "subject": "task-001",
        "n": n,
        "day": "2026-11-16",
        "ending": "passed",
        "spend": spend,
        "by_model": {"opus": spend},
    }
    return CostEntry(**(base | changes))  # type: ignore[arg-type]


ENTRIES = (
    entry(1, role="planner", subject="plan"),
    entry(2),
    entry(3, ending="", day="2026-11-17"),
    entry(4, by_model={"opus": Spend(micro_usd=300, input_tokens=1), "haiku": Spend(micro_usd=100, input_tokens=3)}),
)


@pytest.mark.parametrize("by", GROUPINGS)
def test_totals_add_up_to_everything(by: str) -> None:
    found = sum_costs_by(ENTRIES, by)
    assert sum((total.spend for total in found), NO_SPEND) == sum_spend(ENTRIES)


def test_an_attempt_goes_to_the_account_of_what_is_asked_by() -> None:
    assert [(t.name, t.attempts, t.live) for t in sum_costs_by(ENTRIES, "role")] == [
        ("planner", 1, 0),
        ("worker", 3, 1),
    ]
    assert [(t.name, t.spend.micro_usd) for t in sum_costs_by(ENTRIES, "model")] == [("opus", 900), ("haiku", 100)]
    assert [t.name for t in sum_costs_by(ENTRIES, "day")] == ["2026-11-16", "2026-11-17"]


@given(MODELS, COUNT)
def test_money_that_was_corrected_is_shared_out_without_loss(by_model: dict[str, Spend], micro_usd: int) -> None:
    tokens = sum(by_model.values(), NO_SPEND)
    spend = Spend(
        micro_usd=micro_usd,
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cache_read_tokens=tokens.cache_read_tokens,
        cache_write_tokens=tokens.cache_write_tokens,
    )
    shares = split_by_model(by_model, spend, "sonnet")
    assert sum(shares.values(), NO_SPEND) == spend
    assert all(share.micro_usd >= 0 for share in shares.values())


def test_what_no_meter_saw_goes_to_the_model_that_was_asked_for() -> None:
    spend = Spend(micro_usd=5, input_tokens=1)
    assert split_by_model({}, spend, "sonnet") == {"sonnet": spend}
    assert split_by_model({}, spend, "") == {"not known": spend}
    assert split_by_model({"opus": Spend(input_tokens=9)}, spend, "sonnet") == {"sonnet": spend}
    assert split_by_model({}, NO_SPEND, "sonnet") == {}
