"""What the orchestration costs: a session of no-op tasks over the git commands that it cannot do without."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks import Figure, Report
from blueflame.cli.gates.answerers import DecisionsAnswerer
from blueflame.documents.decisions import load_decisions
from blueflame.documents.plans import read_plan
from blueflame.git.checkouts import make_checkout, remove_checkout
from blueflame.git.command import run_git
from blueflame.git.landing import advance_branch
from blueflame.git.merge import CombinedCommit, combine_commits, create_commit
from blueflame.git.repository import Repository, open_repository
from blueflame.git.results import CollectedResult, collect_result, list_changes, set_ref
from blueflame.model.ids import build_attempt_ref, build_branch_name
from blueflame.orchestrator.lifecycle import execute_session, lock_project, open_session
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.wiring import build_context
from blueflame.testing import create_throwaway_repository

TASKS = 50

CONFIG = """\
schema_version: 2
project: {name: overhead}
planning: {interactive: false, workflow: quick}
workflows:
  quick: {stages: [plan, work, check, merge], barrier: false}
permissions: {allowed_paths: ["notes/**"]}
beads: {enabled: false}
"""
SCRIPT = """\
schema_version: 1
defaults:
  worker:
    - write: {path: "notes/{task}.txt", text: "done\\n"}
    - commit: "feat({task}): note it"
"""
DECISIONS = "plan: [approve]\nchangeset: [{choose: approve, repeat: true}]\n"


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        session = _measure_session(Path(folder) / "session")
        alone = _measure_git_alone(Path(folder) / "alone")
    figures = (
        Figure(name="session", value=session, unit="s"),
        Figure(name="git commands alone, one after the other", value=alone, unit="s"),
        Figure(name="session over git", value=session / alone, unit="x", aim=2.0),
    )
    about = f"{TASKS} scripted tasks that each write and commit one line, from the plan to the landed changeset"
    return Report(name="overhead", about=about, figures=figures)


def _make_repository(path: Path) -> Path:
    return create_throwaway_repository(path, {"blueflame.yaml": CONFIG, "notes/README.txt": "notes\n"})


def _measure_session(path: Path) -> float:
    root = _make_repository(path)
    given = {
        "plan.json": json.dumps({"tasks": [_build_task(f"task-{n:03d}") for n in range(1, TASKS + 1)]}),
        "script.yaml": SCRIPT,
        "decisions.yaml": DECISIONS,
    }
    for name, text in given.items():
        (path.parent / name).write_text(text, encoding="utf-8")
    began = perf_counter()
    project = open_project(root / "blueflame.yaml")
    with lock_project(project) as journal:
        session = open_session(project, journal, request="notes", tasks=read_plan(path.parent / "plan.json"))
        context = build_context(project, session, script=path.parent / "script.yaml")
        answerer = DecisionsAnswerer(load_decisions(path.parent / "decisions.yaml"))
        asyncio.run(execute_session(context, journal, session, answerer=answerer))
    if session.outcome != "completed":
        raise AssertionError(f"the session ended as {session.outcome}: nothing was measured")
    return perf_counter() - began


def _build_task(name: str) -> dict[str, object]:
    return {"id": name, "title": "Note", "description": "Note it.", "priority": 1, "file_locks": [f"notes/{name}.txt"]}


def _measure_git_alone(path: Path) -> float:
    """Checkout, commit, fetch and comparison for each task, then one merge of all and the landing."""
    root = _make_repository(path)
    began = perf_counter()
    repo = open_repository(root, base_branch="main")
    tips = [_do_task(repo, f"task-{n:03d}") for n in range(1, TASKS + 1)]
    merged = combine_commits(repo, repo.base_sha, tips, "all")
    assert isinstance(merged, CombinedCommit), "separate files do not conflict"
    tree = run_git(root, "rev-parse", f"{merged.sha}^{{tree}}").strip()
    advance_branch(repo, "main", old=repo.base_sha, new=create_commit(repo, tree, [repo.base_sha, *tips], "land"))
    return perf_counter() - began


def _do_task(repo: Repository, task: str) -> str:
    checkout, branch = repo.root.parent / task, build_branch_name("ses", task, 1)
    set_ref(repo, f"refs/blueflame/bases/{task}", repo.base_sha)
    make_checkout(repo, checkout, base=repo.base_sha, branch=branch)
    (checkout / "notes" / f"{task}.txt").write_text("done\n")
    run_git(checkout, "add", "-A")
    run_git(checkout, "commit", "-q", "-m", f"feat({task}): note it")
    found = collect_result(repo, checkout, branch=branch, base=repo.base_sha, ref=build_attempt_ref("ses", task, 1))
    assert isinstance(found, CollectedResult), "it has just been committed"
    list_changes(repo, repo.base_sha, found.tip)
    remove_checkout(checkout)
    return found.tip
