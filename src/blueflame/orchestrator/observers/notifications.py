"""Notify people, beside the loop.

A notifier that fails or hangs delays nothing and is reported once. Only new events are sent: a gate that was open
before a resume was sent already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from blueflame.model.errors import WorldError
from blueflame.model.event import JournalEntry
from blueflame.model.settings.notifications import NotifierSettings
from blueflame.session.state import Session
from blueflame.text.notifications import GATE, Notification, build_notifications, find_settled_gates

if TYPE_CHECKING:
    from blueflame.system.notifiers import Notifier

LAST_DELIVERY_SECONDS = 5.0  # for what is still waiting when the session is over


Hold = Callable[[Notification], float]
"""For how many seconds a notification is held back, so that it goes out with others: quiet hours."""


def hold_nothing(_notification: Notification) -> float:
    return 0.0


class NotificationQueue:
    """One notifier with its waiting notifications, by topic."""

    def __init__(
        self,
        name: str,
        settings: NotifierSettings,
        send: Notifier,
        warn: Callable[[str], None],
        hold: Hold = hold_nothing,
    ) -> None:
        self._name = name
        self._settings = settings
        self._send = send
        self._warn = warn
        self._hold = hold
        self._warned = False
        self._waiting: dict[str, list[tuple[float, Notification]]] = {}
        self._free_at: dict[str, float] = {}  # topic -> when the next message may go out
        self._changed = asyncio.Event()
        self._leaving = False

    def take(self, notification: Notification, now: float) -> None:
        if notification.topic in self._settings.on:
            delay = self._settings.delay if notification.topic == GATE else 0.0
            due = now + max(delay, self._hold(notification))
            self._waiting.setdefault(notification.topic, []).append((due, notification))
            self._changed.set()

    def forget(self, gates: frozenset[str]) -> None:
        self._waiting[GATE] = [entry for entry in self._waiting.get(GATE, []) if entry[1].gate not in gates]

    def leave(self) -> None:
        """End `keep_up` after it has sent what is due or only throttled."""
        self._leaving = True
        self._changed.set()

    async def keep_up(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            now = loop.time()
            topic = next((topic for topic in self._waiting if self._is_due(topic, now)), None)
            if topic is not None:
                await self._deliver(topic, now)
            elif self._leaving:
                return
            else:
                await self._wait_until_due(now)

    def _is_due(self, topic: str, now: float) -> bool:
        ready = any(due <= now for due, _ in self._waiting[topic])
        return ready and (self._leaving or self._free_at.get(topic, now) <= now)

    async def _wait_until_due(self, now: float) -> None:
        moments = [
            max(due, self._free_at.get(topic, due)) for topic, waiting in self._waiting.items() for due, _ in waiting
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(min(moments) - now if moments else None):
                await self._changed.wait()

    async def _deliver(self, topic: str, now: float) -> None:
        ready = [notification for due, notification in self._waiting[topic] if due <= now]
        self._waiting[topic] = [entry for entry in self._waiting[topic] if entry[0] > now]
        self._free_at[topic] = now + self._settings.throttle
        try:
            await asyncio.to_thread(self._send, ready[-1], len(ready) - 1)
        except WorldError as error:
            if not self._warned:
                self._warned = True
                self._warn(f"notifications.{self._name} could not send (the session continues): {error}")


class NotificationSender:
    """Observer of a session."""

    def __init__(self, queues: Sequence[NotificationQueue]) -> None:
        self._queues = tuple(queues)

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None:
        if self._queues:
            self.send(tuple(build_notifications(session, recorded)), find_settled_gates(recorded))

    def send(self, found: Sequence[Notification], settled: frozenset[str] = frozenset()) -> None:
        """Queue notifications, and forget those about gates that are settled."""
        now = asyncio.get_running_loop().time()
        for queue in self._queues:
            for notification in found:
                queue.take(notification, now)
            queue.forget(settled)


@asynccontextmanager
async def run_notifications(
    settings: Mapping[str, NotifierSettings],
    root: Path,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
    hold: Hold = hold_nothing,
) -> AsyncIterator[NotificationSender]:
    """The last notifications are waited for, up to LAST_DELIVERY_SECONDS."""
    queues = [
        NotificationQueue(name, each, _build_sender(each, root, environ), warn, hold) for name, each in settings.items()
    ]
    under_way = [asyncio.create_task(queue.keep_up()) for queue in queues]
    try:
        yield NotificationSender(queues)
    finally:
        for queue in queues:
            queue.leave()
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=LAST_DELIVERY_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)


def _build_sender(settings: NotifierSettings, root: Path, environ: Mapping[str, str]) -> Notifier:
    from blueflame.system.notifiers import build_notifier  # late: most sessions have none, and need no HTTP

    return build_notifier(settings, root, environ)
