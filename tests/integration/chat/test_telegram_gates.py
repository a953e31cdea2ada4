"""Gates in a chat: who is asked, what a tap leads to, and what the message shows afterwards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from blueflame.chat.outbox import SENT
from blueflame.model.event import GateAnswered
from blueflame.model.gate import Answer
from blueflame.model.house.arrival import IncomingAnswer, Sender, Trust
from blueflame.model.house.event import HOUSE, AnswerSettled
from blueflame.model.limits import SlotWait
from blueflame.session.gates.questions import open_assignment_gate, open_escalation_gate
from blueflame.testing.bot_api import ApiError, BotApi
from support.recorded_session import ID
from support.telegram_chats import ANNA, BEN, GROUP, PEOPLE, ChatHouse, play


def settle(answer: IncomingAnswer, *, accepted: bool, reply: str) -> AnswerSettled:
    return AnswerSettled(
        source=answer.source,
        key=answer.key,
        sender=answer.sender,
        repository=answer.repository,
        session=answer.session,
        gate=answer.gate,
        choice=answer.choice,
        accepted=accepted,
        reply=reply,
        reply_to=answer.reply_to,
    )


def test_a_tap_becomes_an_answer_with_who_gave_it_and_from_where(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            asked = await house.until_shown(ANNA, "Approve the plan of 3 tasks?")
            assert "Add JWT middleware to API router" in asked.text
            assert [label.partition(":")[0] for label, _ in asked.buttons] == ["approve", "replan", "quit"]
            assert all(len(data.encode()) <= 64 and "plan" not in data for _, data in asked.buttons)
            await house.until_done(api.tap(ANNA, ANNA, asked.find_button("approve"), message=asked.id))
            house.tell(GateAnswered(gate="plan", answer=Answer(choice="approve", by="anna (telegram:11)")))
            await house.until(lambda: not asked.buttons)
            assert asked.text.startswith("Answered: approve, by anna\n\nshop · ses-")

    play(story())

    (answer,) = house.answers
    assert (answer.repository, answer.session, answer.gate, answer.choice) == ("shop", ID, "plan", "approve")
    assert answer.sender == Sender(name="anna", trust=Trust.OWNER, address="telegram:11")
    assert api.toasts[-1][1] == "approve: passed on."


def test_a_person_lets_an_ad_hoc_agent_work_by_a_tap(house: ChatHouse, api: BotApi) -> None:
    wait = SlotWait(
        subject="task-001",
        reason="",
        project="shop",
        ahead=1,
        seconds=900.0,
        occupants=("blog task-003",),
        is_late=True,
    )

    async def story() -> None:
        house.story.planned()
        house.story.tell(GateAnswered(gate="plan", answer=Answer(choice="approve", by="anna")))
        house.tell(open_assignment_gate(house.story.session, "backend", wait))
        async with house.run():
            asked = await house.until_shown(ANNA, "waits for a backend agent: about 15 min, 1 task ahead.")
            assert all(words in asked.text for words in ("task-001", "Project", "shop", "Occupied by", "blog task-003"))
            assert [label for label, _ in asked.buttons] == [
                "wait: keep its place in the queue",
                "spawn: start an ad hoc agent for this task now",
            ]
            await house.until_done(api.tap(ANNA, ANNA, asked.find_button("spawn"), message=asked.id))

    play(story())

    (answer,) = house.answers
    assert (answer.gate, answer.choice) == ("assignment-backend", "spawn")


def test_a_failed_task_is_reassigned_by_a_tap_and_a_reply(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        house.story.approved()
        session = house.story.session
        house.tell(open_escalation_gate(session, session.tasks["task-001"], "its tests fail"))
        async with house.run():
            asked = await house.until_shown(ANNA, "no attempt is left. Who tries it again?")
            assert [label.partition(":")[0] for label, _ in asked.buttons] == ["retry", "reassign", "abort"]
            api.tap(ANNA, ANNA, asked.find_button("reassign"), message=asked.id)
            question = await house.until_shown(ANNA, "role=NAME, model=NAME or runtime=NAME")
            await house.until_taken(api.write(ANNA, ANNA, "model=opus", reply_to=question.id))

    play(story())

    (answer,) = house.answers
    assert (answer.gate, answer.choice, answer.note) == ("escalation-task-001", "reassign", "model=opus")


def test_an_answer_from_another_face_is_shown_and_later_taps_are_answered_with_it(
    house: ChatHouse, api: BotApi
) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            asked = await house.until_shown(ANNA, "Approve the plan")
            data = asked.find_button("approve")
            await house.until(lambda: any(key.startswith(SENT) for key in house.journal.read_notes("telegram")))
            house.tell(GateAnswered(gate="plan", answer=Answer(choice="quit", by="root")))
            await house.until(lambda: not asked.buttons)
            await house.until_done(api.tap(ANNA, ANNA, data, message=asked.id))

    play(story())

    assert house.answers == []
    assert api.toasts[-1][1] == "Answered: quit, by root"


def test_reject_asks_for_the_reason_and_sends_the_diff(house: ChatHouse, api: BotApi, repo: Path) -> None:
    async def story() -> None:
        house.story.reviewing()
        house.show_gates()
        async with house.run():
            asked = await house.until_shown(ANNA, "[auth] Add JWT")
            await house.until(lambda: any(each.document for each in api.messages))
            await house.until_done(api.tap(ANNA, ANNA, asked.find_button("reject"), message=asked.id))
            prompt = await house.until_shown(ANNA, "Reply to this message with your reason")
            assert prompt.asks_reply
            assert house.answers == []
            await house.until_taken(api.write(ANNA, ANNA, "No tests\nfor expiry", reply_to=prompt.id))

    play(story())

    (document,) = [each for each in api.messages if each.document]
    assert document.document is not None
    assert document.document[0] == "cs-1-auth.diff"
    assert (document.reply_to, document.silent) == (api.messages[0].id, True)
    (answer,) = house.answers
    assert (answer.choice, answer.note) == ("reject", "No tests\nfor expiry")


def test_a_refused_answer_is_explained_and_can_be_given_again(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            asked = await house.until_shown(ANNA, "Approve the plan")
            data = asked.find_button("approve")
            await house.until_done(api.tap(ANNA, ANNA, data, message=asked.id))
            await house.until_done(api.tap(ANNA, ANNA, data, message=asked.id))  # impatient
            assert len(house.answers) == 1
            house.record(HOUSE, settle(house.answers[0], accepted=False, reply="the repository cannot be read"))
            refused = await house.until_shown(ANNA, "Not accepted: the repository cannot be read")
            assert refused.reply_to == asked.id
            await house.until_done(api.tap(ANNA, ANNA, data, message=asked.id))

    play(story())

    assert len(house.answers) == 2
    assert api.toasts[1][1] == "anna has answered: approve."


def test_a_person_is_reminded_once_and_then_the_next_is_asked(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            asked = await house.until_shown(ANNA, "Approve the plan")
            house.clock.advance(31 * 60)
            reminder = await house.until_shown(ANNA, "anna: this still waits for an answer")
            assert reminder.reply_to == asked.id
            assert api.list_shown(BEN) == []
            house.clock.advance(31 * 60)
            other = await house.until_shown(BEN, "Approve the plan")
            house.tell(GateAnswered(gate="plan", answer=Answer(choice="approve", by="ben")))
            await house.until(lambda: not asked.buttons and not other.buttons)

    play(story())

    assert sum("still waits" in each.text for each in api.list_shown(ANNA)) == 1
    assert len(api.list_shown(BEN)) == 1


def test_the_next_person_is_called_in_a_group_that_has_the_question_already(house: ChatHouse, api: BotApi) -> None:
    house.journal.close()
    people = {**PEOPLE, "dora": {"trust": "owner", "telegram": 44}}  # asked together with anna
    chats = {"chats": {GROUP: {"repository": "shop"}}}
    house = ChatHouse(house.repo, house.folder, api, telegram=chats, people=people)

    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            asked = await house.until_shown(GROUP, "Approve the plan")
            house.clock.advance(31 * 60)
            await house.until_shown(GROUP, "anna, dora: this still waits for an answer")
            house.clock.advance(31 * 60)
            called = await house.until_shown(GROUP, "ben: now you are asked, too. Approve the plan")
            assert called.reply_to == asked.id

    play(story())

    assert sum(bool(each.buttons) for each in api.list_shown(GROUP)) == 1


def test_a_gate_of_a_group_that_refuses_the_bot_is_asked_in_the_persons_own_chat(house: ChatHouse, api: BotApi) -> None:
    """A group that became a supergroup has another number, which is not listed."""
    house.journal.close()
    house = ChatHouse(house.repo, house.folder, api, telegram={"chats": {GROUP: {"repository": "shop"}}})
    moved = ApiError(400, "Bad Request: group chat was upgraded", {"migrate_to_chat_id": -1009})
    api.errors["sendMessage"] = [moved]

    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            await house.until_shown(ANNA, "Approve the plan")

    play(story())

    assert api.list_shown(GROUP) == []
    assert "-1009" in str(house.journal.read_after(0))


def test_gates_are_asked_again_after_a_restart_only_by_command(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            await house.until_shown(ANNA, "Approve the plan")
            await house.until(lambda: house.journal.read_notes("telegram").keys() & {f"sent:ask:shop/{ID}/plan:{ANNA}"})
        house.desk.gates = ()  # until the house has read its repositories
        async with house.run():
            await house.until_taken(api.write(ANNA, ANNA, "/status"))
            await house.until_shown(ANNA, "The status of the house.")
            house.show_gates()
            await asyncio.sleep(0.1)
            assert len([each for each in api.list_shown(ANNA) if each.buttons]) == 1
            await house.until_taken(api.write(ANNA, ANNA, "/gates"))
            await house.until(lambda: len([each for each in api.list_shown(ANNA) if each.buttons]) == 2)
            first, second = [each for each in api.list_shown(ANNA) if each.buttons]
            await house.until_done(api.tap(ANNA, ANNA, second.find_button("approve"), message=second.id))
            house.tell(GateAnswered(gate="plan", answer=Answer(choice="approve", by="anna")))
            await house.until(lambda: not first.buttons and not second.buttons)

    play(story())

    assert [each.choice for each in house.answers] == ["approve"]


def test_a_question_that_was_sent_just_before_a_crash_comes_again_and_both_copies_work(
    house: ChatHouse, api: BotApi
) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            first = await house.until_shown(ANNA, "Approve the plan")
            await house.until(lambda: f"sent:ask:shop/{ID}/plan:{ANNA}" in house.journal.read_notes("telegram"))
        # as if the number had not been written any more
        row = {"key": f"ask:shop/{ID}/plan:{ANNA}", "chat": ANNA, "text": first.text, "kept": True}
        row["buttons"] = [list(each) for each in first.buttons]
        house.journal.write_notes(
            "telegram", {f"sent:ask:shop/{ID}/plan:{ANNA}": None, "out:000000001": json.dumps(row)}
        )
        async with house.run():
            await house.until(lambda: len(api.list_shown(ANNA)) == 2)
            second = api.list_shown(ANNA)[1]
            await house.until_done(api.tap(ANNA, ANNA, first.find_button("approve"), message=first.id))
            house.tell(GateAnswered(gate="plan", answer=Answer(choice="approve", by="anna")))
            await house.until(lambda: not first.buttons and not second.buttons)

    play(story())

    assert [each.choice for each in house.answers] == ["approve"]


def test_a_tap_just_after_a_restart_is_passed_on_before_the_house_has_read_its_gates(
    house: ChatHouse, api: BotApi
) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            asked = await house.until_shown(ANNA, "Approve the plan")
            await house.until(lambda: f"sent:ask:shop/{ID}/plan:{ANNA}" in house.journal.read_notes("telegram"))
        house.desk.gates = ()
        async with house.run():
            await house.until_done(api.tap(ANNA, ANNA, asked.find_button("approve"), message=asked.id))
            assert asked.buttons  # the gate is open in its journal

    play(story())

    assert [each.choice for each in house.answers] == ["approve"]


def test_a_reason_that_comes_too_late_is_neither_an_answer_nor_a_request(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            asked = await house.until_shown(ANNA, "Approve the plan")
            await house.until_done(api.tap(ANNA, ANNA, asked.find_button("replan"), message=asked.id))
            await house.until_shown(ANNA, "Reply to this message with your reason")
            house.tell(GateAnswered(gate="plan", answer=Answer(choice="approve", by="ben")))
            await house.until(lambda: not asked.buttons)
            await house.until_taken(api.write(ANNA, ANNA, "Split the first task"))
            await house.until_shown(ANNA, "Too late. Answered: approve, by ben")
            assert house.arrivals == []
            await house.until_taken(api.write(ANNA, ANNA, "Split the first task"))

    play(story())

    assert len(house.arrivals) == 1
