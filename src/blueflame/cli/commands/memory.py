"""`blueflame memory`: list, show, why, forget, export, import, sync, propose, curate, confirm, add."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blueflame.cli.completers import complete_item
from blueflame.cli.options import (
    PATH,
    RUN_PARAMETERS,
    CommandGroup,
    check_role,
    config_option,
    foreground_options,
    json_option,
    refuse_idle,
    session_option,
)
from blueflame.cli.output import print_result
from blueflame.model.errors import MemoryFailed, UsageError
from blueflame.model.memory import RECORD_KIND_NAMES, RECORD_TYPES, Lesson, MemoryRecord, get_knowledge_file
from blueflame.orchestrator.lifecycle import prepare_folders
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.wiring import open_memory, open_mirror, open_mirrored_memory
from blueflame.system.clock import SystemClock
from blueflame.text.sanitize import shorten_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blueflame.cli.foreground import RunOptions
    from blueflame.memory.builtin import BuiltInMemory
    from blueflame.memory.curator import CurationReport
    from blueflame.memory.redis_mirror import Import
    from blueflame.model.settings import Settings

MAX_REFUSED = 5

memory_app = CommandGroup(
    "memory", help="List, show, explain, add, confirm, curate, forget, export, import and mirror what is remembered."
)

key_argument = click.argument("key", help="Key of the record, or its beginning.")
file_argument = click.argument("file", type=PATH, help="File in the format of Beads (beads-jsonl/1).")
source_argument = click.argument(
    "source", help="File in the format of Beads, or a server: redis://host:6379/0, env:NAME for one in a variable."
)
kind_option = click.option("--kind", "-k", help="Only this kind: task-result, task-failure, session-summary or lesson.")


@memory_app.command("list")
@kind_option
@config_option
@json_option
def list_(kind: str | None, config: Path | None, as_json: bool) -> int:
    """List what is remembered, newest first."""
    from blueflame.cli.render.memory import render_records
    from blueflame.model.suggestions import suggest
    from blueflame.views.memory import build_records_json

    if kind is not None and kind not in RECORD_TYPES:
        hint = suggest(kind, RECORD_TYPES) or f"use one of {', '.join(RECORD_TYPES)}"
        raise UsageError(f"--kind: unknown kind {kind!r}: {hint}")
    project = open_project(config)
    memory = open_memory(project)
    records = [each for each in memory.list_records() if kind in (None, RECORD_KIND_NAMES[type(each)])]
    records.sort(key=lambda record: (record.origin.at, record.key), reverse=True)
    effects, refused, problems = memory.store.list_effects(), memory.store.list_refused(), memory.find_problems()
    build = build_records_json if as_json else render_records
    return print_result(build(records, effects, project.settings, refused, problems))


@memory_app.command("show")
@key_argument
@config_option
@json_option
def show_(key: str, config: Path | None, as_json: bool) -> int:
    """Show one record: its contents and its origin."""
    from blueflame.cli.render.memory import render_record
    from blueflame.memory.codec import dump_record

    memory = open_memory(open_project(config))
    found = _find_records(memory.list_records(), key)
    if len(found) > 1:
        raise UsageError(f"{len(found)} records begin with {key!r}: {', '.join(each.key for each in found[:5])}")
    if as_json:
        return print_result({"record": dump_record(found[0])})
    return print_result(render_record(found[0], memory.store.list_effects().get(found[0].key)))


@memory_app.command()
@click.argument("attempt", shell_complete=complete_item, help="Agent, attempt or task: see 'blueflame status'.")
@session_option
@config_option
@json_option
def why(attempt: str, session: str | None, config: Path | None, as_json: bool) -> int:
    """Show what an attempt was given from earlier sessions and why, and what was left out."""
    from blueflame.cli.render.memory import render_given
    from blueflame.orchestrator.sessions import find_session, load_session, open_journal
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
    return print_result(build_given_json(view) if as_json else render_given(view))


@memory_app.command()
@key_argument
@config_option
@json_option
def forget(key: str, config: Path | None, as_json: bool) -> int:
    """Delete all records whose key begins with KEY."""
    memory = open_memory(open_project(config))
    gone = memory.forget([each.key for each in _find_records(memory.store.list_records(), key)])
    return print_result({"forgotten": list(gone)} if as_json else "\n".join(f"forgotten: {each}" for each in gone))


@memory_app.command("export")
@file_argument
@config_option
@json_option
def export_(file: Path, config: Path | None, as_json: bool) -> int:
    """Write all records to a file that Beads can read."""
    from blueflame.memory.beads_file import write_jsonl

    records = open_memory(open_project(config)).store.list_records()
    write_jsonl(file, records)
    done = {"path": str(file), "records": len(records)}
    return print_result(done if as_json else f"{len(records)} records written to {file}")


@memory_app.command("import")
@source_argument
@click.option("--project", "-p", default="", help="Id or name of another project on the server [default: this one].")
@config_option
@json_option
def import_(source: str, project: str, config: Path | None, as_json: bool) -> int:
    """Read records from a file (all of them, or none if a line is invalid) or from a Redis mirror."""
    from blueflame.memory.beads_file import read_jsonl
    from blueflame.model.settings.mirrors import is_address

    if not is_address(source):
        refuse_idle("without a server", "project")
    opened = open_project(config)
    found = _read_server(opened, source, project) if is_address(source) else None
    records = found.records if found else read_jsonl(Path(source))
    prepare_folders(opened)
    # what a person made us forget comes back from a file of theirs, not from a server that others write to
    done = open_memory(opened).import_records(records, revive=found is None)
    path, unread = (None, found.refused) if found else (source, ())
    refused = [*unread, *(f"{each.key}: {each.reason}" for each in done.refused)]
    if as_json:
        counts = {"path": path, "records": len(records), "new": done.new}
        return print_result(counts | {"refused": refused, "warning": done.warning or None})
    read = f"{len(records)} records read from {path or 'the server'}, {done.new} new"
    return print_result("\n".join(filter(None, (read, *_list_refused(refused), done.warning))))


@memory_app.command()
@config_option
@json_option
def sync(config: Path | None, as_json: bool) -> int:
    """Bring every mirror up to date now."""
    from blueflame.model.exit_codes import ExitCode

    ended = open_mirrored_memory(open_project(config)).sync()
    data = {"mirrors": [each._asdict() | {"problem": each.problem or None} for each in ended]}
    done = (each.problem or f"{each.mirror}: {each.sent} sent, {each.removed} removed" for each in ended)
    words = "\n".join(done) or "There are no mirrors: see memory.mirrors and memory.provider."
    print_result(data if as_json else words)
    return ExitCode.WORLD if any(each.problem for each in ended) else ExitCode.OK


@memory_app.command()
@click.argument("keys", nargs=-1, help="Keys of lessons, or their beginnings [default: all that a person confirmed].")
@click.option("--file", "-f", "name", help="File of instructions to add to [default: AGENTS.md].")
@click.option("--role", "-r", help="Add to the persona of this role instead: to its roles.ROLE.persona_file.")
@click.option("--dry-run", is_flag=True, help="Print the lines and their evidence; start nothing.")
@foreground_options
def propose(*, keys: tuple[str, ...], name: str | None, role: str | None, dry_run: bool, options: RunOptions) -> int:
    """Propose confirmed lessons for AGENTS.md, CLAUDE.md or a persona: a changeset with evidence, which you approve."""
    from blueflame.cli.proposal import run_proposal
    from blueflame.cli.trust import open_trusted_project
    from blueflame.git.blobs import read_files_at
    from blueflame.knowledge.proposals import add_lessons, choose_proposed, describe_evidence
    from blueflame.text.format import format_count

    refuse_idle("without a model: the lines are those of the lessons", "script", "record", "replay")
    project = open_trusted_project(options.config, can_ask=options.can_ask_for_trust)
    name, kinds = _find_instructions(project.settings, name, role)
    text = read_files_at(project.repo, project.repo.base_sha, (name,)).get(name, b"").decode("utf-8", "surrogateescape")
    lessons = [each for each in open_memory(project).list_records() if isinstance(each, Lesson)]
    fitting = (each for each in lessons if (each.key.startswith(keys) if keys else not kinds or each.about in kinds))
    chosen = choose_proposed(fitting, text)
    if not chosen:
        raise UsageError(f"nothing to propose: no confirmed lesson is missing in {name}; see 'blueflame memory list'")
    evidence = describe_evidence(chosen)
    if dry_run:
        found = {"file": name, "lessons": [each.key for each in chosen], "evidence": evidence}
        return print_result(found if options.as_json else evidence)
    title = f"Add {format_count(len(chosen), 'confirmed lesson')} to {name}"
    return run_proposal(project, options, path=name, text=add_lessons(text, chosen), title=title, evidence=evidence)


def _find_instructions(settings: Settings, name: str | None, role: str | None) -> tuple[str, frozenset[str]]:
    """Return the file to add to, and the kinds of lessons that belong there; none: all."""
    from blueflame.knowledge.selection import DUTY_KINDS
    from blueflame.model.attempt import Duty

    if role is None:
        chosen, names = name or "AGENTS.md", settings.instructions.files
        if chosen not in names:
            raise UsageError(
                f"--file: {chosen!r} is not a file of instructions: instructions.files has {', '.join(names)}"
            )
        return chosen, frozenset()
    if name is not None:
        raise UsageError("--file and --role cannot be combined: the file is that of the role")
    check_role("--role", role, settings.roles)
    found = settings.roles[role]
    if found.persona_file is None:
        raise UsageError(
            f"{role} has no file for its persona: name one in the configuration, such as "
            f"roles.{role}.persona_file: docs/agents/{role}.md; it need not exist"
        )
    return found.persona_file, DUTY_KINDS.get(Duty(found.duty), frozenset())


def _read_server(project: Project, address: str, wanted: str) -> Import:
    """Read the records of this project, or of another one by its id or name."""
    from blueflame.model.settings.mirrors import ENVIRONMENT, HINT, find_address_problem

    if not address.startswith(ENVIRONMENT) and (problem := find_address_problem(address, secret=True)):
        raise UsageError(f"the address {problem}: {HINT}")
    try:
        server = open_mirror(project, address)
        projects = server.list_projects()
        chosen = [name for name, title in projects.items() if wanted in (name, title)] if wanted else [""]
        found = server.read_records(chosen[0]) if len(chosen) == 1 else None
    except MemoryFailed as error:
        raise MemoryFailed(f"the server: {str(error).removeprefix('the server: ')}; nothing was imported") from error
    if found and wanted:  # results and costs of another project would mislead estimates
        found = found._replace(records=tuple(each for each in found.records if isinstance(each, Lesson)))
    if found and (found.records or found.refused):
        return found
    there = ", ".join(f"{name} ({title})" for name, title in projects.items()) or "none"
    raise UsageError(f"the server has no records of {wanted or 'this project'}, or several fit; it has: {there}")


def _list_refused(refused: Sequence[str]) -> list[str]:
    more = [f"refused: … and {len(refused) - MAX_REFUSED} more"] if len(refused) > MAX_REFUSED else []
    return [*(f"refused: {shorten_line(each, 200)}" for each in refused[:MAX_REFUSED]), *more]


@memory_app.command()
@click.argument("request", default="", help="With --agent: what it should look at [default: all].")
@click.option("--agent", is_flag=True, help="Then have an agent propose changes, as a diff that you approve or not.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@foreground_options
def curate(*, request: str, agent: bool, dry_run: bool, options: RunOptions) -> int:
    """Apply the rules to the knowledge files: duplicates, budgets, what is out of date, contradictions."""
    from blueflame.cli.proposal import run_curation
    from blueflame.cli.trust import open_trusted_project
    from blueflame.memory.registry import is_remembered
    from blueflame.views.curation import build_curation_json, list_curation_lines

    if agent and dry_run:
        raise UsageError("--agent and --dry-run cannot be combined: what an agent proposes is asked about")
    if not agent:
        refuse_idle("without --agent", "request", *RUN_PARAMETERS)
    project = (
        open_trusted_project(options.config, can_ask=options.can_ask_for_trust)
        if agent
        else open_project(options.config)
    )
    if agent and not is_remembered(project.settings):
        raise UsageError("nothing is remembered here (memory.provider or beads.enabled): there is nothing to curate")
    prepare_folders(project)
    report = open_memory(project).curate(dry_run=dry_run)
    if not dry_run:
        _log_curation(project, report)
    if agent:
        return run_curation(project, options, request)
    if options.as_json:
        return print_result(build_curation_json(report, dry_run=dry_run))
    return print_result("\n".join(list_curation_lines(report)) or "nothing to do: the files are within their budgets")


def _log_curation(project: Project, report: CurationReport) -> None:
    """Add the line that sessions add to the activity log."""
    from blueflame.documents.exports import append_activity
    from blueflame.knowledge.curate import sum_up_steps
    from blueflame.model.event import JournalEntry
    from blueflame.text.event_lines import format_log_lines

    event = sum_up_steps(report.steps)
    entries = [JournalEntry(0, SystemClock().now(), event)] if event else []
    append_activity(project.paths.activity_log, format_log_lines(entries))


@memory_app.command()
@key_argument
@config_option
@json_option
def confirm(key: str, config: Path | None, as_json: bool) -> int:
    """Agree to a lesson: it stays in its file, whatever the budget and its age; an archived one comes back."""
    from dataclasses import replace

    memory = open_memory(open_project(config))
    memory.pick_up_edits()
    found = _find_records(memory.store.list_records(), key)
    if len(found) > 1 or not isinstance(found[0], Lesson):
        names = ", ".join(each.key for each in found[:5])
        raise UsageError(f"{key!r} is not one lesson ({names}): see 'blueflame memory list --kind lesson'")
    lesson = replace(found[0], confirmed=True, stale=False, archived="", superseded_by="")
    return _add_lesson(memory, lesson, "confirmed", as_json=as_json)


@memory_app.command()
@click.argument("text", help="What agents should know; quote it.")
@click.option("--file", "-f", "name", default="codebase-insights", help="Knowledge file [default: codebase-insights].")
@click.option("--path", "-p", "paths", multiple=True, help="File or folder that it is about; may be repeated.")
@config_option
@json_option
def add(text: str, name: str, paths: tuple[str, ...], config: Path | None, as_json: bool) -> int:
    """Add an entry of your own to a knowledge file."""
    from blueflame.knowledge.person import build_own_lesson

    lesson = build_own_lesson(text, name=name, paths=paths, at=SystemClock().now())
    project = open_project(config)
    prepare_folders(project)
    return _add_lesson(open_memory(project), lesson, "added", as_json=as_json)


def _add_lesson(memory: BuiltInMemory, lesson: Lesson, done: str, *, as_json: bool) -> int:
    warning = memory.add(lesson)
    file = memory.files.build_path(get_knowledge_file(lesson).name)
    data = {"key": lesson.key, "file": str(file), "warning": warning or None}
    return print_result(data if as_json else f"{done}: {lesson.key} in {file}\n{warning}".rstrip("\n"))


def _find_records(records: Sequence[MemoryRecord], key: str) -> list[MemoryRecord]:
    """Return the record with this key, else all whose key begins with it; UsageError without any."""
    found = [each for each in records if each.key == key] or [each for each in records if each.key.startswith(key)]
    if not found or not key:
        raise UsageError(f"no record {key!r}: see 'blueflame memory list'")
    return found
