"""`blueflame memory`: list, show, why, forget, export, import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.completers import complete_item
from blueflame.cli.options import PATH, CommandGroup, config_option, json_option, session_option
from blueflame.cli.output import print_json, print_text
from blueflame.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blueflame.model.memory import MemoryRecord

memory_app = CommandGroup(
    "memory", help="List, show, explain, forget, export and import what is remembered of earlier sessions."
)

key_argument = click.argument("key", help="Key of the record, or its beginning.")
file_argument = click.argument("file", type=PATH, help="File in the format of Beads (beads-jsonl/1).")
kind_option = click.option("--kind", "-k", help="Only this kind: task-result, task-failure, session-summary or lesson.")


@memory_app.command("list")
@kind_option
@config_option
@json_option
def list_(kind: str | None, config: Path | None, as_json: bool) -> int:
    """List what is remembered, newest first."""
    from blueflame.cli.console import make_console, print_view
    from blueflame.cli.render.memory import render_records
    from blueflame.model.memory import RECORD_TYPES
    from blueflame.model.suggestions import suggest
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.wiring import open_memory
    from blueflame.views.memory import build_records_json

    if kind is not None and kind not in RECORD_TYPES:
        hint = suggest(kind, RECORD_TYPES) or f"use one of {', '.join(RECORD_TYPES)}"
        raise UsageError(f"--kind: unknown kind {kind!r}: {hint}")
    project = open_project(config)
    memory = open_memory(project)
    records = [each for each in _sort_newest_first(memory.list_records()) if kind in (None, _get_kind(each))]
    effects = memory.store.list_effects()
    if as_json:
        print_json(build_records_json(records, effects, project.settings))
    else:
        print_view(make_console(), render_records(records, effects, project.settings))
    return 0


@memory_app.command("show")
@key_argument
@config_option
@json_option
def show_(key: str, config: Path | None, as_json: bool) -> int:
    """Show one record: its contents and its origin."""
    from blueflame.cli.console import make_console, print_view
    from blueflame.cli.render.memory import render_record
    from blueflame.memory.codec import dump_record
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.wiring import open_memory

    memory = open_memory(open_project(config))
    found = _find_records(memory.list_records(), key)
    if len(found) > 1:
        raise UsageError(f"{len(found)} records begin with {key!r}: {', '.join(each.key for each in found[:5])}")
    if as_json:
        print_json({"record": dump_record(found[0])})
    else:
        print_view(make_console(), render_record(found[0], memory.store.list_effects().get(found[0].key)))
    return 0


@memory_app.command()
@click.argument("attempt", shell_complete=complete_item, help="Agent, attempt or task: see 'blueflame status'.")
@session_option
@config_option
@json_option
def why(attempt: str, session: str | None, config: Path | None, as_json: bool) -> int:
    """Show what an attempt was given from earlier sessions and why, and what was left out."""
    from blueflame.cli.console import make_console, print_view
    from blueflame.cli.render.memory import render_given
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_session, load_session, open_journal
    from blueflame.orchestrator.wiring import open_memory
    from blueflame.views.items import find_attempt
    from blueflame.views.memory import build_given_json, build_given_view, list_given_keys

    project = open_project(config)
    with open_journal(project) as journal:
        names = journal.list_ids()
        own = next((name for name in names if attempt.startswith(f"{name}.")), None)
        found = load_session(journal, find_session(journal, session or own))
    record = find_attempt(found, attempt)
    known = open_memory(project).load(list_given_keys(found, record))
    view = build_given_view(found, record, known.records)
    if as_json:
        print_json(build_given_json(view))
    else:
        print_view(make_console(), render_given(view))
    return 0


@memory_app.command()
@key_argument
@config_option
@json_option
def forget(key: str, config: Path | None, as_json: bool) -> int:
    """Delete all records whose key begins with KEY."""
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.wiring import open_memory

    memory = open_memory(open_project(config))
    gone = memory.forget([each.key for each in _find_records(memory.store.list_records(), key)])
    if as_json:
        print_json({"forgotten": list(gone)})
    else:
        print_text("\n".join(f"forgotten: {each}" for each in gone))
    return 0


@memory_app.command("export")
@file_argument
@config_option
@json_option
def export_(file: Path, config: Path | None, as_json: bool) -> int:
    """Write all records to a file that Beads can read."""
    from blueflame.memory.beads_file import write_jsonl
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.wiring import open_memory

    records = open_memory(open_project(config)).store.list_records()
    write_jsonl(file, records)
    if as_json:
        print_json({"path": str(file), "records": len(records)})
    else:
        print_text(f"{len(records)} records written to {file}")
    return 0


@memory_app.command("import")
@file_argument
@config_option
@json_option
def import_(file: Path, config: Path | None, as_json: bool) -> int:
    """Read records from a file in the format of Beads: all of them, or none if a line is invalid."""
    from blueflame.memory.beads_file import read_jsonl
    from blueflame.orchestrator.lifecycle import prepare_folders
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.wiring import open_memory

    project = open_project(config)
    records = read_jsonl(file)
    prepare_folders(project)
    memory = open_memory(project)
    before = len(memory.store.list_records())
    memory.store.allow_again([record.key for record in records])
    warning = memory.remember(records)
    new = len(memory.store.list_records()) - before
    if as_json:
        print_json({"path": str(file), "records": len(records), "new": new})
    else:
        print_text(f"{len(records)} records read from {file}, {new} new" + (f"\n{warning}" if warning else ""))
    return 0


def _get_kind(record: MemoryRecord) -> str:
    from blueflame.model.memory import RECORD_KIND_NAMES

    return RECORD_KIND_NAMES[type(record)]


def _sort_newest_first(records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    return sorted(records, key=lambda record: (record.origin.at, record.key), reverse=True)


def _find_records(records: Sequence[MemoryRecord], key: str) -> list[MemoryRecord]:
    """Return the record with this key, else all whose key begins with it; UsageError without any."""
    found = [each for each in records if each.key == key] or [each for each in records if each.key.startswith(key)]
    if not found or not key:
        raise UsageError(f"no record {key!r}: see 'blueflame memory list'")
    return found
