"""What follows a failed attempt."""

from __future__ import annotations

from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.limits import Limits
from blueflame.model.task import TaskRecord
from blueflame.session.budget import is_stopped_by_shared_budget

MAX_LOSSES = 3
"""An attempt that vanishes is tried again without blame, but what always vanishes has failed."""


def is_blameless(attempt: Attempt, ended: AttemptOutcome, losses: int) -> bool:
    """Does the ending say nothing about the work? `losses` is how many attempts at it had vanished before.

    There is no limit on outages: each parks the runtime for longer, and after some a person is asked
    (session/rate_limits).
    """
    if ended.ending is Ending.LOST:
        return losses < MAX_LOSSES
    return ended.ending in (Ending.CANCELLED, Ending.OUTAGE) or is_stopped_by_shared_budget(attempt, ended)


def may_retry(record: TaskRecord, limits: Limits) -> bool:
    return record.retries < limits.max_retries
