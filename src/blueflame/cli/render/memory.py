"""The records of earlier sessions, as a list and one by one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.model.memory import RECORD_KIND_NAMES, MemoryRecord, get_headline
from blueflame.model.settings import Settings
from blueflame.text.format import format_count
from blueflame.text.sanitize import clean_text, shorten_line
from blueflame.views.memory import describe_memory, list_record_facts

MAX_ROWS = 60


def render_records(records: Sequence[MemoryRecord], settings: Settings) -> RenderableType:
    rows = [
        (
            Text(RECORD_KIND_NAMES[type(each)], "group"),
            Text(clean_text(each.key), "id"),
            shorten_line(get_headline(each), 60),
        )
        for each in records[:MAX_ROWS]
    ]
    more = len(records) - MAX_ROWS
    rest = Text(f"  … and {more:,} more; --json has all", "quiet") if more > 0 else None
    return stack_parts(
        Group(Heading("Memory", format_count(len(records), "record")), Text(f"  {describe_memory(settings)}", "quiet")),
        build_columns(rows, whole=(0, 1)) if rows else Text("No records yet.", "quiet"),
        rest,
    )


def render_record(record: MemoryRecord) -> RenderableType:
    return Group(
        Heading(RECORD_KIND_NAMES[type(record)], clean_text(record.key)), build_facts(list_record_facts(record))
    )
