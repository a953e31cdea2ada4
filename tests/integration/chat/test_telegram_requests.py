"""Requests from a chat: which repository, what the sender reads about them, status messages, quiet hours."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from blueflame.model.event import BudgetWarned, GateOpened, TaskMoved
from blueflame.model.gate import FORMS, Gate, GateKind
from blueflame.model.house.arrival import IncomingCommand, IncomingRequest, Sender, Trust
from blueflame.model.house.event import (
    HOUSE,
    CommandSettled,
    HouseEvent,
    OpenGate,
    Refusal,
    RequestEnded,
    RequestQueued,
    RequestReceived,
    RequestRefused,
    SessionFound,
)
from blueflame.model.task import Cause, HistoryEntry, HistoryResult
from blueflame.testing.bot_api import ApiError, BotApi, ShownMessage
from support.recorded_session import ID
from support.telegram_chats import ANNA, CARL, GROUP, NOON, ChatHouse, play

NIGHT = [{"begin": "11:00", "end": "13:00"}]
TWO = {"shop": {"path": "/x/shop"}, "docs": {"path": "/x/docs"}}
ENDED = RequestEnded(outcome="done", usd=0.4213, seconds=125)


def build_house(house: ChatHouse, api: BotApi, **settings: Any) -> ChatHouse:  # noqa: ANN401 (house.yaml)
    house.journal.close()
    return ChatHouse(house.repo, house.folder, api, **settings)


async def ask(house: ChatHouse, text: str, *then: HouseEvent) -> str:
    """Write a request, and record what becomes of it as the house does; return its id."""
    before = len(house.arrivals)
    await house.until_taken(house.api.write(ANNA, ANNA, text))
    request = house.arrivals[before]
    assert isinstance(request, IncomingRequest)
    name = f"req-{request.key.rpartition(':')[2]}"
    house.record(name, RequestReceived(request=request, repository="shop"), *then)
    return name


@pytest.mark.parametrize(
    ("chat", "text", "repository", "asked"),
    [
        (ANNA, "docs: Explain it", "docs", "Explain it"),
        (ANNA, "Docs : Explain it", "docs", "Explain it"),
        (ANNA, "Explain it in #docs", "docs", "Explain it in #docs"),
        (ANNA, "Explain it", "shop", "Explain it"),
        (ANNA, "Fix the docs", "shop", "Fix the docs"),  # a word is no name where the chat has a repository
        (CARL, "Fix the docs, please", "docs", "Fix the docs, please"),
        (CARL, "Fix it", "", "Fix it"),
        (CARL, "note: this is no name", "", "note: this is no name"),
        (GROUP, "@stand_in_bot Fix it", "docs", "Fix it"),
        (GROUP, "shop: Fix it", "shop", "Fix it"),
        (GROUP, "/run@stand_in_bot Fix it", "docs", "Fix it"),
        (GROUP, "/run\nshop: Fix it", "shop", "Fix it"),
    ],
)
def test_a_message_is_for_the_named_or_the_chats_repository(
    *, house: ChatHouse, api: BotApi, chat: int, text: str, repository: str, asked: str
) -> None:
    chats = {ANNA: {"repository": "shop"}, GROUP: {"repository": "docs"}}
    house = build_house(house, api, repositories=TWO, telegram={"chats": chats})

    async def story() -> None:
        async with house.run():
            await house.until_taken(api.write(chat, chat if chat > 0 else ANNA, text))

    play(story())

    (arrival,) = house.arrivals
    assert isinstance(arrival, IncomingRequest)
    assert (arrival.repository, arrival.text, arrival.key) == (repository, asked, "12345:1000")


def test_the_sender_reads_what_became_of_a_request(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        async with house.run():
            await house.until_started()
            house.waits = {"req-1000": "1 ahead, about 15 min"}
            await ask(house, "Add a page", RequestQueued())
            queued = await house.until_shown(ANNA, "shop: queued as req-1000, 1 ahead, about 15 min.")
            assert queued.reply_to is not None
            refused = RequestRefused(why=Refusal.DUPLICATE, reason="the same request is queued already as req-1000")
            await ask(house, "Add a page", refused)
            await house.until_shown(ANNA, "Not accepted: the same request is queued already as req-1000")
            house.record("req-1000", SessionFound(session=ID), ENDED)
            await house.until_shown(ANNA, "shop: done. Add a page ($0.42, 2 min 05 s, req-1000)")

    play(story())


def test_a_session_has_one_status_message_that_is_changed_seldom(house: ChatHouse, api: BotApi) -> None:
    house = build_house(house, api, telegram={"status_every": 3600})

    async def story() -> ShownMessage:
        async with house.run():
            await house.until_started()
            house.story.working()
            house.write_session()
            await ask(house, "Add a page", RequestQueued(), SessionFound(session=ID))
            status = await house.until_shown(ANNA, "0 of 3 tasks landed")
            edits = status.edits
            for task in ("task-001", "task-003"):
                house.story.ends(task)
                house.write_session()
                house.clock.advance(900)
                house.desk.announce()
                await asyncio.sleep(0.02)
            assert status.edits == edits
            house.clock.advance(1800)
            await house.until(lambda: status.edits == edits + 1)
            return status

    status = play(story())

    assert (status.silent, "$0.84" in status.text) == (True, True)
    assert len([each for each in api.list_shown(ANNA) if ID in each.text]) == 1


def test_a_request_of_a_member_is_asked_about_by_buttons(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        async with house.run():
            await house.until_started()
            await house.until_taken(api.write(CARL, CARL, "Add <b>a page</b>"))
            (request,) = house.arrivals
            assert isinstance(request, IncomingRequest)
            assert request.sender == Sender(name="carl", trust=Trust.MEMBER, address="telegram:33")
            form = FORMS[GateKind.PLAN]
            evidence = {"request": request.text, "address": request.sender.address, "trust": "member"}
            gate = Gate(
                id="request-req-1",
                kind=GateKind.PLAN,
                subject="req-1",
                title="carl asks for work in shop: start it?",
                options=form.options,
                default="quit",
                evidence=evidence,
            )
            house.record("req-1", RequestReceived(request=request, repository="shop"), GateOpened(gate=gate))
            found = OpenGate(repository="", session="", request="req-1", gate=gate, opened_at=NOON)
            house.desk.gates = (found,)
            house.desk.announce()
            await house.until_shown(CARL, "shop: received as req-1. An owner is asked first.")
            asked = await house.until_shown(ANNA, "carl asks for work in shop: start it?")
            assert "Add <b>a page</b>\n\nFrom: telegram:33 (member)" in asked.text
            await house.until_done(api.tap(ANNA, ANNA, asked.find_button("approve"), message=asked.id))

    play(story())

    (answer,) = house.answers
    assert (answer.repository, answer.session, answer.gate) == ("", "", "request-req-1")


def test_commands_reach_the_house_and_their_outcome_the_sender(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        async with house.run():
            await house.until_started()
            for text in ("/stop", "/cancel req-7", "/help", "/stop nowhere", "/cancel", "/resume shop"):
                await house.until_taken(api.write(ANNA, ANNA, text))
            stop, cancel, resume = house.arrivals
            assert isinstance(stop, IncomingCommand)
            assert isinstance(cancel, IncomingCommand)
            assert isinstance(resume, IncomingCommand)
            assert (resume.verb, resume.subject) == ("resume", "shop")
            assert (stop.verb, stop.subject, cancel.verb, cancel.subject) == ("stop", "shop", "cancel", "req-7")
            settled = CommandSettled(
                source="telegram",
                key=stop.key,
                sender=stop.sender,
                verb="stop",
                subject="shop",
                accepted=True,
                reply="ses-1 is stopping",
                reply_to=stop.reply_to,
            )
            house.record(HOUSE, settled)
            await house.until_shown(ANNA, "ses-1 is stopping")
            await house.until_shown(ANNA, "/gates what waits for your answer")
            await house.until_shown(ANNA, "Which one? /stop NAME, with one of shop")
            await house.until_shown(ANNA, "Which one? /cancel ID")

    play(story())


def test_quiet_hours_hold_news_and_gates_back_and_end_with_one_digest(house: ChatHouse, api: BotApi) -> None:
    house = build_house(house, api, quiet_hours=NIGHT)

    async def story() -> None:
        async with house.run():
            await house.until_started()
            house.story.planned()
            house.show_gates()
            first = await ask(house, "Add a page", RequestQueued(), SessionFound(session=ID), ENDED)
            second = await ask(house, "Add two", RequestQueued(), SessionFound(session=ID), ENDED)
            await house.until_shown(ANNA, f"shop: queued as {second}")  # the person is awake: they have just asked
            assert not any("done" in each.text or each.buttons for each in api.list_shown(ANNA))
            house.clock.advance(3600)
            digest = await house.until_shown(ANNA, "While it was quiet:")
            assert digest.text.count("shop: done") == 2
            assert first in digest.text
            asked = await house.until_shown(ANNA, "Approve the plan")
            assert asked.id > digest.id

    play(story())

    assert sum("While it was quiet" in each.text for each in api.messages) == 1


BUDGET_GATE = Gate(
    id="budget-session",
    kind=GateKind.BUDGET,
    subject="session",
    title="The budget is used up.",
    options=FORMS[GateKind.BUDGET].options,
    default="stop",
)


def test_a_gate_that_was_opened_before_quiet_hours_wakes_no_one_in_them(house: ChatHouse, api: BotApi) -> None:
    """The house was started late, or Telegram could not be reached."""
    house = build_house(house, api, quiet_hours=NIGHT)
    house.story.planned()
    house.show_gates()
    house.desk.gates = tuple(replace(each, opened_at=NOON - 2 * 3600) for each in house.desk.gates)

    async def story() -> None:
        async with house.run():
            await house.until_taken(api.write(ANNA, ANNA, "/status"))
            await house.until_shown(ANNA, "The status of the house.")
            assert len(api.messages) == 1
            house.clock.advance(3600)
            await house.until_shown(ANNA, "Approve the plan")

    play(story())


def test_a_gate_about_money_is_asked_in_quiet_hours(house: ChatHouse, api: BotApi) -> None:
    house = build_house(house, api, quiet_hours=NIGHT)

    async def story() -> None:
        async with house.run():
            house.story.working().tell(GateOpened(gate=BUDGET_GATE))
            house.show_gates()
            asked = await house.until_shown(ANNA, "The budget is used up.")
            assert "Without an answer until" in asked.text

    play(story())


def test_a_code_tells_the_numbers_of_its_sender_once(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        async with house.run():
            house.journal.write_notes("telegram", {"pair:k3y-abc": f'{{"until": {NOON + 600}}}'})
            await house.until_taken(api.write(4711, 4711, "k3y-abc"))
            await house.until_shown(4711, "Your number is 4711, this chat's is 4711.")
            await house.until_taken(api.write(4712, 4712, "k3y-abc"))

    play(story())

    assert house.journal.read_notes("telegram")["paired:k3y-abc"] == '{"user": 4711, "chat": 4711}'
    assert api.list_shown(4712) == []


def test_owners_read_of_failed_tasks_and_of_money_even_in_quiet_hours(house: ChatHouse, api: BotApi) -> None:
    house = build_house(house, api, quiet_hours=NIGHT)

    async def story() -> None:
        async with house.run():
            await house.until_started()
            house.story.recorded[0] = replace(house.story.recorded[0], at=NOON + 1)
            house.story.working()
            await ask(house, "Add a page", RequestQueued(), SessionFound(session=ID))
            entry = HistoryEntry(attempt=1, agent_id="w", at=NOON, result=HistoryResult.FAILED, notes="no")
            house.story.tell(TaskMoved(task="task-001", cause=Cause.FAIL, reason="no", history=entry))
            house.story.tell(BudgetWarned(budget="session", used=9, limit=10), GateOpened(gate=BUDGET_GATE))
            house.write_session()
            house.desk.announce()
            text = "shop reaches its budget: 90% of the session's budget is used"
            await house.until_shown(ANNA, text)
            assert not any("has a failed task" in each.text for each in api.messages)
            house.clock.advance(3600)
            await house.until_shown(ANNA, "While it was quiet:\n- shop has a failed task: task-001")

    play(story())

    assert sum("90%" in each.text for each in api.messages) == 1
    assert not any("used up" in each.text for each in api.messages), "the gate asks about it, with its own message"


def test_doctor_tries_the_token_and_the_chats(house: ChatHouse, api: BotApi) -> None:
    house = build_house(house, api, telegram={"chats": {GROUP: {}}})

    assert play(house.build_chat().probe()) == (True, "@stand_in_bot serves anna, ben, carl")
    api.blocked.add(GROUP)
    works, text = play(house.build_chat().probe())
    assert (works, f"chat {GROUP}: " in text) == (False, True)
    api.errors["getMe"] = [ApiError(401, "Unauthorized")]
    assert play(house.build_chat().probe()) == (
        False,
        "Telegram does not know the token of the bot: copy it again from BotFather",
    )
