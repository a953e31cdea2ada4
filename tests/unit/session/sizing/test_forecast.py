from __future__ import annotations

from collections.abc import Mapping

import pytest

from blueflame.model.memory import Origin, RoleSpend, SessionSummary
from blueflame.model.settings import Settings
from blueflame.model.sizing import Tier
from blueflame.session.from_settings import build_session_limits, build_workflow
from blueflame.session.sizing.choose import find_tier_workflow
from blueflame.session.sizing.forecast import TierPlan, forecast_tiers, is_one_agent_cheaper, learn_times

SETTINGS = Settings.model_validate({"project": {"name": "p"}})


def list_plans() -> Mapping[Tier, TierPlan]:
    names = {tier: find_tier_workflow(SETTINGS, tier) for tier in Tier}
    return {
        tier: TierPlan(build_workflow(SETTINGS, name), build_session_limits(SETTINGS, name))
        for tier, name in names.items()
    }


def test_each_tier_is_forecast_with_its_workflow() -> None:
    found = forecast_tiers(1, list_plans(), {})
    assert [(each.tier, each.workflow) for each in found] == [(1, "direct"), (2, "single"), (3, "waves")]
    assert all(0 < each.low <= each.high and 0 < each.seconds_low <= each.seconds_high for each in found)
    assert all(each.attempts == 0 for each in found)


@pytest.mark.parametrize(("parts", "cheaper"), [(1, True), (4, False)])
def test_one_agent_is_cheaper_for_one_piece_of_work_and_slower_for_many(parts: int, cheaper: bool) -> None:
    assert is_one_agent_cheaper(forecast_tiers(parts, list_plans(), {})) is cheaper


def test_without_both_tiers_nothing_is_said() -> None:
    plans = dict(list_plans())
    del plans[Tier.SINGLE]
    assert not is_one_agent_cheaper(forecast_tiers(1, plans, {}))


def test_times_are_learned_from_three_attempts_on_without_the_extremes() -> None:
    def remember(*seconds: float) -> SessionSummary:
        spent = (RoleSpend(role="worker", attempts=(1,) * len(seconds), seconds=seconds),)
        return SessionSummary(key="session:s", origin=Origin(session="s"), request="r", spent=spent)

    assert learn_times([remember(60, 90)]) == {}
    times = learn_times([remember(60, 70, 80, 90, 9000)])
    assert times["worker"] == (70, 90, 5)
    single = forecast_tiers(2, list_plans(), times)[1]
    assert (single.seconds_low, single.seconds_high, single.attempts) == (140, 180, 5)


def test_a_record_from_before_times_were_kept_teaches_none() -> None:
    old = SessionSummary(
        key="s", origin=Origin(session="s"), request="r", spent=(RoleSpend(role="worker", attempts=(1, 2, 3)),)
    )
    assert learn_times([old]) == {}
