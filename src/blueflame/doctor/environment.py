"""Examine what a session needs: programs, repository, runtimes, journal. Each is tried, not assumed."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path

import psutil

from blueflame.agents.runtime import InstalledRuntime, Runtime
from blueflame.codebase.ctags import Ctags, find_ctags
from blueflame.doctor.guards import GuardReport
from blueflame.doctor.guards.findings import GuardState
from blueflame.git.command import read_git_version
from blueflame.git.repository import MIN_GIT_VERSION, MISSING_HISTORY, Repository, is_partial, measure_tree
from blueflame.journal.journal import Journal
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError
from blueflame.model.runtime_support import RUNTIMES
from blueflame.model.sandbox import SandboxLevel
from blueflame.model.settings import Settings
from blueflame.orchestrator.cleanup import Leftover, LeftoverKind, find_leftovers
from blueflame.orchestrator.preflight import find_blockers
from blueflame.system import flock
from blueflame.system.layout import ProjectPaths
from blueflame.system.machine import measure_capacity, measure_free


class FindingState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    name: str
    state: FindingState
    words: str


def examine_machine() -> Iterator[DoctorFinding]:
    yield DoctorFinding("python", FindingState.OK, f"{platform.python_version()} at {sys.executable}")
    yield _examine_git()
    yield _examine_parser()
    memory = psutil.virtual_memory()
    yield DoctorFinding(
        "free memory", FindingState.OK, f"{memory.available >> 20:,} MB free of {memory.total >> 20:,} MB"
    )


def _examine_git() -> DoctorFinding:
    try:
        found = read_git_version()
    except BlueFlameError as error:
        return DoctorFinding("git", FindingState.BAD, str(error))
    shown, needed = (".".join(map(str, version)) for version in (found, MIN_GIT_VERSION))
    if found < MIN_GIT_VERSION:
        return DoctorFinding("git", FindingState.BAD, f"{shown} is too old: {needed} or newer is needed")
    return DoctorFinding("git", FindingState.OK, shown)


def _examine_parser() -> DoctorFinding:
    """Optional: without it, the map of the code base has no symbols."""
    found = find_ctags(os.environ)
    if isinstance(found, Ctags):
        return DoctorFinding("parser", FindingState.OK, f"Universal Ctags {found.version} at {found.program}")
    return DoctorFinding("parser", FindingState.OK, f"none, so maps of code have no symbols: {found.reason}")


def examine_project(
    repo: Repository,
    places: ProjectPaths,
    settings: Settings,
    *,
    config: Path,
    now: float,
    runtimes: Mapping[str, Runtime | None] | None = None,
) -> Iterator[DoctorFinding]:
    yield DoctorFinding("repository", FindingState.OK, f"{repo.root}, base {repo.base_branch} at {repo.base_sha[:10]}")
    yield from _examine_repository(repo)
    reasons = tuple(find_blockers(repo, places, settings, allow_dirty=False, config=config))
    for reason in reasons:
        yield DoctorFinding("start", FindingState.WARNING, reason)
    yield from _examine_slots(repo, places, settings)
    yield from examine_runtimes(runtimes or {})
    yield from _examine_journal(repo, places, settings, now)


def _examine_repository(repo: Repository) -> Iterator[DoctorFinding]:
    if repo.shallow:
        yield DoctorFinding("shallow clone", FindingState.WARNING, "works; history before the cut cannot be merged")
    if is_partial(repo):
        yield DoctorFinding("partial clone", FindingState.WARNING, f"works; {MISSING_HISTORY}")
    if repo.detached:
        yield DoctorFinding("detached HEAD", FindingState.OK, f"landing moves {repo.base_branch}, not your checkout")
    if repo.submodules:
        words = f"left empty in agents' checkouts: {', '.join(repo.submodules)}"
        yield DoctorFinding("submodules", FindingState.WARNING, words)


def _examine_slots(repo: Repository, places: ProjectPaths, settings: Settings) -> Iterator[DoctorFinding]:
    free = partial(measure_free, places.worktrees)
    capacity = measure_capacity(settings, 0, free, measure_tree(repo, repo.base_sha))
    slots = min(settings.concurrency.development, capacity.agents)
    state = FindingState.OK if slots == settings.concurrency.development else FindingState.WARNING
    yield DoctorFinding(
        "slots", state, f"{slots} of {settings.concurrency.development} workers at once; {capacity.reason}"
    )


def examine_runtimes(runtimes: Mapping[str, Runtime | None]) -> Iterator[DoctorFinding]:
    """Report the program of each runtime, or every problem that keeps it from starting agents."""
    for name, runtime in runtimes.items():
        if runtime is None:
            yield DoctorFinding(
                f"runtime {name}", FindingState.BAD, f"not in this version; it has {', '.join(RUNTIMES)}"
            )
            continue
        problems = runtime.find_problems()
        yield from (DoctorFinding(f"runtime {name}", FindingState.BAD, problem) for problem in problems)
        if not problems:
            words = runtime.describe_program() if isinstance(runtime, InstalledRuntime) else ""
            yield DoctorFinding(f"runtime {name}", FindingState.OK, words or "ready")


def _examine_journal(repo: Repository, places: ProjectPaths, settings: Settings, now: float) -> Iterator[DoctorFinding]:
    held = flock.read_lock_holder(places.lock) if places.lock.exists() else None
    yield DoctorFinding("orchestrator", FindingState.OK, _describe_orchestrator(held))
    if not places.journal.exists():
        yield DoctorFinding("journal", FindingState.OK, "none yet")
        return
    try:
        with Journal.open_read_only(places.journal) as journal:
            damage = journal.find_damage()
            sessions = journal.list_sessions()
            age, at_work = settings.cleanup.log_max_age, held is not None
            found = find_leftovers(repo, places, journal, now=now, max_age=age, at_work=at_work)
    except BlueFlameError as error:
        yield DoctorFinding("journal", FindingState.BAD, str(error))
        return
    words = "; ".join(damage) or f"sound, {len(sessions)} session{'' if len(sessions) == 1 else 's'}"
    yield DoctorFinding("journal", FindingState.BAD if damage else FindingState.OK, words)
    open_ones = [info.id for info in sessions if info.ended is None]
    if open_ones and held is None:
        yield DoctorFinding("unfinished", FindingState.WARNING, f"{', '.join(open_ones)}: run 'blueflame resume'")
    yield from _examine_leftovers(found)


def examine_level(guards: GuardReport) -> DoctorFinding:
    """Compare the configured level with what this machine can hold."""
    asked, held = guards.asked, guards.held
    if asked is SandboxLevel.OFF:
        able = "this machine cannot hold any" if held is SandboxLevel.OFF else f"this machine could hold {held}"
        return DoctorFinding("level", FindingState.WARNING, f"off: agents run as you, without walls; {able}")
    if guards.problems:
        why = "; ".join(problem.words for problem in guards.problems)
        return DoctorFinding(
            "level", FindingState.BAD, f"{asked} is asked for and cannot be held, so no session starts: {why}"
        )
    broken = [guard.name for guard in guards.table if guard.state is GuardState.IMPOSSIBLE]
    if broken:
        return DoctorFinding(
            "level", FindingState.BAD, f"{asked} is asked for, and not all of it holds: {', '.join(broken)}"
        )
    return DoctorFinding("level", FindingState.OK, f"{asked} is asked for; this machine can hold {held}")


def _describe_orchestrator(held: str | None) -> str:
    if held is None:
        return "none is running"
    pid, _start, since, *_ = [*held.split(), "unknown", "", "unknown"]
    return f"running: pid {pid} since {since}"


def _examine_leftovers(found: tuple[Leftover, ...]) -> Iterator[DoctorFinding]:
    """Refs of landed work are not reported; commits that never landed are."""
    litter = [each for each in found if each.kind in (LeftoverKind.CHECKOUT, LeftoverKind.FOLDER, LeftoverKind.LOGS)]
    unmerged = sum(each.kind is LeftoverKind.UNMERGED for each in found)
    if litter:
        size = sum(each.bytes for each in litter) / 2**20
        words = f"old checkouts and folders: {len(litter)}, {size:,.1f} MB; 'blueflame cleanup' removes them"
        yield DoctorFinding("left behind", FindingState.WARNING, words)
    if unmerged:
        words = (
            f"{unmerged} attempts' commits are on no branch and kept: 'blueflame cleanup --drop-unmerged' drops them"
        )
        yield DoctorFinding("never landed", FindingState.OK, words)


def examine_editor(names: tuple[str, ...]) -> DoctorFinding:
    found = next((name for name in names if name and shutil.which(name.split()[0])), None)
    if found is None:
        return DoctorFinding("editor", FindingState.WARNING, "none found: set $EDITOR to edit plans at a gate")
    return DoctorFinding("editor", FindingState.OK, found)
