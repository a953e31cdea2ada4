"""`blueflame gates` and `blueflame answer`: list what waits for an answer, and answer it from another terminal."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from blueflame.cli.agent_shell import refuse_agent_shell
from blueflame.cli.completers import complete_choice, complete_gate
from blueflame.cli.options import PATH, config_option, json_option, session_argument, session_option
from blueflame.cli.output import print_result
from blueflame.cli.send import send_message
from blueflame.model.errors import UsageError
from blueflame.model.gate import Answer
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import read_session
from blueflame.session.gates.edits import build_edit_payload
from blueflame.session.gates.questions import answer_error
from blueflame.session.state import Session
from blueflame.views.session import build_gates_json


@click.command()
@session_argument
@config_option
@json_option
def gates(session: str | None, config: Path | None, as_json: bool) -> int:
    """List the open gates and the commands that answer them."""
    found = read_session(open_project(config), session)
    waiting = list(found.open_gates.values())
    if as_json:
        return print_result({"session": found.id, "gates": build_gates_json(waiting)})
    from blueflame.cli.render.status import render_gates

    return print_result(render_gates(waiting))


@click.command()
@click.argument("gate", shell_complete=complete_gate, help="Gate id or its beginning: see 'blueflame gates'.")
@click.argument("choice", shell_complete=complete_choice, help="One of the gate's options, or its first letter.")
@click.option("--note", "--reason", "-m", default="", help="Reason; required by reject, replan and raise.")
@click.option("--file", "-f", type=PATH, help="File with the edited tasks, for edit and split.")
@session_option
@config_option
@json_option
def answer(
    *, gate: str, choice: str, note: str, file: Path | None, session: str | None, config: Path | None, as_json: bool
) -> int:
    """Answer a gate. The first valid answer wins."""
    refuse_agent_shell("answering a gate")
    project = open_project(config)
    found = read_session(project, session)
    name, chosen = _resolve_names(found, gate, choice)
    payload = _read_edited_tasks(file)
    wrong = answer_error(found, name, Answer(choice=chosen, note=note, payload=payload))
    if wrong:
        raise UsageError(wrong + _suggest_note_option(found, name, chosen, note))
    body = {"gate": name, "choice": chosen, "note": note, "payload": payload, "by": f"{getpass.getuser()} (terminal)"}
    return send_message(project, found.id, "answer", body, as_json=as_json)


def _resolve_names(session: Session, gate: str, choice: str) -> tuple[str, str]:
    """Resolve the beginning of a gate's id and the first letter of a choice, where only one fits."""
    near = [name for name in session.open_gates if name == gate] or [
        name for name in session.open_gates if name.startswith(gate)
    ]
    if len(near) != 1:
        return gate, choice
    options = session.open_gates[near[0]].options
    meant = [option.name for option in options if choice.lower() in (option.name, option.key)]
    return near[0], meant[0] if len(meant) == 1 else choice


def _suggest_note_option(session: Session, gate: str, choice: str, note: str) -> str:
    """Return how to pass a note on the command line, where the choice needs one and has none."""
    asked = session.open_gates.get(gate)
    option = asked.find_option(choice) if asked else None
    return "; pass it with --note" if option and option.needs_note and not note.strip() else ""


def _read_edited_tasks(file: Path | None) -> dict[str, object]:
    from blueflame.documents.plans import read_plan

    return {} if file is None else build_edit_payload(read_plan(file))
