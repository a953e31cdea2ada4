"""Run a session of our own making: it changes a file as it was computed, or curates; either only at its gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blueflame.agents.scripted.placeholders import escape_placeholders
from blueflame.cli.foreground import RunOptions, run_session
from blueflame.model.errors import Refused
from blueflame.model.task import Task
from blueflame.orchestrator.lifecycle import check_prerequisites, lock_project, open_session, prepare_folders
from blueflame.orchestrator.project import Project
from blueflame.session.from_settings import build_workflow
from blueflame.system.files import write_atomically

WORKFLOW = "direct"  # work, check, merge: there is nothing to plan, and no model to judge
CURATE = "curate"
CURATION_REQUEST = "Curate the knowledge files: join what says the same, drop what is not true any more."


def run_curation(project: Project, options: RunOptions, request: str = "") -> int:
    """Have an agent propose changes of the knowledge files."""
    return _run_session(project, options, request or CURATION_REQUEST, CURATE)


def run_proposal(project: Project, options: RunOptions, *, path: str, text: str, title: str, evidence: str) -> int:
    """Change one file; no model is asked. `evidence`: what speaks for it; it is in the request, the commit and the
    changeset."""
    task = Task(id="task-001", title=title, description=f"{title}.\n\n{evidence}", file_locks=(path,))
    project = project.override({**project.overrides, "permissions.allowed_paths": [path]})  # this file and no other
    prepare_folders(project)
    script = _write_script(project.paths.state / "proposal.json", path, text, f"{title}\n\n{evidence}")
    return _run_session(project, replace(options, script=script), task.description, WORKFLOW, tasks=(task,))


def _run_session(
    project: Project, options: RunOptions, request: str, workflow: str, tasks: tuple[Task, ...] | None = None
) -> int:
    script, cassette = options.script, options.cassette
    with lock_project(project) as journal:
        if (left := journal.find_unfinished()) is not None:
            raise Refused(f"{left.id} is unfinished: continue it with 'blueflame resume', or end it, and try again")
        flow = build_workflow(project.settings, workflow)
        check_prerequisites(project, flow, script=script, replay=cassette.replay, allow_dirty=tasks is None)
        session = open_session(
            project,
            journal,
            request=request,
            workflow=workflow,
            tasks=tasks,
            scripted=script is not None,
            allow_dirty=tasks is None,
        )
        return run_session(project, journal, session, options)


def _write_script(place: Path, path: str, text: str, message: str) -> Path:
    """What the agent does is known: it writes the file and commits it."""
    steps: Sequence[object] = (
        {"write": {"path": escape_placeholders(path), "text": escape_placeholders(text)}},
        {"commit": escape_placeholders(message)},
    )
    write_atomically(place, json.dumps({"schema_version": 1, "defaults": {"worker": steps}}))
    return place
