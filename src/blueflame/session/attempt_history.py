"""What a task's next attempt is told about the earlier ones: bounded, however often it comes back."""

from __future__ import annotations

from dataclasses import replace

from blueflame.model.task import HistoryEntry, HistoryResult, TaskRecord

MAX_NOTE_CHARS = 2_000


def build_history_entry(
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


def limit_history(history: tuple[HistoryEntry, ...], most: int) -> tuple[HistoryEntry, ...]:
    """The newest entries, each with its notes cut to a length that a prompt can bear."""
    kept = history[-most:] if most > 0 else ()
    return tuple(
        replace(entry, notes=truncate_text(entry.notes), rejection_reason=truncate_text(entry.rejection_reason))
        for entry in kept
    )


def truncate_text(text: str, most: int = MAX_NOTE_CHARS) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 30]} … [{len(text) - most + 30} characters cut]"
