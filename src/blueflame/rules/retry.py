"""What follows a failed attempt."""

from __future__ import annotations

from blueflame.model.attempt import Ending
from blueflame.model.limits import Limits
from blueflame.model.task import TaskRecord

MAX_LOSSES = 3
"""An attempt that vanishes is tried again without blame, but what always vanishes has failed."""


def is_blameless(ending: Ending, losses: int) -> bool:
    """Does the ending say nothing about the work? `losses` is how many attempts at it had vanished before."""
    return ending is Ending.CANCELLED or (ending is Ending.LOST and losses < MAX_LOSSES)


def may_retry(record: TaskRecord, limits: Limits) -> bool:
    return record.retries < limits.max_retries
