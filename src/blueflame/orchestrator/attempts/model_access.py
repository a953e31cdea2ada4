"""An agent's access to its model: the provider, the credential, the prices and the budgets."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import asdict, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from blueflame.agents.runtime import AgentLaunch
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt
from blueflame.model.errors import WorldError
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.monitors.accounts import find_account, find_shared_wait
from blueflame.sandbox.bwrap import LOOPBACK_PORTS

GATEWAY_PORT = LOOPBACK_PORTS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAccess:
    """`orders` go into launch.json, `secrets` only through a pipe to the warden."""

    port: int
    orders: Mapping[str, Any]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def find_gateway_port(context: SessionContext) -> int:
    """Fixed in a sandbox with its own network; else a free port of the machine."""
    if context.settings.sandbox.level != "off" and not context.settings.sandbox.allow_network:
        return GATEWAY_PORT
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    except OSError as e:
        fix = "end programs that hold many connections, or widen net.ipv4.ip_local_port_range"
        raise WorldError(f"there is no free port on 127.0.0.1 for the agent's gateway: {e.strerror}; {fix}") from e


def build_model_access(
    context: SessionContext,
    attempt: Attempt,
    launch: AgentLaunch,
    *,
    port: int,
    token: str,
    places: Mapping[str, str],
    web_search: bool,
    model: str,
    silence: float,
) -> ModelAccess:
    """Raise Refused when no credential is found."""
    from blueflame.billing.prices import build_fallback_row, compile_prices
    from blueflame.telemetry.observed_prices import read_observed_prices

    limits = context.settings.limits
    accesses = {api: find_account(context, attempt.runtime, api) for api in launch.apis}
    prices = compile_prices(context.settings.prices, read_observed_prices(context.paths.state))
    orders = {
        "runtime": attempt.runtime,
        "token": token,
        "apis": {api: access.build_launch_entry(api) for api, access in accesses.items()},
        "budgets": _list_budgets(attempt),
        "warn": limits.warn_threshold,
        "prices": [asdict(row) for row in prices],
        "fallback": asdict(build_fallback_row(prices)),
        "rate_limit_wait": limits.rate_limit_wait,
        "outage_wait": limits.outage_wait,
        "silence": silence,
        "shared": str(find_shared_wait(context, attempt.runtime)),
        "record": str(context.cassette.record or ""),
        "replay": str(context.cassette.replay or ""),
        "key": f"{attempt.role}/{attempt.subject}/{attempt.n}",
        "places": dict(places),
        "web_search": web_search,
        "models": _list_models(model, launch),
        "features": list(context.settings.sandbox.model_features),
    }
    secrets = {api: access.value for api, access in accesses.items() if access.value}
    return ModelAccess(port=port, orders=orders, secrets=secrets)


def _list_models(model: str, launch: AgentLaunch) -> list[str]:
    """The role's model, and those that a person chose by a flag or by ANTHROPIC_SMALL_FAST_MODEL and the like."""
    chosen = [value for name, value in sorted(launch.env.items()) if name.endswith("_MODEL")]
    chosen += [word for flag, word in pairwise(launch.argv) if flag == "--fallback-model"]
    return [name for name in dict.fromkeys((model, *chosen)) if name]


def _list_budgets(attempt: Attempt) -> list[dict[str, Any]]:
    given = [("attempt", attempt.budget), *((each.name, each.budget) for each in attempt.ceilings)]
    return [
        {"name": name, "unit": budget.unit.value, "limit": budget.limit}
        for name, budget in given
        if not budget.unlimited
    ]


def write_home(home: Path, files: Mapping[str, str]) -> None:
    """Write the files that the agent's program expects in its HOME, before the agent starts."""
    for name, text in files.items():
        path = home / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as e:
            raise WorldError(f"cannot write {path} for the agent: {e.strerror}") from e
