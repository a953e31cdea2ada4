"""Telling beside the loop: once, not too often, and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event as Door
from typing import Any

from blueflame.model.errors import NotifierFailed
from blueflame.model.event import GateAnswered, JournalEntry, SessionEnded
from blueflame.model.gate import Answer
from blueflame.model.settings.notifications import NotifierSettings
from blueflame.orchestrator.observers.notifications import NotificationQueue, NotificationSender, run_notifications
from blueflame.session.replay import apply_event
from blueflame.testing.simulation import Simulation
from blueflame.text.notifications import Notification
from support.session_examples import Outcomes as Story
from support.session_examples import reported as played
from support.session_examples import task

Outcomes = list[tuple[str, int]]


def settings(**given: Any) -> NotifierSettings:  # noqa: ANN401 (what YAML holds)
    return NotifierSettings.model_validate({"kind": "desktop", "delay": "0s", **given})


def notice(words: str, topic: str = "gate") -> Notification:
    return Notification(topic=topic, words=words, gate=words)


def waiting() -> Simulation:
    """A session that asks whether its plan is right."""
    return played(Story(task(1), answers={"plan": None}))


async def delivering(queue: NotificationQueue, during: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.create_task(queue.keep_up())
    await during()
    queue.leave()
    await task


def queue_of(reported: Outcomes, **given: Any) -> NotificationQueue:  # noqa: ANN401
    return NotificationQueue(
        "desk", settings(**given), lambda each, more: reported.append((each.words, more)), lambda _text: None
    )


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.005)


def test_several_within_the_window_become_one_message() -> None:
    reported: Outcomes = []

    async def story() -> None:
        queue = queue_of(reported, throttle="0.2s")
        now = asyncio.get_running_loop().time

        async def during() -> None:
            queue.take(notice("one"), now())
            await until(lambda: bool(reported))
            for words in ("two", "three", "four"):
                queue.take(notice(words), now())
            queue.take(notice("over", "ended"), now())
            await until(lambda: len(reported) == 3)

        await delivering(queue, during)

    asyncio.run(story())
    assert reported == [("one", 0), ("over", 0), ("four", 2)]


def test_throttled_notifications_are_sent_before_the_end() -> None:
    reported: Outcomes = []

    async def story() -> None:
        queue = queue_of(reported, throttle="1h")
        now = asyncio.get_running_loop().time

        async def during() -> None:
            queue.take(notice("one"), now())
            await until(lambda: bool(reported))
            queue.take(notice("two"), now())

        await delivering(queue, during)

    asyncio.run(story())
    assert reported == [("one", 0), ("two", 0)]


def test_a_gate_that_is_answered_at_once_sends_nothing() -> None:
    reported: Outcomes = []

    async def story() -> None:
        queue = queue_of(reported, delay="1h")
        observer, plan = NotificationSender([queue]), waiting()

        async def during() -> None:
            observer.see(plan.session, plan.journal)
            for event in (GateAnswered(gate="plan", answer=Answer(choice="quit")), SessionEnded(outcome="stopped")):
                recorded = JournalEntry(plan.session.seq + 1, plan.now, event)
                apply_event(plan.session, recorded)
                observer.see(plan.session, [recorded])

        await delivering(queue, during)

    asyncio.run(story())
    assert [words for words, _ in reported] == ["stopped: 0 of 0 tasks landed, $0.00"]


def test_only_configured_topics_are_sent() -> None:
    reported: Outcomes = []

    async def story() -> None:
        queue = queue_of(reported, on=["failed"])
        plan = waiting()

        async def during() -> None:
            NotificationSender([queue]).see(plan.session, plan.journal)

        await delivering(queue, during)

    asyncio.run(story())
    assert reported == []


def test_a_notifier_that_fails_is_warned_of_once() -> None:
    warnings: list[str] = []

    def fail(_notice: Notification, _more: int) -> None:
        raise NotifierFailed("no")

    async def story() -> None:
        queue = NotificationQueue("desk", settings(throttle="0s"), fail, warnings.append)
        now = asyncio.get_running_loop().time

        async def during() -> None:
            queue.take(notice("one"), now())
            await until(lambda: bool(warnings))
            queue.take(notice("two"), now())

        await delivering(queue, during)

    asyncio.run(story())
    assert warnings == ["notifications.desk could not send (the session continues): no"]


def test_a_notifier_that_hangs_delays_nothing(tmp_path: Path) -> None:
    """The loop goes on while it hangs; its program is gone when we are."""
    fifo = tmp_path / "started"
    given = settings(kind="command", command=f"touch '{fifo}'; sleep 60", timeout="1s")
    seen = Door()

    async def story() -> None:
        plan = waiting()
        async with run_notifications(
            {"phone": given}, tmp_path, {"PATH": "/usr/bin:/bin"}, lambda _text: seen.set()
        ) as observer:
            observer.see(plan.session, plan.journal)
            await until(fifo.exists)

    asyncio.run(story())
    assert seen.is_set(), "it was warned of, when it was killed"


def test_what_is_held_back_goes_out_as_one_message_and_urgent_topics_at_once() -> None:
    reported: Outcomes = []

    async def story() -> None:
        quiet = {"ended": 0.2, "budget": 0.0}
        queue = NotificationQueue(
            "desk",
            settings(on=["ended", "budget"], throttle="0s"),
            lambda each, more: reported.append((each.words, more)),
            lambda _text: None,
            lambda each: quiet[each.topic],
        )
        now = asyncio.get_running_loop().time()

        async def during() -> None:
            for words in ("one", "two", "three"):
                queue.take(notice(words, "ended"), now)
            queue.take(notice("money", "budget"), now)
            await until(lambda: len(reported) == 2)

        await delivering(queue, during)

    asyncio.run(story())

    assert reported == [("money", 0), ("three", 2)]
