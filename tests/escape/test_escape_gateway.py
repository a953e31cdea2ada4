"""What an agent asks of its model: the gateway, run as root and as an ordinary user, lets none of it through."""

from __future__ import annotations

import os
from itertools import cycle
from pathlib import Path

import pytest

from escape.attack import Attack, Call, Spree
from escape.spending import Market, open_market
from escape.table import behind
from support.model_gateways import TOKEN
from support.small_sandbox import find_user, list_users, make_shared_folder

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="it reads /proc")
CALLS = [row for row in behind("gateway") if isinstance(row.deed, Call)]
SPREES = [row for row in behind("gateway") if isinstance(row.deed, Spree)]


def test_each_row_is_tried() -> None:
    assert len(CALLS) + len(SPREES) == len(behind("gateway"))


@pytest.mark.parametrize("who", list_users())
def test_the_provider_does_nothing_else_for_an_agent(who: str) -> None:
    """One gateway for all calls: none of them costs anything."""
    with make_shared_folder() as folder, open_market(folder, find_user(who)) as market:
        assert {attack.id: fault for attack in CALLS if (fault := find_fault(market, attack))} == {}


def find_fault(market: Market, attack: Attack) -> str:
    deed, before = attack.deed, len(market.provider.asked)
    assert isinstance(deed, Call)
    answer = market.gateway.send_call(
        deed.target, deed.body, **{"x-api-key": TOKEN, "x-play": "small", **dict(deed.headers)}
    )
    received = market.provider.asked[before:]
    if not deed.leak:
        return "the provider got it" if received else "" if 400 <= answer.status < 500 else f"got {answer.status}"
    (asked,) = received
    return "it leaks" if deed.leak in f"{asked.path} {asked.headers} {asked.body!r}" else ""


@pytest.mark.parametrize(
    ("attack", "who"),
    list(zip(SPREES, cycle(list_users()))),  # each by one of them: what is counted does not depend on who counts
    ids=lambda given: given if isinstance(given, str) else given.id,
)
def test_no_agent_spends_more_than_is_counted(attack: Attack, who: str) -> None:
    assert isinstance(attack.deed, Spree)
    with make_shared_folder() as folder, open_market(Path(folder), find_user(who)) as market:
        attack.deed.act(market)
    assert market.problems == []
