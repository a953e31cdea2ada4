"""Run a session that changes one file as it was computed: no model is asked, and it lands only at its gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blueflame.agents.scripted.placeholders import escape_placeholders
from blueflame.cli.foreground import RunOptions, run_session
from blueflame.model.errors import Refused
from blueflame.model.task import Task
from blueflame.orchestrator.lifecycle import check_prerequisites, lock_project, open_session
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import find_unfinished
from blueflame.session.from_settings import build_workflow
from blueflame.system.files import write_atomically

WORKFLOW = "direct"  # work, check, merge: there is nothing to plan, and no model to judge


def run_proposal(project: Project, options: RunOptions, *, path: str, text: str, title: str, evidence: str) -> int:
    """`evidence`: what speaks for it; it is in the request, the commit and the changeset."""
    task = Task(id="task-001", title=title, description=f"{title}.\n\n{evidence}", file_locks=(path,))
    project = project.override({**project.overrides, "permissions.allowed_paths": [path]})  # this file and no other
    flow = build_workflow(project.settings, WORKFLOW)
    with lock_project(project) as journal:
        if (left := find_unfinished(journal)) is not None:
            raise Refused(f"{left.id} is unfinished: continue it with 'blueflame resume', or end it, and propose again")
        script = _write_script(project.paths.state / "proposal.json", path, text, f"{title}\n\n{evidence}")
        check_prerequisites(project, flow, script=script, allow_dirty=False)
        session = open_session(
            project, journal, request=task.description, workflow=WORKFLOW, tasks=(task,), scripted=True
        )
        return run_session(project, journal, session, replace(options, script=script))


def _write_script(place: Path, path: str, text: str, message: str) -> Path:
    """What the agent does is known: it writes the file and commits it."""
    steps: Sequence[object] = (
        {"write": {"path": escape_placeholders(path), "text": escape_placeholders(text)}},
        {"commit": escape_placeholders(message)},
    )
    write_atomically(place, json.dumps({"schema_version": 1, "defaults": {"worker": steps}}))
    return place
