"""The history of work that a task fixes, as Markdown: what was asked for, committed, judged and handed over."""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.task import FixedWork, TaskRecord
from blueflame.model.verdict import StageVerdict
from blueflame.session.hand_offs import list_last_hand_offs
from blueflame.session.state import Session
from blueflame.text.hand_offs import select_hand_offs
from blueflame.text.notes import clean_note
from blueflame.text.tokens import BYTES_PER_TOKEN

MAX_TOKENS = 4_000
MAX_DESCRIPTION_CHARS, MAX_NOTE_CHARS = 2_000, 600
MAX_VERDICTS = 5
CUT = "\n[cut here: it is longer]\n"


def name_fixed_work(work: FixedWork) -> str:
    """`task-001 of ses-20260206-143022, landed as 1234567890ab`"""
    return f"{', '.join(work.tasks)} of {work.session}" + (f", landed as {work.commit[:12]}" if work.commit else "")


def describe_fixed_work(session: Session, work: FixedWork) -> str:
    """Describe it from its session's journal. Longer ones are cut at the end, where the hand-offs are."""
    landed = f"It landed on {session.base_branch} as commit {work.commit}." if work.commit else "It has not landed yet."
    parts = [f"# Work of {session.id}", "", landed]
    for name in work.tasks:
        if name in session.tasks:
            parts += _describe_task(session.tasks[name])
    parts += ["", *select_hand_offs(list_last_hand_offs(session, *work.tasks))]
    return _cut_text("\n".join(parts))


def _describe_task(record: TaskRecord) -> Iterator[str]:
    task, result = record.task, record.result
    yield from ("", f"## {task.id}: {clean_note(task.title, MAX_NOTE_CHARS)}", "")
    yield clean_note(task.description, MAX_DESCRIPTION_CHARS)
    if result is not None:
        subject = f" ({clean_note(result.subject, MAX_NOTE_CHARS)})" if result.subject else ""
        yield f"- commits: {result.base}..{result.sha}{subject}"
    for entry in record.history:
        why = clean_note(entry.rejection_reason or entry.notes, MAX_NOTE_CHARS)
        yield f"- attempt {entry.attempt}: {entry.result.value}{f': {why}' if why else ''}"
    yield from map(_describe_verdict, record.verdicts[-MAX_VERDICTS:])


def _describe_verdict(given: StageVerdict) -> str:
    words = "; ".join((given.summary, *given.verdict.issues))
    return f"- verdict of {given.name} on {given.sha[:12]}: {clean_note(words, MAX_NOTE_CHARS)}"


def _cut_text(text: str) -> str:
    room = MAX_TOKENS * BYTES_PER_TOKEN - len(CUT)
    whole = text.encode("utf-8", "surrogatepass")
    return text if len(whole) <= room else whole[:room].decode("utf-8", "ignore") + CUT
