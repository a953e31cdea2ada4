"""What follows a failed attempt."""

from __future__ import annotations

from blueflame.model.attempt import BLAMELESS, Ending
from blueflame.model.limits import Limits
from blueflame.model.task import TaskRecord

MAX_LOSSES = 3
"""An attempt that vanishes is tried again without blame, but a task that always vanishes has failed."""


def is_blameless(record: TaskRecord, ending: Ending) -> bool:
    return ending in BLAMELESS and (ending is not Ending.LOST or record.losses < MAX_LOSSES)


def may_retry(record: TaskRecord, limits: Limits) -> bool:
    return record.retries < limits.max_retries
