"""What the parts of the bot share: the configuration of the house, and what it can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from blueflame.chat.sessions import SessionReader
from blueflame.dispatch.people import AskRules
from blueflame.dispatch.quiet_hours import find_quiet_end
from blueflame.intake.source import Clock
from blueflame.lazy_dataclass import dataclass
from blueflame.model.house.event import OpenGate
from blueflame.model.settings.chat import TelegramSettings
from blueflame.model.settings.house import HouseSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSetup:
    settings: HouseSettings
    token: str
    lock: Path  # one process on this machine polls a bot
    reader: SessionReader
    describe_wait: Callable[[str], str]  # how long a queued request waits
    describe_house: Callable[[str], str]  # the replies to status and cost
    list_gates: Callable[[], Sequence[OpenGate]]  # that wait for an answer
    clock: Clock

    @property
    def telegram(self) -> TelegramSettings:
        assert self.settings.telegram is not None, "a bot is made only where one is configured"
        return self.settings.telegram

    @property
    def rules(self) -> AskRules:
        found = self.settings
        return AskRules(people=found.people, asks=found.gates, quiet_hours=found.quiet_hours)

    def find_quiet_end(self) -> float | None:
        return find_quiet_end(self.settings.quiet_hours, self.clock.now())

    def list_owner_chats(self) -> tuple[int, ...]:
        """Who reads about what no chat asked for: the owners who are asked first."""
        owners = [each for each in self.settings.people.values() if each.trust == "owner" and each.telegram]
        first = min((each.order for each in owners), default=0)
        return tuple(sorted(each.telegram for each in owners if each.order == first and each.telegram))
