"""What the server serves: the project of the folder where it was started, and how its sessions are started.

Imports are late, here and in the tools: a client waits for the server to start, and a conversation uses few of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError, Refused
from blueflame.system.environment import CALLER_VARIABLE

if TYPE_CHECKING:
    from blueflame.model.gate import Gate
    from blueflame.orchestrator.project import Project
    from blueflame.session.state import Session
    from blueflame.system.process import BackgroundProcess

CALLER: ContextVar[str] = ContextVar("caller")  # the client of the present call, and for whom it calls
START_SECONDS = 15.0
POLL_SECONDS = 0.05
MAX_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    config: Path | None  # as given; else the nearest one to the current folder
    environ: Mapping[str, str]  # of a session's process: with the keys of the model, which our own has not
    draw_gate: Callable[[Session, Gate], str]
    children: list[BackgroundProcess] = field(default_factory=list)  # kept, so that they are waited for

    def open(self) -> Project:
        from blueflame.orchestrator.project import open_project

        return open_project(self.config)

    def load(self, session: str | None) -> tuple[Project, Session]:
        project = self.open()
        from blueflame.orchestrator.sessions import find_session, load_session, open_journal

        with open_journal(project) as journal:
            return project, load_session(journal, find_session(journal, session))

    def open_trusted(self) -> Project:
        """Open the project for a tool that acts; trust is given at a terminal only."""
        from blueflame.orchestrator.trust import require_trust

        project = self.open()
        require_trust(project)
        return project


def list_live_folders(project: Project, session: Session) -> dict[str, Path]:
    """The folders of the attempts that run."""
    from blueflame.orchestrator.wiring import find_attempt_folder

    live = [] if session.ended else [name for name in session.live if session.attempts[name].worktree]
    return {name: find_attempt_folder(project, name) for name in live}


def count_waiting_for_subagents(project: Project, session: Session) -> int:
    """How many tasks wait for a subagent of a conversation."""
    from blueflame.agents.subagent import is_waiting

    if not any(session.attempts[name].attempt.unguarded for name in session.live):
        return 0
    return sum(is_waiting(folder) for folder in list_live_folders(project, session).values())


def describe_waiting(served: Served) -> str:
    """What waits for the person as a conversation begins; empty if nothing does. Names only: no text of an agent."""
    with suppress(BlueFlameError):
        _project, found = served.load(None)
        if found.open_gates and not found.ended:
            return f"Open gates of {found.id}, for the person: {', '.join(list(found.open_gates)[:MAX_NAMED])}."
    return ""


def start_and_wait(served: Served, project: Project, verb: str, *words: str, find_started: Callable[[int], str]) -> str:
    """Start a command that outlives the server. Return what `find_started` finds by its pid, or its output.

    Raises Refused with its output if it fails; empty if it has neither started nor failed in time.
    """
    from blueflame.house.background import start_command

    command = start_command(project, verb, *words, environ={**served.environ, CALLER_VARIABLE: CALLER.get()})
    child = command.process
    served.children[:] = [*(each for each in served.children if each.is_running), child]
    until = time.monotonic() + START_SECONDS
    while child.is_running and time.monotonic() < until:
        if found := find_started(child.pid):
            return found
        time.sleep(POLL_SECONDS)  # another process writes the journal: polling is the only way
    if child.is_running:
        return ""
    if child.code:
        raise Refused(command.describe_failure())
    return find_started(child.pid) or command.read_output()
