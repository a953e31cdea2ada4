"""Watch a running agent for silence; what follows is decided in session/stalls."""

from __future__ import annotations

from blueflame.model.event import AttemptStalled
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.engine.interface import AttemptStatus, Running
from blueflame.session.retries import is_stall_due
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock

POLLS_PER_TIMEOUT = 4  # within the time that an agent may be silent


async def watch_for_stall(context: SessionContext, session: Session, attempt: str, emit: Emit) -> None:
    """Until cancelled. Agents that an earlier orchestrator started are watched over just the same."""
    limits = context.settings.limits
    if not limits.stall_timeout:
        return
    silence = SilenceTimer(context.clock)
    while True:
        await context.clock.sleep(min(limits.heartbeat_interval, limits.stall_timeout / POLLS_PER_TIMEOUT))
        seconds = silence.length(await context.engine.inspect(attempt))
        now = context.clock.now()
        if is_stall_due(session, attempt, silent_for=seconds, timeout=limits.stall_timeout, now=now):
            emit([AttemptStalled(attempt=attempt, seconds=round(seconds, 1))])


class SilenceTimer:
    """Measures an agent's silence by the monotonic clock: a jump of the wall clock is no silence."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._heard: tuple[object, ...] | None = None
        self._since = self._looked_at = clock.monotonic()

    def length(self, standing: AttemptStatus) -> float:
        """0 while it is made ready, waits for its model or is being ended: there are other limits for that."""
        now = self._clock.monotonic()
        if not isinstance(standing, Running) or standing.state != "working" or standing.parked:
            self._heard, self._since = ("not working",), now
            return 0.0
        heard = (standing.agent_pid, standing.last_output, standing.output_bytes)
        if heard != self._heard:
            so_far = self._so_far(standing)
            self._since = now - (so_far if self._heard is None else min(so_far, now - self._looked_at))
            self._heard = heard
        self._looked_at = now
        return now - self._since

    def _so_far(self, running: Running) -> float:
        """Of an agent that is met for the first time its warden knows when it last spoke."""
        spoke_at = running.last_output or running.state_since
        return max(0.0, self._clock.now() - spoke_at) if spoke_at else 0.0
