"""The size of a request: its tier and why, and what each tier would cost."""

from __future__ import annotations

from typing import Any

from blueflame.model.sizing import ChosenBy, TierForecast, Triage
from blueflame.text.format import format_dollar_range
from blueflame.views.parts import NamedValue, pick

CHOSEN = {
    ChosenBy.CODE: "",
    ChosenBy.AGENT: "an agent sized it",
    ChosenBy.HISTORY: "by earlier requests",
    ChosenBy.UNSURE: "its size is not clear, so it is planned",
    ChosenBy.PERSON: "you chose it",
    ChosenBy.SETTINGS: "set in the configuration",
}


def list_triage_facts(triage: Triage) -> tuple[NamedValue, ...]:
    """A few lines for people, before anything is started."""
    forecasts = "\n".join(map(describe_forecast, triage.forecasts))
    return (
        NamedValue("Size", describe_choice(triage), note=_describe_sizing(triage)),
        NamedValue("Forecast", forecasts, note=_describe_basis(triage)),
    )


def describe_choice(triage: Triage) -> str:
    by = f"not clear: {triage.asks} is asked" if triage.asks else CHOSEN[triage.chosen_by]
    return f"tier {triage.tier.value}, workflow {triage.workflow}" + (f" ({by})" if by else "")


def _describe_sizing(triage: Triage) -> str:
    sizing = triage.sizing
    reasons = "; ".join(sizing.reasons)
    other = sizing.is_clear and sizing.tier is not triage.tier
    return f"it looks like tier {sizing.tier.value}: {reasons}" if other else reasons


def describe_forecast(forecast: TierForecast) -> str:
    low, high = (max(1, round(seconds / 60)) for seconds in (forecast.seconds_low, forecast.seconds_high))
    cost = format_dollar_range(forecast.low, forecast.high)
    return f"tier {forecast.tier.value} ({forecast.workflow}): {cost}, {low} - {high} min"


def _describe_basis(triage: Triage) -> str:
    attempts = max((each.attempts for each in triage.forecasts), default=0)
    basis = f"learned from {attempts} attempts" if attempts else "by reference figures; nothing is learned yet"
    return f"one agent is cheaper here, and not slower; {basis}" if triage.is_one_agent_cheaper else basis


def build_triage_json(triage: Triage | None) -> dict[str, Any] | None:
    if triage is None:
        return None
    sizing = triage.sizing
    return {
        **pick(triage, "tier workflow chosen_by asks"),
        "sized": {
            "tier": sizing.tier.value,
            "clear": sizing.is_clear,
            **pick(sizing, "confidence reasons parts"),
        },
        "forecast": [_build_forecast_json(each) for each in triage.forecasts],
        "one_agent_is_cheaper": triage.is_one_agent_cheaper,
    }


def _build_forecast_json(forecast: TierForecast) -> dict[str, Any]:
    return {
        "tier": forecast.tier.value,
        "workflow": forecast.workflow,
        "cost_usd": {"base": forecast.low / 1e6, "with_retries": forecast.high / 1e6},
        "seconds": {"low": forecast.seconds_low, "high": forecast.seconds_high},
        "attempts": forecast.attempts,
    }
