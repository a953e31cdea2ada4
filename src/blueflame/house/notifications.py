"""Notifications of the house: one queue for each notifier of house.yaml, for what happens in all repositories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from blueflame.dispatch.people import is_announced
from blueflame.dispatch.quiet_hours import find_quiet_end
from blueflame.house.desk import HouseDesk
from blueflame.house.follower import SessionFollower, list_followed
from blueflame.intake.source import SourceProbe
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import NotifierFailed
from blueflame.model.gate import GateKind
from blueflame.model.house.event import OpenGate
from blueflame.model.settings.house import HouseSettings
from blueflame.orchestrator.observers.notifications import NotificationSender, run_notifications
from blueflame.system.clock import SystemClock
from blueflame.system.notifiers import check_notifier
from blueflame.text.notifications import BUDGET, GATE, Notification, clean_title

TICK_SECONDS = 5.0  # sessions write their journals themselves: what is no gate is seen by looking
HOUSE_GATE = "gate:"
URGENT_GATES = (GateKind.BUDGET.value, GateKind.BASE.value)  # the beginnings of their ids


def is_urgent(notice: Notification) -> bool:
    """Whether money or safety is at stake: it goes out in quiet hours too."""
    return notice.topic == BUDGET or notice.gate.startswith(URGENT_GATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationFace:
    """A face of the house that only shows."""

    settings: HouseSettings
    configs: Mapping[str, Path]  # the configuration of each repository, by its name
    root: Path  # where commands run: the folder of the house
    environ: Mapping[str, str]
    name: str = "notifications"

    async def run(self, desk: HouseDesk) -> None:
        noted = desk.journal.read_notes(self.name)
        cursors = {key: int(seq) for key, seq in noted.items() if not key.startswith(HOUSE_GATE)}
        follower = SessionFollower(self.configs, cursors, SystemClock().now())
        async with run_notifications(
            self.settings.notifications,
            self.root,
            self.environ,
            lambda text: desk.warn(self.name, text),
            self._hold,
        ) as sender:
            while True:
                changed = asyncio.ensure_future(desk.changed())
                await self._send_news(desk, follower, sender)
                self._send_house_gates(desk, sender)
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_SECONDS):
                        await changed

    async def probe(self) -> SourceProbe:
        """Try each notifier without sending anything: for doctor."""
        wrong = []
        for name, notifier in self.settings.notifications.items():
            try:
                await asyncio.to_thread(check_notifier, notifier, self.root, self.environ)
            except NotifierFailed as error:
                wrong.append(f"notifications.{name}: {error}")
        right = f"{', '.join(self.settings.notifications)}: programs and addresses are valid; nothing was sent"
        return SourceProbe(not wrong, "; ".join(wrong) or right)

    async def _send_news(self, desk: HouseDesk, follower: SessionFollower, sender: NotificationSender) -> None:
        names = list_followed(desk.journal, desk.gates)
        for news in await asyncio.to_thread(follower.read, names):
            # written first: after a crash a message may be missing, but none comes twice
            seq = None if news.session.ended else str(news.session.seq)
            desk.journal.write_notes(self.name, {str(news.name): seq})
            sender.see(news.session, news.new)

    def _send_house_gates(self, desk: HouseDesk, sender: NotificationSender) -> None:
        """Gates of the house are in no session; each is noted while it is open."""
        noted = {key for key in desk.journal.read_notes(self.name) if key.startswith(HOUSE_GATE)}
        asked = [each for each in desk.gates if not each.repository and is_announced(each.gate)]
        gates = {HOUSE_GATE + each.gate.id: each for each in asked}
        new = sorted(gates.keys() - noted)
        gone = frozenset(noted - gates.keys())
        if new or gone:
            desk.journal.write_notes(self.name, {**dict.fromkeys(new, "open"), **dict.fromkeys(gone)})
            settled = frozenset(key.removeprefix(HOUSE_GATE) for key in gone)
            sender.send([_describe_house_gate(gates[key]) for key in new], settled)

    def _hold(self, notice: Notification) -> float:
        now = SystemClock().now()
        end = None if is_urgent(notice) else find_quiet_end(self.settings.quiet_hours, now)
        return end - now if end is not None else 0.0


def _describe_house_gate(found: OpenGate) -> Notification:
    return Notification(
        topic=GATE,
        words=clean_title(found.gate.title),
        answer=f"blueflame requests start {found.request}",
        gate=found.gate.id,
        project=clean_title(str(found.gate.evidence.get("repository", "the house"))),
    )
