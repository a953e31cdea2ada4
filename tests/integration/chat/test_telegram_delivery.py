"""Delivery: no update is lost or taken twice, whatever Telegram, the network or the machine does."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import pytest

from blueflame.chat.client import TelegramFailed, open_client
from blueflame.chat.telegram import find_token_lock
from blueflame.model.errors import UsageError
from blueflame.model.house.arrival import Arrival, IncomingRequest
from blueflame.model.house.event import HOUSE, RepositoryHeld, SourceWarned
from blueflame.system.flock import LockHeld
from blueflame.testing.bot_api import ApiError, BotApi
from support.telegram_chats import ANNA, BEN, ChatHouse, play


class Killed(BaseException):
    """The machine goes off."""


def list_requests(house: ChatHouse) -> list[str]:
    return [each.text for each in house.arrivals if isinstance(each, IncomingRequest)]


def list_warnings(house: ChatHouse) -> list[str]:
    return [each.event.text for each in house.journal.read_after(0) if isinstance(each.event, SourceWarned)]


def test_an_update_is_acknowledged_only_after_it_was_committed(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        sent = api.write(ANNA, ANNA, "Add a page")
        committed = []
        real = house.desk.receive

        def receive(
            source: str,
            arrivals: Sequence[Arrival],
            *,
            cursor: str | None = None,
            notes: Mapping[str, str | None] | None = None,
        ) -> None:
            committed.append(api.pending)
            real(source, arrivals, cursor=cursor, notes=notes)

        house.desk.receive = receive  # type: ignore[method-assign] # to look at the moment of the commit
        async with house.run():
            await house.until_taken(sent)
            await house.until(lambda: not api.pending)
        assert committed == [[sent]]

    play(story())


def test_a_crash_between_receiving_and_committing_takes_the_message_once(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        api.write(ANNA, ANNA, "first")
        api.write(ANNA, ANNA, "second")
        real, calls = house.desk.receive, []

        def die_before_the_second(*args: object, **more: object) -> None:
            calls.append(args)
            if len(calls) == 2:
                raise Killed
            real(*args, **more)  # type: ignore[arg-type] # as given

        house.desk.receive = die_before_the_second  # type: ignore[method-assign] # the crash
        with pytest.raises(BaseExceptionGroup):  # no error of ours: the process is gone
            await house.build_chat().run(house.desk)
        assert list_requests(house) == ["first"]
        house.desk.receive = real  # type: ignore[method-assign] # a new process
        async with house.run():
            await house.until(lambda: not api.pending)

    play(story())

    assert list_requests(house) == ["first", "second"]


def test_errors_of_telegram_and_of_the_network_are_waited_out(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        conflict = ApiError(409, "Conflict: terminated by other getUpdates request")
        api.errors["getMe"] = [ApiError(502, "Bad Gateway")]
        api.errors["getUpdates"] = [conflict, conflict, ApiError(500, "oops"), ApiError(429, "x", {"retry_after": 7})]
        sent = api.write(ANNA, ANNA, "Add a page")
        began = house.clock.now()
        async with house.run():
            await house.until_taken(sent)
        assert house.clock.now() - began > 1 + 2 + 4 + 8 + 7

    play(story())

    assert list_requests(house) == ["Add a page"]
    assert list_warnings(house).count("another program polls this bot: stop it, or give each its own bot") == 1


def test_a_message_after_a_quiet_week_is_taken_although_its_number_is_lower(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        async with house.run():
            await house.until_taken(api.write(ANNA, ANNA, "before the holidays"))
            await house.until(lambda: not api.pending)  # a later poll would acknowledge the lower number
        house.clock.advance(8 * 86_400)
        api.number_updates_from(17)
        async with house.run():
            await house.until_taken(api.write(ANNA, ANNA, "after the holidays"))
            await house.until(lambda: not api.pending)

    play(story())

    assert list_requests(house) == ["before the holidays", "after the holidays"]


def test_a_new_bot_takes_messages_with_the_numbers_of_the_old_one_and_asks_again(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            await house.until_taken(api.write(ANNA, ANNA, "to the old bot"))
            await house.until_shown(ANNA, "Approve the plan")
            await house.until(lambda: not api.pending)
        api.token = "999:another-stand-in"
        api.number_updates_from(1000)
        async with house.run():
            api.write(ANNA, ANNA, "to the new bot")
            await house.until(lambda: len(house.arrivals) == 2)
            await house.until(lambda: len([each for each in api.list_shown(ANNA) if each.buttons]) == 2)

    play(story())

    assert list_requests(house) == ["to the old bot", "to the new bot"]
    assert [each.key for each in house.arrivals] == ["12345:1000", "999:1000"]


def test_a_clock_that_is_set_back_delays_no_message(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        async with house.run():
            await house.until_taken(api.write(ANNA, ANNA, "/status"))
            await house.until_shown(ANNA, "The status of the house.")
            house.clock.set_back(3_600)
            await house.until_taken(api.write(ANNA, ANNA, "/cost"))
            await house.until_shown(ANNA, "The cost of the house.")

    play(story())


def test_a_chat_that_must_wait_holds_back_no_other(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        house.story.planned()
        house.show_gates()
        async with house.run():
            await house.until_shown(ANNA, "Approve the plan")
            api.errors["sendMessage"] = [ApiError(429, "Too Many Requests", {"retry_after": 600})]
            await house.until_taken(api.write(ANNA, ANNA, "/status"))
            await house.until(lambda: not api.errors["sendMessage"])
            calls = api.count_calls("sendMessage")
            await house.until_taken(api.write(BEN, BEN, "/status"))
            await house.until_shown(BEN, "The status of the house.")
            await house.until_taken(api.write(ANNA, ANNA, "/cost"))
            await asyncio.sleep(0.05)
            assert api.count_calls("sendMessage") == calls + 1
            house.clock.advance(600)
            await house.until_shown(ANNA, "The cost of the house.")
            assert [each.text for each in api.list_shown(ANNA)][-2:] == [
                "The status of the house.",
                "The cost of the house.",
            ]

    play(story())


def test_what_could_not_be_sent_before_a_restart_is_sent_after_it(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        api.errors["sendMessage"] = [ApiError(500, "down")] * 3
        async with house.run():
            await house.until_taken(api.write(ANNA, ANNA, "/status"))
            await house.until(lambda: len(api.errors["sendMessage"]) < 3)
        api.errors["sendMessage"] = []
        async with house.run():
            await house.until_shown(ANNA, "The status of the house.")
        async with house.run():
            await asyncio.sleep(0.1)

    play(story())

    assert len(api.list_shown(ANNA)) == 1


def test_a_chat_that_blocked_the_bot_is_left_alone(house: ChatHouse, api: BotApi) -> None:
    async def story() -> None:
        api.blocked.add(ANNA)
        async with house.run():
            await house.until_taken(api.write(ANNA, ANNA, "/status"))
            await house.until(lambda: list_warnings(house))

    play(story())

    assert "chat 11: the bot may not write to the chat" in list_warnings(house)[0]
    assert api.count_calls("sendMessage") == 1


def test_one_process_of_this_machine_polls_a_bot(house: ChatHouse) -> None:
    async def story() -> None:
        async with house.run():
            await house.until((house.folder / "bot.lock").exists)
            await asyncio.sleep(0.05)
            with pytest.raises(LockHeld):
                await house.build_chat().run(house.desk)

    play(story())


def test_the_token_is_in_no_log_error_or_file_name(
    house: ChatHouse, api: BotApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def story() -> None:
        async with house.run():
            await house.until_started()
            house.record(HOUSE, RepositoryHeld(repository="shop", reason="its configuration"))
            await house.until_shown(ANNA, "shop: no session can start; it is tried again. its configuration")
            api.errors["getUpdates"] = [ApiError(500, f"at /bot{api.token}/getUpdates"), ApiError(409, "Conflict")]
            await house.until_taken(api.write(ANNA, ANNA, "hello"))
        async with open_client("12345:wrong-token", api.url) as client:
            with pytest.raises(UsageError) as unknown:
                await client.read_name()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            closed = f"http://127.0.0.1:{free.getsockname()[1]}"
        async with open_client(api.token, closed) as client:
            with pytest.raises(TelegramFailed) as away:
                await client.receive(0)
        for error in (unknown.value, away.value):
            assert "stand-in" not in f"{error!r} {error.__cause__!r}"
            assert "wrong-token" not in repr(error)

    play(story())

    assert not logging.getLogger("telegram.Bot").isEnabledFor(logging.ERROR)
    assert api.token not in caplog.text
    assert "stand-in" not in caplog.text
    assert all(api.token not in text for text in list_warnings(house))
    assert "stand-in" not in str(find_token_lock(Path("/x"), api.token))


@pytest.mark.parametrize("token", ["", "s3cret", "67890", "67890:x y", "bot67890:abcdefg\n"])
def test_what_cannot_be_a_token_is_refused_without_showing_it(token: str, api: BotApi) -> None:
    async def story() -> None:
        async with open_client(token, api.url):
            pass

    with pytest.raises(UsageError) as refused:
        play(story())
    assert not token or token not in str(refused.value)


def test_a_bot_that_is_killed_at_random_takes_every_message_once_and_in_order(house: ChatHouse, api: BotApi) -> None:
    chance = random.Random(17)
    wanted = [f"request {n}" for n in range(20)]

    async def story() -> None:
        written = iter(wanted)
        while True:
            for text in islice(written, chance.randrange(4)):
                api.write(ANNA, ANNA, text)
            async with house.run():
                for _ in range(chance.randrange(12)):
                    house.clock.advance(0.25)
                    await asyncio.sleep(0.002)
            if len(list_requests(house)) == len(wanted):
                return

    play(story())

    assert list_requests(house) == wanted
    assert len({each.key for each in house.arrivals}) == len(wanted)


def test_a_token_that_telegram_does_not_know_ends_the_bot_with_what_to_do(house: ChatHouse, api: BotApi) -> None:
    api.errors["getUpdates"] = [ApiError(401, "Unauthorized")]

    with pytest.raises(UsageError, match="copy it again from BotFather"):
        play(house.build_chat().run(house.desk))
