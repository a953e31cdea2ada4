"""Whole sessions with scripted agents, for the benchmarks that measure one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from blueflame.cli.gates.answerers import DecisionsAnswerer
from blueflame.documents.decisions import load_decisions
from blueflame.documents.plans import read_plan
from blueflame.model.event import AttemptStarted, JournalEntry
from blueflame.orchestrator.lifecycle import execute_session, lock_project, open_session
from blueflame.orchestrator.loop import Observer
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_session, open_journal
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
    given = _write_given(root, tasks, first)
    project = open_project(root / "blueflame.yaml")
    with lock_project(project) as journal:
        session = open_session(project, journal, request="notes", tasks=read_plan(given / "plan.json"), scripted=True)
        context = build_context(project, session, script=given / "script.yaml")
        answerer = DecisionsAnswerer(load_decisions(given / "decisions.yaml"))
        asyncio.run(execute_session(context, journal, session, answerer=answerer, observers=tuple(observers)))
        if session.outcome != "completed":
            raise AssertionError(f"the session ended as {session.outcome}: nothing was measured")
        return journal.read_events(session.id)


def measure_first_agent(root: Path) -> float:
    """Seconds from the start of `blueflame run` until its first agent has started, by the journal."""
    given = _write_given(root, 1)
    command, env = (sys.executable, "-m", "blueflame"), os.environ | {"HOME": str(given)}
    files = {"--plan": "plan.json", "--script": "script.yaml", "--decisions-file": "decisions.yaml"}
    options = chain.from_iterable((option, str(given / name)) for option, name in files.items())
    subprocess.run([*command, "trust", "--yes"], cwd=root, env=env, check=True, capture_output=True)
    began = time.time()
    subprocess.run(
        [*command, "run", "--task", "notes", "--quiet", *options], cwd=root, env=env, check=True, capture_output=True
    )
    with open_journal(open_project(root / "blueflame.yaml")) as journal:
        entries = journal.read_events(find_session(journal, None))
    return next(entry.at for entry in entries if isinstance(entry.event, AttemptStarted)) - began


def _write_given(root: Path, tasks: int, first: int = 1) -> Path:
    given = root.with_name(f"{root.name} given {first}")
    given.mkdir(parents=True)
    plan = json.dumps({"tasks": [_build_task(f"task-{n:03d}") for n in range(first, first + tasks)]})
    for name, text in {"plan.json": plan, "script.yaml": SCRIPT, "decisions.yaml": DECISIONS}.items():
        (given / name).write_text(text, encoding="utf-8")
    return given


def _build_task(name: str) -> dict[str, object]:
    return {"id": name, "title": "Note", "description": "Note it.", "priority": 1, "file_locks": [f"notes/{name}.txt"]}
