"""When entries that left a knowledge file are written to the archive, under which name, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blueflame.knowledge.entry import format_day, format_entry
from blueflame.model.memory import Lesson

WEEK = 7 * 86_400.0
MAX_WAITING_BYTES = 50_000
MAX_TASKS = 50


def is_archive_due(waiting: Sequence[Lesson], *, last: float, tasks: int, now: float) -> bool:
    """`waiting`: entries that left the file; `last`: the last archive; `tasks`: that ended since."""
    if not waiting:
        return False
    size = sum(len(each.text.encode("utf-8", "surrogatepass")) for each in waiting)
    return now - last >= WEEK or size > MAX_WAITING_BYTES or tasks > MAX_TASKS


def list_archive_names(name: str, now: float) -> Iterator[str]:
    """Yield paths below the archive, the first of which that is free is used: an archive is never overwritten."""
    day = format_day(now) or "1970-01-01"
    base = f"{day[:7]}/{name.replace('/', '-')}_{day}"
    yield f"{base}.md"
    for number in range(2, 1000):
        yield f"{base}_{number}.md"


def format_archive(name: str, lessons: Sequence[Lesson], now: float) -> str:
    """In the format of the files, so that an entry can be put back by hand."""
    title = f"# {name}, archived on {format_day(now)}"
    head = (title, "", "<!-- To have an entry back, copy it with its comment into its file. -->", "")
    return "\n".join([*head, *(line for each in lessons for line in format_entry(each))])
