"""Requests at set times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.util import find_spec
from zoneinfo import ZoneInfo

from blueflame.dispatch.schedules import NEVER, Schedule, find_due_time, find_next_time
from blueflame.intake.source import Clock, Intake, SourceContext, SourceProbe, parse_cursor, repeat_steps
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.model.house.arrival import IncomingRequest, Sender, Trust
from blueflame.model.settings.sources import SourceSettings, TimedRequestSettings

KIND = "schedules"


@dataclass(frozen=True, slots=True)
class ScheduleSource:
    settings: TimedRequestSettings
    repository: str
    clock: Clock

    @property
    def name(self) -> str:
        return f"{KIND}/{self.settings.name}"

    async def run(self, intake: Intake) -> None:
        await repeat_steps(self.step, intake, self.clock)

    async def step(self, intake: Intake) -> float:
        """Make the request that is due. Its key is its time, so that no time is requested twice."""
        settings, now = self.settings, self.clock.now()
        schedule = Schedule(cron=settings.cron, zone=settings.zone, missed=settings.missed)
        state = parse_cursor(intake.read_cursor(self.name))
        rule = f"{settings.cron} {settings.zone}"
        if state.get("rule") != rule:  # new, or changed: times before now are not missed ones
            state = {"rule": rule, "until": now, "key": state.get("key", "")}
            intake.receive(self.name, (), cursor=json.dumps(state))
        due = find_due_time(schedule, until=float(state["until"]), now=now)
        if due.skipped is not None:
            intake.warn(self.name, f"missed at {self._format_time(due.skipped)}: the house did not run; skipped")
        if due.until != state["until"]:
            self._decide(intake, due.at, state | {"until": due.until}, now)
        return find_next_time(settings.cron, settings.zone, now) - now

    def _decide(self, intake: Intake, at: float | None, state: dict[str, object], now: float) -> None:
        arrivals = []
        if at is not None and intake.is_open(KIND, str(state["key"])):
            running = f"the request of {state['key']} has not ended"
            intake.warn(self.name, f"skipped at {self._format_time(at)}: {running}")
        elif at is not None:
            arrivals = [self._build_request(at, now)]
            state = state | {"key": arrivals[0].key}
        intake.receive(self.name, arrivals, cursor=json.dumps(state))

    def _build_request(self, at: float, now: float) -> IncomingRequest:
        settings = self.settings
        return IncomingRequest(
            source=KIND,
            key=f"{settings.name}@{datetime.fromtimestamp(at, UTC).isoformat()}",
            sender=Sender(name=settings.name, trust=Trust.OWNER, address=f"schedule:{settings.name}"),
            at=now,
            text=settings.request,
            repository=self.repository,
            title=f"{settings.name}, {self._format_time(at)}",
            workflow=settings.workflow or "",
            priority=settings.priority,
        )

    def _format_time(self, at: float) -> str:
        return f"{datetime.fromtimestamp(at, ZoneInfo(self.settings.zone)):%Y-%m-%d %H:%M %Z}"

    async def probe(self) -> SourceProbe:
        settings = self.settings
        at = find_next_time(settings.cron, settings.zone, self.clock.now())
        if at == NEVER:
            return SourceProbe(False, f"{settings.cron} has no time within the next years; correct the expression")
        return SourceProbe(True, f"next at {self._format_time(at)}")


def build_schedule_sources(settings: SourceSettings, context: SourceContext) -> tuple[ScheduleSource, ...]:
    if settings.schedules and find_spec("cronsim") is None:
        raise Refused("schedules need cronsim: pip install 'blueflame[schedules]'")
    return tuple(
        ScheduleSource(each, context.find_repository(each.repository, f"sources.schedules, {each.name}"), context.clock)
        for each in settings.schedules
    )
