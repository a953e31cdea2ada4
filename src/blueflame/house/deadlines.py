"""Takes the default of a gate at its deadline, as `gates` in house.yaml says; each gate at most once."""

from __future__ import annotations

import asyncio

from blueflame.dispatch.people import DEADLINE, AskRules, find_deadline, find_default
from blueflame.house.desk import HouseDesk
from blueflame.intake.source import Clock
from blueflame.model.house.arrival import IncomingAnswer
from blueflame.model.house.event import OpenGate

TICK_SECONDS = 60.0  # machines sleep and clocks jump: a longer wait would end late


class DeadlineFace:
    """A face of the house that answers for people who did not."""

    name = "deadlines"

    def __init__(self, rules: AskRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock

    async def run(self, desk: HouseDesk) -> None:
        while True:
            changed = asyncio.ensure_future(desk.changed())
            tick = asyncio.ensure_future(self._clock.sleep(self._answer_late(desk)))
            try:
                await asyncio.wait({changed, tick}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                tick.cancel()

    def _answer_late(self, desk: HouseDesk) -> float:
        """Answer what is late; return after how many seconds to look again."""
        now, wait = self._clock.now(), TICK_SECONDS
        for found in desk.gates:
            deadline = find_deadline(self._rules, found.gate, found.opened_at)
            if deadline is not None and deadline <= now:
                desk.receive(self.name, [self._build_answer(found, now)])
            elif deadline is not None:
                wait = min(wait, deadline - now)
        return wait

    def _build_answer(self, found: OpenGate, now: float) -> IncomingAnswer:
        return IncomingAnswer(
            source=self.name,
            key=f"{found.repository}/{found.session}/{found.gate.id}",  # once for each gate
            sender=DEADLINE,
            at=now,
            repository=found.repository,
            session=found.session,
            gate=found.gate.id,
            choice=find_default(self._rules, found.gate) or found.gate.default,
            note="no answer in time",
        )
