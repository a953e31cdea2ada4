"""The live feed: the short line of each event, with its time and in colour."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from rich.text import Text

from blueflame.model import event as happened
from blueflame.model.event import JournalEntry
from blueflame.model.task import Cause
from blueflame.text.event_lines import AGAIN, QUESTION, describe_event_briefly
from blueflame.text.marks import BAD, DOT, NOTE, OK
from blueflame.text.sanitize import clean_line

STYLES: Mapping[str, str] = {OK: "good", BAD: "bad", NOTE: "warn", AGAIN: "warn", QUESTION: "warn", DOT: "quiet"}


def format_events(recorded: Sequence[JournalEntry]) -> list[Text]:
    """Lines for events of one moment: a failure that is retried at once gets one line, not two."""
    retried = {
        e.event.task for e in recorded if isinstance(e.event, happened.TaskMoved) and e.event.cause is Cause.RETRY
    }
    lines = (format_event(each) for each in recorded if not _is_failure_of(retried, each))
    return [line for line in lines if line is not None]


def _is_failure_of(tasks: Collection[str], recorded: JournalEntry) -> bool:
    event = recorded.event
    return isinstance(event, happened.TaskMoved) and event.cause is Cause.FAIL and event.task in tasks


def format_event(recorded: JournalEntry) -> Text | None:
    """`12:03:04  ✓ task-001 #1 passed`, in local time; None for events without a line."""
    line = describe_event_briefly(recorded)
    if line is None:
        return None
    at = datetime.fromtimestamp(recorded.at).astimezone()
    return Text.assemble(
        (f"{at:%H:%M:%S}  ", "quiet"), (f"{line.mark} ", STYLES[line.mark]), clean_line(line.words), no_wrap=True
    )
