"""The health of each agent, from its warden's files: observed, never assumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace

from blueflame.agents.runtime import Runtime
from blueflame.model.activity import Health, HealthReport
from blueflame.model.attempt import AttemptRecord
from blueflame.model.settings import LimitSettings
from blueflame.orchestrator.engine.interface import (
    AttemptEngine,
    AttemptStatus,
    Ended,
    Queued,
    Running,
    Unreadable,
    WardenLost,
)
from blueflame.telemetry.progress import ProgressReader

MAX_BYTES_PER_PROBE = 8 * 1024 * 1024  # of new output; the rest is read by the next probes
WARDEN_MARGIN_SECONDS = 15.0  # after its time is up, a warden must end an agent within this
MAX_SILENT_SHARE = 0.25  # of its time, for which a silence of its provider may be in doubt (attempts/launch)


class HealthMonitor:
    """Probes the agents of a session again and again; their output is read incrementally."""

    def __init__(self, engine: AttemptEngine, runtimes: Mapping[str, Runtime], limits: LimitSettings) -> None:
        self._engine = engine
        self._limits = limits
        self.heartbeat = limits.heartbeat_interval
        self._reader = ProgressReader(runtimes)

    async def probe(self, records: Iterable[AttemptRecord], now: float) -> Mapping[str, HealthReport]:
        """Return the health of each live attempt, by its id."""
        live = {record.attempt.id: record for record in records if record.live}
        reports = {
            name: assess_health(record, await self._engine.inspect(name), self._limits, now=now)
            for name, record in live.items()
        }
        return await asyncio.to_thread(self._add_progress, live, reports)

    def iterate_hints(self) -> AsyncIterator[str]:
        """Ids of attempts to which something happened."""
        return self._engine.iterate_hints()

    def _add_progress(
        self, live: Mapping[str, AttemptRecord], reports: Mapping[str, HealthReport]
    ) -> Mapping[str, HealthReport]:
        self._reader.keep_only(live)
        found = {
            name: self._reader.read_progress(record.attempt, self._engine.mirror(name), most=MAX_BYTES_PER_PROBE)
            for name, record in live.items()
        }
        return {name: replace(reports[name], said=each.text, spend=each.spend) for name, each in found.items()}


def assess_health(record: AttemptRecord, status: AttemptStatus, limits: LimitSettings, *, now: float) -> HealthReport:
    match status:
        case Running():
            return _assess_running(record, status, limits, now)
        case Ended(outcome):
            return HealthReport(state=Health.ENDED, why=f"{outcome.reason}: its result is not collected yet")
        case WardenLost():
            return HealthReport(state=Health.LOST, why="its warden is gone; the next orchestrator records the loss")
        case Unreadable(why):
            return HealthReport(state=Health.UNKNOWN, why=why)
        case Queued():
            if record.started_at is not None:
                return HealthReport(state=Health.LOST, why="its folder is empty or was removed")
            return HealthReport(state=Health.STARTING)


def _assess_running(record: AttemptRecord, running: Running, limits: LimitSettings, now: float) -> HealthReport:
    state, why = _find_state(record, running, limits, now)
    return HealthReport(
        state=state,
        why=why,
        warden_pid=running.pid,
        agent_pid=running.agent_pid if running.state != "ended" else None,
        last_output=running.last_output,
    )


def _find_state(record: AttemptRecord, running: Running, limits: LimitSettings, now: float) -> tuple[Health, str]:
    if running.hindrance:
        return Health.UNKNOWN, running.hindrance
    in_state_for = now - (running.state_since or now)
    if running.state == "ended":
        return _detect_stuck(Health.ENDED, "its warden has not recorded the end", in_state_for)
    if running.state == "stopping":
        return _detect_stuck(Health.STOPPING, "it was asked to end", in_state_for - limits.kill_grace)
    if running.state != "working":
        return (Health.STOPPING if record.cancel_reason else Health.STARTING), ""
    if running.parked and not record.cancel_reason:  # neither the timeout nor the stall timeout runs meanwhile
        return Health.PARKED, str(running.parked.get("reason") or "its model is unavailable")
    if running.asking_since and not record.cancel_reason:
        return Health.ASKING, "it waits for an answer to its question"
    timeout = record.attempt.timeout * (1 + MAX_SILENT_SHARE)
    overdue = in_state_for - running.held - timeout if timeout else 0.0
    if overdue > WARDEN_MARGIN_SECONDS:
        return _detect_stuck(Health.WORKING, "its time is up", overdue)
    if record.cancel_reason:
        return Health.STOPPING, record.cancel_reason
    quiet = now - (running.last_output or running.state_since or now)
    if limits.stall_timeout and quiet >= limits.stall_timeout and not record.attempt.interactive:
        return Health.SILENT, f"no output for {quiet:.0f} s"
    return Health.WORKING, ""


def _detect_stuck(state: Health, what: str, seconds: float) -> tuple[Health, str]:
    """Report a warden that is late as unknown: it may hang, and then nothing supervises its agent."""
    if seconds > WARDEN_MARGIN_SECONDS:
        return Health.UNKNOWN, f"{what} for {seconds:.0f} s, and its warden does not react"
    return state, ""
