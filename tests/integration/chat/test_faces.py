"""The faces of a house besides the bot: answers at deadlines, and notifications about all repositories."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.chat.faces import FaceParts, build_faces
from blueflame.config.house import load_house
from blueflame.dispatch.people import DEADLINE, AskRules
from blueflame.house.core import HouseCore
from blueflame.house.deadlines import DeadlineFace
from blueflame.house.desk import HouseFace
from blueflame.house.notifications import NotificationFace, is_urgent
from blueflame.model.errors import ConfigError
from blueflame.model.event import BudgetWarned, GateAnswered
from blueflame.model.gate import FORMS, Answer, Gate, GateKind
from blueflame.model.house.event import OpenGate
from blueflame.model.settings.house import HouseSettings
from blueflame.system.clock import SystemClock
from blueflame.system.layout import HousePaths
from blueflame.testing.bot_api import BotApi
from blueflame.text.notifications import Notification
from support.recorded_session import ID
from support.telegram_chats import ChatHouse, play

COLLECT = """#!/bin/sh
cat >> "$BLUEFLAME_ROOT/sent"
"""


async def run_beside(face: HouseFace, house: ChatHouse, story: asyncio.Task[None]) -> None:
    task = asyncio.create_task(face.run(house.desk))
    try:
        await story
        assert not task.done(), "it ended by itself"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_a_gate_is_answered_once_at_its_deadline(house: ChatHouse) -> None:
    house.story.reviewing()
    house.show_gates()
    rules = AskRules(people=house.settings.people, asks={})

    async def wait_for_it() -> None:
        await house.until(lambda: house.clock.next_deadline is not None)
        assert house.answers == []
        house.clock.advance(24 * 3600)
        await house.until(lambda: house.answers)
        house.desk.announce()
        house.clock.advance(3600)
        await asyncio.sleep(0.02)

    async def story() -> None:
        await run_beside(DeadlineFace(rules, house.clock), house, asyncio.create_task(wait_for_it()))

    play(story())

    (answer,) = house.answers
    assert (answer.gate, answer.choice, answer.sender) == ("changeset-cs-1-auth", "skip", DEADLINE)


def test_a_gate_without_a_harmless_answer_waits(house: ChatHouse) -> None:
    house.story.planned()
    house.show_gates()
    rules = AskRules(people=house.settings.people, asks={})

    async def wait_for_it() -> None:
        for _ in range(5):
            house.clock.advance(48 * 3600)
            await asyncio.sleep(0.005)

    async def story() -> None:
        await run_beside(DeadlineFace(rules, house.clock), house, asyncio.create_task(wait_for_it()))

    play(story())

    assert house.answers == []


def read_sent(folder: Path) -> list[dict[str, str]]:
    path = folder / "sent"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def build_notifications(house: ChatHouse, **settings: object) -> NotificationFace:
    program = house.folder / "collect"
    program.write_text(COLLECT)
    program.chmod(0o755)
    on = ["gate", "budget"]
    desk = {"kind": "command", "command": [str(program)], "on": on, "delay": "0s", "throttle": "0s"}
    found = HouseSettings.model_validate({"notifications": {"desk": desk}, **settings})
    return NotificationFace(settings=found, configs={"shop": house.config}, root=house.folder, environ={})


def build_request_gate() -> OpenGate:
    form = FORMS[GateKind.PLAN]
    gate = Gate(
        id="request-req-1",
        kind=GateKind.PLAN,
        subject="req-1",
        title="carl asks for work in shop: start it?",
        options=form.options,
        default=form.safe,
    )
    return OpenGate(repository="", session="", request="req-1", gate=gate, opened_at=SystemClock().now())


def test_each_fact_of_a_session_and_of_the_house_is_sent_once_also_after_a_restart(house: ChatHouse) -> None:
    house.story.recorded[0] = replace(house.story.recorded[0], at=SystemClock().now() + 1)
    house.story.planned()

    async def first() -> None:
        house.show_gates()
        await house.until(lambda: len(read_sent(house.folder)) == 1)
        silent = build_request_gate()  # of an item of a feed without a keyword
        silent = replace(silent, gate=replace(silent.gate, id="request-req-2", evidence={"source": "feeds"}))
        house.show_gates(silent, build_request_gate())  # at the same time they would be one message
        await house.until(lambda: len(read_sent(house.folder)) == 2)

    async def second() -> None:
        answered = GateAnswered(gate="plan", answer=Answer(choice="approve", by="anna"))
        house.story.tell(answered, BudgetWarned(budget="session", used=9, limit=10))
        house.show_gates(build_request_gate())
        await house.until(lambda: len(read_sent(house.folder)) == 3)

    async def story() -> None:
        await run_beside(build_notifications(house), house, asyncio.create_task(first()))
        await run_beside(build_notifications(house), house, asyncio.create_task(second()))

    play(story())

    plan, request, budget = sorted(read_sent(house.folder), key=lambda each: (each["topic"] == "budget", each["words"]))
    assert (plan["words"], plan["session"]) == ("Approve the plan of 3 tasks?", ID)
    assert (request["words"], request["answer"]) == (
        "carl asks for work in shop: start it?",
        "blueflame requests start req-1",
    )
    assert budget["words"] == "90% of the session's budget is used"


def test_money_and_safety_are_urgent() -> None:
    urgent = [
        Notification(topic="budget", words=""),
        Notification(topic="gate", words="", gate="budget-session"),
        Notification(topic="gate", words="", gate="base-main"),
    ]
    others = [Notification(topic="gate", words="", gate="plan"), Notification(topic="ended", words="")]

    assert [is_urgent(each) for each in (*urgent, *others)] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("text", "key", "names"),
    [
        ("telegram: {}\n", "telegram.token_from: the environment variable TELEGRAM_BOT_TOKEN", ["telegram"]),
        ("telegram: {token_from: MY_BOT}\n", "telegram.token_from: the environment variable MY_BOT", ["telegram"]),
        (
            "notifications: {phone: {kind: apprise, url_from: MY_BOT}}\n",
            "notifications.phone.url_from: the environment variable MY_BOT",
            ["notifications"],
        ),
    ],
)
def test_a_secret_that_is_not_set_is_a_configuration_error(
    house: ChatHouse, api: BotApi, text: str, key: str, names: list[str]
) -> None:
    paths = HousePaths(house.folder / "house")
    paths.root.mkdir()
    paths.config.write_text(text)
    loaded = load_house(paths.config)
    core = HouseCore(loaded, paths, house.journal, environ={}, login="anna", wake=lambda: None)
    parts = FaceParts(core, loaded, {"TELEGRAM_BOT_TOKEN": api.token, "MY_BOT": api.token}, lambda _s, _g: "")

    with pytest.raises(ConfigError, match=f"{key} is not set; set it to"):
        build_faces(parts._replace(environ={}))
    assert [face.name for face in build_faces(parts)] == ["deadlines", *names]
