"""Requests and events of a house, for tests of its decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from blueflame.config.house import LoadedHouse
from blueflame.dispatch.people import find_sender
from blueflame.house.answers import Answers
from blueflame.house.core import HouseCore
from blueflame.journal.house import HouseJournal
from blueflame.model.house.arrival import Arrival, IncomingRequest, Sender, Trust
from blueflame.model.house.event import HouseEntry, HouseEvent, RequestQueued, RequestReceived
from blueflame.model.settings.house import HouseSettings
from blueflame.system.layout import HousePaths

ALICE = Sender(name="alice", trust=Trust.OWNER, address="terminal:alice")
BOB = Sender(name="bob", trust=Trust.MEMBER, address="telegram:7")
NEWS = Sender(name="tech-news", trust=Trust.FEED, address="feed:tech-news")


def build_request(text: str = "do it", **fields: Any) -> IncomingRequest:  # noqa: ANN401 (of the request)
    request = IncomingRequest(source="terminal", key=text, sender=ALICE, at=0.0, text=text, repository="shop")
    return replace(request, **fields)


def build_settings(*repositories: str, **limits: int) -> HouseSettings:
    return HouseSettings.model_validate(
        {"repositories": {name: {"path": f"/{name}"} for name in repositories}, "limits": limits}
    )


def build_entries(stream: str, *events: HouseEvent, at: float = 0.0) -> list[HouseEntry]:
    return [HouseEntry(n=n, stream=stream, at=at, event=event) for n, event in enumerate(events, 1)]


def hand_in_order(folder: Path, settings: HouseSettings, order: Arrival, *, asked_by: str) -> str:
    """Give a house with the queued request `req-1` of a person an order; return the reply."""
    sender, paths = find_sender(settings.people, asked_by), HousePaths(folder)
    assert sender is not None
    with HouseJournal.open(paths.journal) as journal:
        loaded = LoadedHouse(settings=settings, path=paths.config)
        core = HouseCore(loaded, paths, journal, environ={}, login="root", wake=lambda: None)
        core.record("req-1", RequestReceived(request=build_request(sender=sender), repository="shop"), RequestQueued())
        journal.receive(order.source, [order])
        (waiting,) = journal.list_waiting()
        Answers(core).take(waiting)
        fate = journal.find_fate(order.source, order.key)
        assert fate is not None
        assert fate.accepted == ("req-1" not in core.state.requests)
        return fate.reply
