"""A repository of 50,000 files: how soon an attempt starts, and how long a changeset takes until it is built."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import Figure, Report
from benchmarks.sessions import run_session
from blueflame.git.checkouts import keep_files, make_checkout, remove_checkout
from blueflame.git.command import build_identity_environment, run_git
from blueflame.git.repository import open_repository
from blueflame.model.event import AttemptIntended, AttemptStarted, ChangesetBuilt, ChangesetsFormed, JournalEntry
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.try_commands import try_settings

FILES = 50_000
TASKS = 8
MAX_START_SECONDS, MAX_BUILD_SECONDS = 1.0, 5.0

CONFIG = """\
schema_version: 2
project: {name: large}
planning: {interactive: false, workflow: quick}
workflows:
  quick: {stages: [plan, work, check, merge], barrier: false}
concurrency: {development: 2}
validation: {validator_diagnostics: {commands: ["test -f src/area00/part00/file00000.py"]}}
permissions: {allowed_paths: ["notes/**"]}
beads: {enabled: false}
"""
OWN_RULES = CONFIG.replace("validation: {", "validation: {secrets: {scanner: builtin}, ")  # the other: a second each
SMALL = {"FILES": 200, "TASKS": 3, "CONFIG": OWN_RULES}


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root = _make_repository(Path(folder) / "large")
        alone = _measure_git(root)
        try_settings(open_project(root / "blueflame.yaml"), lambda _line, _check: None)  # as `blueflame init` does
        opening = run_session(root, 1)  # one attempt, as a planner is
        entries = run_session(root, TASKS, first=2)
        fresh, again = _measure_checkouts(root)  # last: ext4 creates files slowly for minutes after many were removed
    first, starts, builds = (
        next(_measure_starts(opening)),
        list(_measure_starts(entries)),
        list(_measure_builds(entries)),
    )
    figures = (
        Figure(name="git clone --shared, alone", value=alone, unit="s"),
        Figure(name="a checkout, all files written", value=fresh, unit="s"),
        Figure(name="a checkout, files taken over", value=again, unit="s"),
        Figure(name="files taken over, of all files written", value=again / fresh, unit="x"),
        Figure(name="an attempt starts, the first after init", value=first, unit="s", aim=MAX_START_SECONDS),
        Figure(name="all files written, over git alone", value=fresh / alone, unit="x"),
        Figure(
            name="an attempt starts, median of the later ones", value=median(starts), unit="s", aim=MAX_START_SECONDS
        ),
        Figure(name="a changeset is built, median", value=median(builds), unit="s", aim=MAX_BUILD_SECONDS),
    )
    about = f"{FILES:,} files, {TASKS} scripted tasks with a check each, in the sandbox"
    return Report(name="large_repository", about=about, figures=figures)


def _make_repository(root: Path) -> Path:
    root.mkdir()
    run_git(root, "init", "-q", "-b", "main")
    for n in range(FILES):
        place = root / f"src/area{n % 50:02d}/part{n // 50 % 40:02d}/file{n:05d}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(f"line {line} of file {n}\n" for line in range(60)))
    (root / "blueflame.yaml").write_text(CONFIG)
    run_git(root, "add", "-A", timeout=None)
    run_git(root, "commit", "-q", "-m", "begin", env=build_identity_environment(root), timeout=None)
    run_git(root, "repack", "-q", "-a", "-d", timeout=None)
    return root


def _measure_git(root: Path) -> float:
    began = perf_counter()
    run_git(root.parent, "clone", "-q", "--shared", str(root), str(root.parent / "alone"), timeout=None)
    return perf_counter() - began


def _measure_checkouts(root: Path) -> tuple[float, float]:
    repo, place = open_repository(root, base_branch="main"), root.parent / "trees" / "one"
    began = perf_counter()
    make_checkout(repo, place, base=repo.base_sha)
    fresh = perf_counter() - began
    keep_files(repo, place, most=1)
    began = perf_counter()
    make_checkout(repo, place, base=repo.base_sha)
    again = perf_counter() - began
    remove_checkout(place)
    return fresh, again


def _measure_starts(entries: list[JournalEntry]) -> Iterator[float]:
    intended: dict[str, float] = {}
    for entry in entries:
        match entry.event:
            case AttemptIntended(attempt=attempt):
                intended[attempt.id] = entry.at
            case AttemptStarted(attempt=name):
                yield entry.at - intended[name]


def _measure_builds(entries: list[JournalEntry]) -> Iterator[float]:
    began = 0.0
    for entry in entries:
        match entry.event:
            case ChangesetsFormed():
                began = entry.at
            case ChangesetBuilt():
                yield entry.at - began
                began = entry.at
