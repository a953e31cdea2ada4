"""Watch a running agent for silence; what follows is decided in session/retries."""

from __future__ import annotations

from blueflame.model.event import AttemptStalled
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.engine.interface import AttemptStatus, Running
from blueflame.session.retries import is_stall_due
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock

POLLS_PER_TIMEOUT = 4  # within limits.stall_timeout
MAX_DELAY_SECONDS = 5.0  # of a check on a busy machine


async def watch_for_stall(context: SessionContext, session: Session, attempt: str, emit: Emit) -> None:
    """Run until cancelled. Also for agents that an earlier orchestrator started."""
    limits = context.settings.limits
    if not limits.stall_timeout:
        return
    pause = min(limits.heartbeat_interval, limits.stall_timeout / POLLS_PER_TIMEOUT)
    silence = SilenceTimer(context.clock, pause)
    while True:
        await context.clock.sleep(pause)
        seconds = silence.measure(await context.engine.inspect(attempt))
        now = context.clock.now()
        if is_stall_due(session, attempt, silent_for=seconds, timeout=limits.stall_timeout, now=now):
            emit([AttemptStalled(attempt=attempt, seconds=round(seconds, 1))])


class SilenceTimer:
    """Measures an agent's silence by the monotonic clock: a jump of the wall clock is no silence.

    Nor is a time in which we did not look ourselves: our process was stopped, and perhaps the agent with it.
    """

    def __init__(self, clock: SystemClock, pause: float) -> None:
        self._clock, self._pause = clock, pause
        self._heard: tuple[object, ...] | None = None
        self._since = self._looked_at = clock.monotonic()

    def measure(self, status: AttemptStatus) -> float:
        """Return the seconds of silence; 0 during setup, while it waits for its model or an answer, and while it is
        being ended."""
        now = self._clock.monotonic()
        late = now - self._looked_at - self._pause
        missed = late if late > MAX_DELAY_SECONDS else 0.0
        self._since, self._looked_at = self._since + missed, self._looked_at + missed
        if not isinstance(status, Running) or status.state != "working" or status.parked or status.asking_since:
            self._heard, self._since = ("not working",), now
            return 0.0
        heard = (status.agent_pid, status.last_output, status.output_bytes)
        if heard != self._heard:
            last_sign = status.last_output or status.state_since
            so_far = max(0.0, self._clock.now() - last_sign - missed) if last_sign else 0.0
            self._since = now - (so_far if self._heard is None else min(so_far, now - self._looked_at))
            self._heard = heard
        self._looked_at = now
        return now - self._since
