"""Remove what an ended attempt no longer needs: its checkout and the ref of its base.

Its end is recorded first: killed in between, the next orchestrator would find an agent without its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from blueflame.git.checkouts import count_spares, list_checkouts
from blueflame.git.results import delete_refs
from blueflame.model.attempt import Attempt, AttemptOutcome, Duty, Ending
from blueflame.model.ids import build_base_ref
from blueflame.orchestrator.attempts.spares import (
    MAX_POLLS,
    POLL_SECONDS,
    is_large,
    let_others_start,
    release_checkout,
)
from blueflame.orchestrator.context import SessionContext
from blueflame.session.state import Session


def get_base_ref(attempt: Attempt) -> str:
    return build_base_ref(attempt.session, attempt.subject, attempt.n, attempt.label)


def is_checkout_kept(attempt: Attempt, ended: AttemptOutcome) -> bool:
    """The checkout of a failed worker is kept for inspection; one that asks has left its work for the next.

    That of a cancelled merger may have commits that could not be fetched.
    """
    if attempt.duty is Duty.MERGE:
        return ended.ending is Ending.CANCELLED and ended.tip is None
    return attempt.duty is Duty.MAKE and not ended.passed and ended.ending is not Ending.QUESTION


def clear_attempt(context: SessionContext, attempt: Attempt) -> None:
    """Idempotent. The checkout goes last: as long as it is there, `list_uncleared` finds the attempt."""
    delete_refs(context.repo, (get_base_ref(attempt),))
    release_checkout(context, context.paths.checkout(attempt.agent_id), [attempt.id])


async def wait_before_clearing(context: SessionContext, session: Session, attempt: Attempt) -> None:
    """Clear a large checkout after others have started, unless they wait for its files."""
    if is_large(context, attempt):
        spares = await asyncio.to_thread(count_spares, context.repo, context.paths.worktrees)
        if spares:
            await let_others_start(context.clock.sleep, session)


async def wait_for_spare(context: SessionContext, session: Session) -> None:
    """Wait for files that are about to be kept, if none are left: to take them over is faster than to write them."""
    for _poll in range(MAX_POLLS):
        if not await asyncio.to_thread(_is_spare_coming, context, session):
            return
        await context.clock.sleep(POLL_SECONDS)


def _is_spare_coming(context: SessionContext, session: Session) -> bool:
    if context.settings.sandbox.level == "off" or not any(
        is_large(context, attempt) for attempt in list_uncleared(context, session)
    ):
        return False
    return not count_spares(context.repo, context.paths.worktrees)


def list_uncleared(context: SessionContext, session: Session) -> Iterator[Attempt]:
    """List ended attempts whose checkout an earlier orchestrator did not get to remove."""
    present = {path.name for path in list_checkouts(context.paths.worktrees)}
    for record in session.attempts.values() if present else ():
        ended = record.ended
        if ended is not None and record.attempt.agent_id in present and not is_checkout_kept(record.attempt, ended):
            yield record.attempt
