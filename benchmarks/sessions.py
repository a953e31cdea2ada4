"""Whole sessions with scripted agents, for the benchmarks that measure one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from blueflame.cli.gates.answerers import DecisionsAnswerer
from blueflame.documents.decisions import load_decisions
from blueflame.documents.plans import read_plan
from blueflame.model.event import JournalEntry
from blueflame.orchestrator.lifecycle import execute_session, lock_project, open_session
from blueflame.orchestrator.loop import Observer
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.wiring import build_context

SCRIPT = """\
schema_version: 1
defaults:
  worker:
    - write: {path: "notes/{task}.txt", text: "done\\n"}
    - commit: "feat({task}): note it"
"""
DECISIONS = "plan: [approve]\nchangeset: [{choose: approve, repeat: true}]\n"


def run_session(root: Path, tasks: int, observers: Sequence[Observer] = (), *, first: int = 1) -> list[JournalEntry]:
    """Let scripted agents write, commit and land a file for each task; `blueflame.yaml` is in `root`.

    `first`: the number of the first task, another one for each session of a repository.
    """
    given = root.with_name(f"{root.name} given {first}")
    given.mkdir(parents=True)
    plan = json.dumps({"tasks": [_build_task(f"task-{n:03d}") for n in range(first, first + tasks)]})
    for name, text in {"plan.json": plan, "script.yaml": SCRIPT, "decisions.yaml": DECISIONS}.items():
        (given / name).write_text(text, encoding="utf-8")
    project = open_project(root / "blueflame.yaml")
    with lock_project(project) as journal:
        session = open_session(project, journal, request="notes", tasks=read_plan(given / "plan.json"), scripted=True)
        context = build_context(project, session, script=given / "script.yaml")
        answerer = DecisionsAnswerer(load_decisions(given / "decisions.yaml"))
        asyncio.run(execute_session(context, journal, session, answerer=answerer, observers=tuple(observers)))
        if session.outcome != "completed":
            raise AssertionError(f"the session ended as {session.outcome}: nothing was measured")
        return journal.read_events(session.id)


def _build_task(name: str) -> dict[str, object]:
    return {"id": name, "title": "Note", "description": "Note it.", "priority": 1, "file_locks": [f"notes/{name}.txt"]}
