"""`blueflame attach`: connect this terminal to an agent's until it ends or the person detaches."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import click

from blueflame.cli.completers import complete_agent
from blueflame.cli.options import DURATION, config_option, json_option, refuse_idle
from blueflame.cli.output import print_result, print_text
from blueflame.model.attempt import Attempt
from blueflame.model.errors import Refused, UsageError, WorldError
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.sessions import find_session, load_session, open_journal
from blueflame.session.state import Session
from blueflame.system.terminal import is_interactive
from blueflame.system.terminal_attach import DetachReason, attach_terminal, has_terminal
from blueflame.views.parts import pick

POLL_SECONDS, STAY_SECONDS = 0.2, 1.0
agent_argument = click.argument(
    "agent",
    required=False,
    shell_complete=complete_agent,
    help="Agent id, its beginning, or a task [default: the only one].",
)


@click.command()
@agent_argument
@click.option("--read-only", "-r", is_flag=True, help="Only watch: what you type does not reach the agent.")
@click.option("--wait", "-w", is_flag=True, help="Wait until the agent starts.")
@click.option("--stay", is_flag=True, help="Stay when it ends, and connect to the next one of that seat or role.")
@click.option(
    "--idle", type=DURATION, default="0s", show_default=True, help="With --stay: end when no agent came for so long."
)
@config_option
@json_option
def attach(
    *, agent: str | None, read_only: bool, wait: bool, stay: bool, idle: float, config: Path | None, as_json: bool
) -> int:
    """Connect this terminal to a running agent; Ctrl-] detaches. With --json, list the running agents."""
    from blueflame.cli.gates.chat import format_farewell
    from blueflame.orchestrator.wiring import find_attempt_folder

    if as_json:
        refuse_idle("with --json", "agent", "read_only", "wait", "stay", "idle")
    project = open_project(config)
    if stay:
        return _stay_connected(project, agent or "", idle, read_only=read_only)
    refuse_idle("without --stay", "idle")
    session, running, open_ones = _list_agents(project)
    if as_json:
        agents = [_build_agent_json(attempt, attempt in open_ones) for attempt in running]
        return print_result({"session": session, "agents": agents})
    if wait and not open_ones:
        print_text(f"Waiting for {agent or 'an agent'} to start.")
    while wait and (meant := find_matching_agents(agent, running)) and not any(each in open_ones for each in meant):
        sleep(POLL_SECONDS)
        session, running, open_ones = _list_agents(project)
    chosen = choose_agent(agent, running, open_ones)
    reason = _connect_terminal(chosen, find_attempt_folder(project, chosen.id), read_only=read_only)
    if reason is DetachReason.LOST:
        raise WorldError(format_farewell(chosen.agent_id, reason))
    print_text(format_farewell(chosen.agent_id, reason))
    return 0


def _stay_connected(project: Project, wanted: str, idle: float, *, read_only: bool) -> int:
    """Show one agent of a seat or role after the other, until the person leaves or none has come for too long."""
    from blueflame.cli.live.follow import follow_newest
    from blueflame.orchestrator.wiring import find_attempt_folder

    shown, since, over = "", monotonic(), set[str]()
    with open_journal(project) as journal:
        for session in follow_newest(project, journal):
            left = [each for each in session.live.values() if each.id not in over]
            meant = find_matching_agents(wanted or None, left)
            attempt = next((each for each in meant if has_terminal(find_attempt_folder(project, each.id))), None)
            if attempt is not None:
                click.clear()
                reason = DetachReason.LOST
                with suppress(WorldError):  # it ended meanwhile
                    reason = _connect_terminal(attempt, find_attempt_folder(project, attempt.id), read_only=read_only)
                if reason in (DetachReason.LEFT, DetachReason.CLOSED):
                    break
                over.add(attempt.id)
                shown, since = "", monotonic()
            elif (words := describe_resident(session, wanted)) != shown:
                print_text(words)
                shown = words
            if idle and monotonic() - since >= idle:
                break
            sleep(STAY_SECONDS)
    return 0


def describe_resident(session: Session, wanted: str) -> str:
    """What the next agent of a seat or role waits for, after what the last one did."""
    role = session.seats[wanted].role if wanted in session.seats else wanted
    before = ""
    for record in session.attempts.values():
        if record.ended is not None and wanted in (record.attempt.seat, record.attempt.role):
            before = f"{record.attempt.subject}: {record.ended.ending.value}. "
    wait = session.awaited.get(role)
    if session.ended:
        now = f"{wanted} waits for the next session"
    else:
        now = f"{wait.subject} waits for a {role} agent: {wait.queue}" if wait else f"{wanted} waits for its next task"
    return f"{before}{now}. Ctrl-C closes this window."


def _list_agents(project: Project) -> tuple[str, Sequence[Attempt], Sequence[Attempt]]:
    """The session, its running agents, and those of them that have a terminal."""
    from blueflame.orchestrator.wiring import find_attempt_folder

    with open_journal(project) as journal:
        left = journal.find_unfinished()
        session = load_session(journal, left.id if left else find_session(journal, None))
    running = sorted(session.live.values(), key=lambda attempt: attempt.agent_id)
    return session.id, running, [each for each in running if has_terminal(find_attempt_folder(project, each.id))]


def _build_agent_json(attempt: Attempt, has_terminal: bool) -> dict[str, object]:
    return {
        "agent": attempt.agent_id,
        **pick(attempt, "role subject n"),
        "has_terminal": has_terminal,
    }


def choose_agent(wanted: str | None, running: Sequence[Attempt], open_ones: Sequence[Attempt]) -> Attempt:
    """Find the one agent that is meant; the error lists the candidates."""
    there = "; ".join(f"{attempt.agent_id} ({attempt.subject})" for attempt in open_ones)
    known = f"those with a terminal: {there}" if there else "no running agent has a terminal"
    if wanted is None:
        if len(open_ones) == 1:
            return open_ones[0]
        raise (UsageError(f"name an agent: {known}") if open_ones else Refused(f"nothing to connect to: {known}"))
    found = find_matching_agents(wanted, running)
    if not found:
        raise UsageError(f"no running agent {wanted!r}: {known}")
    if len(found) > 1:
        names = ", ".join(attempt.agent_id for attempt in found)
        raise UsageError(f"{wanted!r} matches more than one running agent: {names}")
    if found[0] not in open_ones:
        raise Refused(f"{found[0].agent_id} has no terminal. Use 'blueflame watch' to see what it does")
    return found[0]


def find_matching_agents(wanted: str | None, running: Sequence[Attempt]) -> Sequence[Attempt]:
    """Find agents by id or seat, else by the beginning of the id or by task."""
    if wanted is None:
        return running
    return [each for each in running if wanted in (each.agent_id, each.seat, each.id)] or [
        each for each in running if each.agent_id.startswith(wanted) or each.subject == wanted
    ]


def _connect_terminal(attempt: Attempt, folder: Path, *, read_only: bool) -> DetachReason:
    from blueflame.cli.gates.chat import format_greeting

    if not is_interactive():
        raise Refused("not a terminal: run 'blueflame attach' in one, without a pipe")
    print_text(format_greeting(attempt) + (" Read-only." if read_only else ""))
    return asyncio.run(_attach_until_signal(folder, read_only=read_only))


async def _attach_until_signal(folder: Path, *, read_only: bool) -> DetachReason:
    """Detach on SIGTERM and SIGHUP, so that the terminal is restored first."""
    loop = asyncio.get_running_loop()
    connection = asyncio.ensure_future(attach_terminal(folder, read_only=read_only))
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, connection.cancel)
    try:
        return await connection
    except asyncio.CancelledError:
        return DetachReason.CLOSED
