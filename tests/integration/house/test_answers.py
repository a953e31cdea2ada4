"""Commands that people give to the house, passed on to the session of a repository."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from blueflame.config.house import load_house
from blueflame.house.core import HouseCore
from blueflame.house.loop import HouseLoop
from blueflame.journal.house import HouseJournal
from blueflame.journal.journal import Journal
from blueflame.model.event import OrchestratorStopped
from blueflame.model.house.arrival import IncomingCommand, Sender, Trust
from blueflame.model.house.event import RequestQueued, RequestReceived, RequestState, SessionFound, StartIntended
from blueflame.model.settings.house import HouseSettings
from blueflame.orchestrator.project import open_project
from blueflame.system import flock
from support.house_requests import build_request, hand_in_order
from support.houses import OPENED, OWNER, HouseStage, make_served_repository


def test_a_session_that_was_resumed_can_be_stopped_by_the_same_person_again(tmp_path: Path) -> None:
    state = open_project(make_served_repository(tmp_path / "shop") / "blueflame.yaml").state
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()

    def take(house: HouseJournal, *keys: str) -> list[str]:
        """Hand in a stop for each key; return the keys of all that the session was sent, after a restart too."""
        orders = [
            IncomingCommand(source="telegram", key=key, sender=OWNER, at=1.0, verb="stop", subject="shop")
            for key in keys
        ]
        house.receive("telegram", orders)
        loaded = load_house(stage.paths.config)
        for _start in range(2):
            loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, house, environ={}, login="alice", wake=wake))
            asyncio.run(loop.step())
        return [str(message.body["key"]) for message in journal.list_waiting("ses-1")]

    with HouseJournal.open(stage.paths.journal) as house, Journal.open(state.journal) as journal:
        journal.append("ses-1", 0, [OPENED], 1.0)
        with flock.hold_lock(state.lock, flock.format_lock_note("ses-1")):
            assert take(house, "1") == ["stop:telegram:1"]
            assert take(house, "1", "2") == ["stop:telegram:1", "stop:telegram:2"]


def test_a_session_is_stopped_without_its_configuration_and_not_in_a_repository_that_is_gone(tmp_path: Path) -> None:
    shop = make_served_repository(tmp_path / "shop")
    state = open_project(shop / "blueflame.yaml").state
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    loaded = load_house(stage.paths.config)

    with HouseJournal.open(stage.paths.journal) as house, Journal.open(state.journal) as journal:
        journal.append("ses-1", 0, [OPENED], 1.0)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, house, environ={}, login="alice", wake=wake))

        def stop(key: str) -> str:
            order = IncomingCommand(source="telegram", key=key, sender=OWNER, at=1.0, verb="stop", subject="shop")
            house.receive("telegram", [order])
            asyncio.run(loop.step())
            fate = house.find_fate("telegram", key)
            assert fate is not None
            return fate.reply

        with flock.hold_lock(state.lock, flock.format_lock_note("ses-1")):
            asyncio.run(loop.step())
            (shop / "blueflame.yaml").unlink()
            assert "ses-1 is stopping" in stop("1")
            assert len(journal.list_waiting("ses-1")) == 1
        journal.close()
        shop.rename(tmp_path / "moved")
        asyncio.run(loop.step())
        assert "correct its path in house.yaml" in stop("2")


@pytest.mark.parametrize(
    ("asked_by", "reply"),
    [
        ("telegram:7", "req-1 is cancelled"),
        ("github:bob-gh", "req-1 is cancelled"),  # the same person, from elsewhere
        ("telegram:9", "only an owner or the person who asked for it may cancel req-1"),
        ("github:bob", "only an owner or the person who asked for it may cancel req-1"),  # another of that name
    ],
)
def test_a_member_may_cancel_what_they_asked_for_and_nothing_else(tmp_path: Path, asked_by: str, reply: str) -> None:
    people = {"bob": {"telegram": 7, "github": "bob-gh"}, "carl": {"telegram": 9, "github": "bob"}}
    settings = HouseSettings.model_validate({"people": people, "repositories": {"shop": {"path": "/shop"}}})
    bob = Sender(name="bob", trust=Trust.MEMBER, address="telegram:7")
    order = IncomingCommand(source="telegram", key="1", sender=bob, at=1.0, verb="cancel", subject="req-1")
    assert hand_in_order(tmp_path, settings, order, asked_by=asked_by) == reply


@pytest.mark.parametrize(
    ("order", "stopped_at", "reply", "state"),
    [
        (None, 2.0, "", RequestState.STOPPED),
        ("shop", 2.0, "ses-1 goes on", RequestState.RUNNING),
        ("shop", 9e9, "ses-1 goes on", RequestState.RUNNING),  # the clock was set back since
        ("blog", 2.0, "no session is stopped in blog: nothing to resume", RequestState.STOPPED),
    ],
)
def test_a_session_that_a_person_stopped_is_resumed_on_order_only(
    tmp_path: Path, order: str | None, stopped_at: float, reply: str, state: RequestState
) -> None:
    config = make_served_repository(tmp_path / "shop") / "blueflame.yaml"
    with Journal.open(open_project(config).state.journal) as journal:
        journal.append("ses-1", 0, [OPENED, OrchestratorStopped(reason="stopped by anna")], stopped_at)
    config.write_text("{")  # no process is started
    stage = HouseStage(tmp_path, ("shop",))
    stage.write()
    loaded = load_house(stage.paths.config)
    received = RequestReceived(request=build_request(), repository="shop")
    with HouseJournal.open(stage.paths.journal) as house:
        begun = (received, RequestQueued(), StartIntended(), SessionFound(session="ses-1"))
        house.append([("req-1", each) for each in begun], 1.0)
        loop = HouseLoop(lambda wake: HouseCore(loaded, stage.paths, house, environ={}, login="alice", wake=wake))
        asyncio.run(loop.step())
        if order is not None:
            about = {"source": "telegram", "key": "1", "sender": OWNER, "at": 3.0}
            house.receive("telegram", [IncomingCommand(**about, verb="resume", subject=order)])  # type: ignore[arg-type]
            asyncio.run(loop.step())
        asyncio.run(loop.step())
        fate = house.find_fate("telegram", "1")
        assert (fate.reply if fate else "", loop.core.state.requests["req-1"].state) == (reply, state)
