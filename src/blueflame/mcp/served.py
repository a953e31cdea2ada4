"""What the server serves: the project of the folder where it was started, and how its sessions are started."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from blueflame.model.errors import BlueFlameError, Refused
from blueflame.model.gate import Gate
from blueflame.orchestrator.project import Project, open_project
from blueflame.orchestrator.sessions import find_session, load_session, open_journal
from blueflame.session.state import Session
from blueflame.system.files import rotate_log
from blueflame.system.process import BackgroundProcess, start_background
from blueflame.text.sanitize import clean_text

START_SECONDS = 15.0
POLL_SECONDS = 0.05
MAX_OUTPUT_CHARS = 2_000
MAX_NAMED = 5
PARENT_VARIABLES = re.compile(r"CLAUDECODE|CLAUDE_(PROJECT|PLUGIN)_.*|CLAUDE_CODE_(SESSION|MESSAGING|ENTRYPOINT|SSE).*")
"""The client's conversation with its own processes: no session of ours is part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    config: Path | None  # as given; else the nearest one to the current folder
    environ: Mapping[str, str]  # of a session's process: with the keys of the model, which our own has not
    draw_gate: Callable[[Session, Gate], str]
    children: list[BackgroundProcess] = field(default_factory=list)  # kept, so that they are waited for

    def open(self) -> Project:
        return open_project(self.config)

    def load(self, session: str | None) -> tuple[Project, Session]:
        project = self.open()
        with open_journal(project) as journal:
            return project, load_session(journal, find_session(journal, session))

    def open_trusted(self) -> Project:
        """Open the project for a tool that acts; trust is given at a terminal only."""
        from blueflame.orchestrator.trust import require_trust

        project = self.open()
        require_trust(project)
        return project


def describe_waiting(served: Served) -> str:
    """What waits for the person as a conversation begins; empty if nothing does. Names only: no text of an agent."""
    with suppress(BlueFlameError):
        _project, found = served.load(None)
        if found.open_gates and not found.ended:
            return f"Open gates of {found.id}, for the person: {', '.join(list(found.open_gates)[:MAX_NAMED])}."
    return ""


def start_command(served: Served, project: Project, verb: str, *words: str, find_started: Callable[[int], str]) -> str:
    """Start a command of ours that outlives the server. Return what `find_started` finds by its pid, or its output.

    Raises Refused with its output if it fails; empty if it has neither started nor failed in time.
    """
    from blueflame.orchestrator.lifecycle import prepare_folders

    prepare_folders(project)
    log = project.state.logs / "background.log"
    rotate_log(log)
    begin = log.stat().st_size if log.exists() else 0
    argv = [sys.executable, "-m", "blueflame", verb, "--config", str(project.config), *words]
    served.children[:] = [child for child in served.children if child.is_running]
    child = start_background(argv, log=log, env=served.environ)
    served.children.append(child)
    until = time.monotonic() + START_SECONDS
    while child.is_running and time.monotonic() < until:
        if found := find_started(child.pid):
            return found
        time.sleep(POLL_SECONDS)  # another process writes the journal: polling is the only way
    if child.is_running:
        return ""
    said = _read_output(log, begin)
    if child.code:
        raise Refused(said or f"blueflame {verb} ended with exit code {child.code}; see {log}")
    return find_started(child.pid) or said


def build_session_environment(environ: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not PARENT_VARIABLES.fullmatch(name)} | dict(keys)


def _read_output(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        said = file.read(MAX_OUTPUT_CHARS).decode("utf-8", "replace")
    return clean_text(said).strip().removeprefix("blueflame: ")
