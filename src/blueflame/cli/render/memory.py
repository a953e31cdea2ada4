"""The records of earlier sessions, as a list and one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.knowledge.effect import Effect
from blueflame.memory.shelves import RefusedRecord
from blueflame.model.memory import RECORD_KIND_NAMES, LeftOut, Lesson, MemoryRecord, get_headline
from blueflame.model.settings import Settings
from blueflame.text.format import format_count
from blueflame.text.sanitize import clean_text, shorten_line
from blueflame.views.memory import (
    GivenRow,
    GivenView,
    describe_memory,
    describe_reason,
    describe_shelf,
    list_record_facts,
)

MAX_ROWS = 60
MAX_LISTED, MAX_HEADLINE = 120, 160
MAX_REFUSED = 5


def render_records(
    records: Sequence[MemoryRecord],
    effects: Mapping[str, Effect],
    settings: Settings,
    refused: Sequence[RefusedRecord] = (),
    problems: Sequence[str] = (),
) -> RenderableType:
    rows = [
        (
            Text(RECORD_KIND_NAMES[type(each)], "group"),
            Text.assemble(
                shorten_line(_describe(each), MAX_LISTED),
                (_format_effect(effects.get(each.key)), "quiet"),
                (f"\n{clean_text(each.key)}", "id"),  # on its own line: keys are long, and have to be copied whole
            ),
        )
        for each in records[:MAX_ROWS]
    ]
    more = len(records) - MAX_ROWS
    rest = Text(f"  … and {more:,} more; --json has all", "quiet") if more > 0 else None
    return stack_parts(
        Group(
            Heading("Memory", format_count(len(records), "record")),
            Padding(Text(describe_memory(settings), "quiet"), (0, 0, 0, 2), expand=False),
        ),
        build_columns(rows, whole=(0,)) if rows else Text("No records yet.", "quiet"),
        rest,
        _render_refused(refused),
        Group(*(Text(clean_text(problem), "warn") for problem in problems)) if problems else None,
    )


def _describe(record: MemoryRecord) -> str:
    """A lesson begins with its file."""
    shelf = f"{describe_shelf(record)}: " if isinstance(record, Lesson) else ""
    return f"{shelf}{get_headline(record)}"


def _render_refused(refused: Sequence[RefusedRecord]) -> RenderableType | None:
    """The newest; --json has all."""
    if not refused:
        return None
    rows = [(Text(clean_text(each.key), "id"), each.reason) for each in refused[:MAX_REFUSED]]
    return Group(
        Heading("Refused", f"{format_count(len(refused), 'record')}, not kept"), build_columns(rows, whole=(0,))
    )


def _format_effect(effect: Effect | None) -> str:
    """`(given 12 times: harms)`; nothing for a record that no attempt was given."""
    if effect is None or not effect.given:
        return ""
    times = "once" if effect.given == 1 else f"{effect.given} times"
    return f" (given {times}: {effect.finding.value})"


def render_record(record: MemoryRecord, effect: Effect | None) -> RenderableType:
    return Group(
        Heading(RECORD_KIND_NAMES[type(record)], clean_text(record.key)), build_facts(list_record_facts(record, effect))
    )


def render_given(view: GivenView) -> RenderableType:
    given = [row for row in view.lessons if row.why.left_out is None]
    counts = f"{len(given)} given, {len(view.lessons) - len(given)} left out"
    parts = [
        _render_rows("For every agent of the session", view.shared),
        _render_rows("About its work, best first", given),
        *(
            _render_rows(words, [row for row in view.lessons if row.why.left_out is reason])
            for reason, words in LEFT_OUT.items()
        ),
    ]
    shown = [part for part in parts if part is not None]
    return stack_parts(Heading("Lessons", clean_text(view.agent), counts), *(shown or [Text(NOTHING, "quiet")]))


LEFT_OUT: Mapping[LeftOut, str] = {
    LeftOut.BUDGET: "Left out: the tokens were used up (memory.lesson_tokens, for planners memory.context_tokens)",
    LeftOut.CONTROL: "Left out to compare (memory.control_every)",
}
NOTHING = "Nothing of earlier sessions is about its work."


def _render_rows(title: str, rows: Sequence[GivenRow]) -> RenderableType | None:
    if not rows:
        return None
    drawn = [_render_row(row) for row in rows]
    return Group(Text(title, "head"), *drawn)


def _render_row(row: GivenRow) -> RenderableType:
    text = shorten_line(row.headline, MAX_HEADLINE) if row.headline else "(forgotten since)"
    why = f"\n{clean_text(describe_reason(row.why))}" if row.why.score else ""
    words = Text.assemble(text, (why, "quiet"))
    return Group(Text.assemble("  ", (clean_text(row.why.key), "id")), Padding(words, (0, 0, 0, 4), expand=False))
