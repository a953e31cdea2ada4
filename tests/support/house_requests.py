"""Requests and events of a house, for tests of its decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from blueflame.model.house.arrival import IncomingRequest, Sender, Trust
from blueflame.model.house.event import HouseEntry, HouseEvent
from blueflame.model.settings.house import HouseSettings

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
