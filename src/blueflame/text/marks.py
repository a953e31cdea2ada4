"""The marks at the beginning of a line: passed, failed, a note, and one for each state of a task."""

from __future__ import annotations

from collections.abc import Mapping

from blueflame.model.task import TaskState

OK, BAD, NOTE, DOT = "✓", "✗", "!", "·"


MARKS: Mapping[TaskState, tuple[str, str]] = {
    TaskState.PENDING: (DOT, "quiet"),
    TaskState.CLAIMED: ("▸", "id"),
    TaskState.PARTIAL: ("◐", ""),
    TaskState.DONE: ("○", ""),
    TaskState.VALIDATED: ("●", ""),
    TaskState.MERGED: (OK, "good"),
    TaskState.FAILED: (BAD, "bad"),
    TaskState.BLOCKED: ("⊘", "bad"),
    TaskState.REQUEUED: ("↻", "warn"),
    TaskState.DEFERRED: ("◌", "warn"),
    TaskState.DROPPED: ("-", "quiet"),
}
