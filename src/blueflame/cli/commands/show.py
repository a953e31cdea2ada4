"""`blueflame show` and `blueflame diff`: one plan, task, attempt, changeset or gate, from any terminal."""

from __future__ import annotations

from pathlib import Path

import click

from blueflame.cli.completers import complete_item
from blueflame.cli.options import config_option, json_option, session_option
from blueflame.cli.output import print_result
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.sessions import read_session
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock
from blueflame.views.hand_offs import list_document_lines
from blueflame.views.items import build_item_json, build_item_view, find_hand_offs, find_item, find_item_diff

item_argument = click.argument(
    "item",
    required=False,
    shell_complete=complete_item,
    help="plan, or the name of a task, agent, attempt, changeset or gate [default: what waits for an answer].",
)


def _load(config: Path | None, session: str | None) -> tuple[Project, Session]:
    project = open_project(config)
    return project, read_session(project, session)


@click.command()
@item_argument
@session_option
@config_option
@json_option
def show(item: str | None, session: str | None, config: Path | None, as_json: bool) -> int:
    """Show a plan, a task, an attempt, a changeset or a gate in full."""
    _project, found = _load(config, session)
    chosen = find_item(found, item)
    if as_json:
        return print_result(build_item_json(found, chosen, now=SystemClock().now()))
    from blueflame.cli.console import make_console, print_view
    from blueflame.cli.gates.view import render_gate
    from blueflame.cli.render.status import render_gates

    console = make_console()
    print_view(console, render_gate(build_item_view(found, chosen, now=SystemClock().now())))
    if waiting := [gate for gate in found.open_gates.values() if chosen.id in (gate.id, gate.subject)]:
        print_view(console, "")
        print_view(console, render_gates(waiting))
    return 0


@click.command()
@item_argument
@session_option
@config_option
@json_option
def diff(item: str | None, session: str | None, config: Path | None, as_json: bool) -> int:
    """Show the diff of a changeset, of a task's result, of one attempt, or of an edited plan."""
    from blueflame.views.item_diff import build_diff_json, read_item_diff

    project, found = _load(config, session)
    chosen = find_item(found, item)
    if as_json:
        return print_result(build_diff_json(project.repo, found, chosen))
    text = read_item_diff(project.repo, find_item_diff(found, chosen))
    import asyncio

    from blueflame.cli.console import make_console
    from blueflame.cli.render.diff import render_diff, show_in_pager

    console = make_console()
    said = list_document_lines(find_hand_offs(found, chosen)) if console.is_terminal else ()  # a pipe gets a patch
    above = "".join(f"│ {line}\n" for line in said) + ("\n" if said else "")
    asyncio.run(show_in_pager(render_diff(above + (text or "(no difference)")), console))
    return 0
