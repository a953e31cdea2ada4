"""What a task's next attempt is told about the earlier ones: bounded, however often it comes back."""

from __future__ import annotations

from dataclasses import replace

from blueflame.model.task import HistoryEntry, HistoryResult, TaskRecord

MAX_NOTES = 2_000


def remembered(
    record: TaskRecord, result: HistoryResult, at: float, *, notes: str = "", rejection_reason: str = ""
) -> HistoryEntry:
    """What is remembered of the task's present attempt."""
    return HistoryEntry(
        attempt=record.attempts,
        agent_id=record.agent_id or "",
        at=at,
        result=result,
        notes=notes,
        rejection_reason=rejection_reason,
    )


def bounded(history: tuple[HistoryEntry, ...], most: int) -> tuple[HistoryEntry, ...]:
    """The newest entries, each with its notes cut to a length that a prompt can bear."""
    kept = history[-most:] if most > 0 else ()
    return tuple(replace(entry, notes=cut(entry.notes), rejection_reason=cut(entry.rejection_reason)) for entry in kept)


def cut(text: str, most: int = MAX_NOTES) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 30]} … [{len(text) - most + 30} characters cut]"
