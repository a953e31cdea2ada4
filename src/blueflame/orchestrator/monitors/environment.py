"""Wait before something that failed is tried again: an act of our own (session/environment), or a task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from blueflame.git.locks import remove_stale_locks
from blueflame.model.event import BackoffEnded, EnvironmentRetried, Event
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.session.effects import AwaitBackoff, AwaitEnvironment
from blueflame.session.environment import has_slot, is_held, is_retry_due
from blueflame.session.next_try import is_backoff_over
from blueflame.session.state import Session

POLL_SECONDS, MIN_POLL_SECONDS = 0.5, 0.05


async def await_environment(
    context: SessionContext, session: Session, effect: AwaitEnvironment, _emit: Emit
) -> Sequence[Event]:
    while is_held(session, effect.act):
        problem, now = session.problems[effect.act], context.clock.now()
        if is_retry_due(problem, now) and has_slot(session, effect.act):
            await asyncio.to_thread(remove_stale_locks, context.repo)  # of a git of ours that was killed
            return [EnvironmentRetried(act=effect.act)]
        await _sleep_towards(context, problem.until)
    return []


async def await_backoff(
    context: SessionContext, session: Session, effect: AwaitBackoff, _emit: Emit
) -> Sequence[Event]:
    while (until := session.waiting.get(effect.task)) is not None:
        if is_backoff_over(session.limits, until, context.clock.now()):
            return [BackoffEnded(task=effect.task)]
        await _sleep_towards(context, until)
    return []


async def _sleep_towards(context: SessionContext, until: float) -> None:
    left = until - context.clock.now()
    await context.clock.sleep(min(POLL_SECONDS, max(left, MIN_POLL_SECONDS)))


def describe_error(error: Exception) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    return f"cannot use {error.filename}: {error.strerror}" if error.filename is not None else error.strerror
