"""The map of the code base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.codebase.draw import describe_gap, format_counts, format_size, list_names
from blueflame.text.format import format_count
from blueflame.text.sanitize import clean_text, shorten_line
from blueflame.views.code_map import CodeMapView
from blueflame.views.parts import NamedValue

MAX_FOLDERS, MAX_FILES, MAX_FACTS, MAX_SYMBOLS = 40, 40, 8, 200


def render_code_map(view: CodeMapView) -> RenderableType:
    return stack_parts(
        Group(
            Heading(clean_text(view.path) or "Code base", format_count(view.files, "file"), format_size(view.size)),
            build_facts(tuple(_list_facts(view))),
        ),
        _render_folders(view) if len(view.folders) > 1 else None,
        _render_symbols(view),
    )


def _list_facts(view: CodeMapView) -> Iterator[NamedValue]:
    facts = view.facts
    last = f"in the last {format_count(facts.commits, 'commit')}"
    lists = (
        ("Languages", format_counts(facts.languages[:MAX_FACTS]), ""),
        ("Begin at", ", ".join(facts.entries[:MAX_FACTS]), ""),
        ("Tests", format_counts(facts.tests[:MAX_FACTS]), ""),
        ("Changed often", _join(f"{path} ({n})" for path, n in facts.changed[:MAX_FACTS]), last),
        ("Together", _join(f"{a} + {b} ({n} of {of})" for a, b, n, of in facts.pairs[:MAX_FACTS]), last),
        ("Owners", _join(f"{at} {who} ({n} of {of})" for at, who, n, of in facts.owners[:MAX_FACTS]), last),
        ("Parser", view.coverage.parser, ""),
        ("Left out", describe_gap(view.coverage), ""),
    )
    yield from (NamedValue(name, clean_text(text), note=note) for name, text, note in lists if text)


def _join(parts: Iterable[str]) -> str:
    return "\n".join(parts)


def _render_folders(view: CodeMapView) -> RenderableType:
    rows = [
        (Text(clean_text(each.path), "id"), format_count(each.files, "file"), format_size(each.size))
        for each in view.folders[:MAX_FOLDERS]
    ]
    return Group(build_columns(rows, whole=(0,)), *_say_more(len(view.folders) - MAX_FOLDERS, "folder"))


def _render_symbols(view: CodeMapView) -> RenderableType | None:
    """One file symbol by symbol, several in a line each."""
    if len(view.outlines) == 1 and view.files == 1:
        (symbols,) = view.outlines.values()
        rows = [
            (str(each.line), Text(each.kind, "quiet"), Text(clean_text(f"{each.scope}.{each.name}".strip(".")), "id"))
            for each in symbols[:MAX_SYMBOLS]
        ]
        return Group(build_columns(rows, whole=(0, 1)), *_say_more(len(symbols) - MAX_SYMBOLS, "symbol"))
    lines = [(path, ", ".join(list_names(symbols))) for path, symbols in view.outlines.items()]
    named = [(Text(clean_text(path), "id"), shorten_line(names, 300)) for path, names in lines if names]
    if not named:
        return None
    return Group(build_columns(named[:MAX_FILES], whole=(0,)), *_say_more(len(named) - MAX_FILES, "file"))


def _say_more(n: int, noun: str) -> Iterator[Text]:
    if n > 0:
        yield Text(f"  … and {format_count(n, noun)} more; --json has all", "quiet")
