"""Try setup and checks once on the base commit, in the sandbox, as they will run for every result.

`blueflame init` tries what it found and writes what worked; `blueflame doctor --try` tries what is configured.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from blueflame.config.detect.choose_commands import (
    CommandChoice,
    TriedProject,
    choose_commands,
    choose_tried,
    find_variant,
    is_good_enough,
    is_usable,
)
from blueflame.config.detect.commands import Candidate, Commands, ProjectCommands
from blueflame.config.locate import CONFIG_NAME
from blueflame.git.merge import digest_tree_without, find_tree
from blueflame.model.errors import Refused
from blueflame.model.settings import Settings
from blueflame.model.verdict import Check
from blueflame.orchestrator.attempts.check_commit import CheckOrder, run_order
from blueflame.orchestrator.attempts.launch import IGNORE_LEFTOVERS
from blueflame.orchestrator.baseline import BaselineFile, BaselineKey, digest_commands
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.diagnostics import ReportCheck
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.orchestrator.lifecycle import prepare_folders
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.wiring import build_command_context
from blueflame.system.clock import SystemClock

STOP_GRACE = 2.0
LIST_CHANGES = "git -c core.quotePath=false status --porcelain"
OWN_LINES = (IGNORE_LEFTOVERS, LIST_CHANGES)
T = TypeVar("T")


def try_projects(project: Project, projects: Sequence[ProjectCommands], report: ReportCheck) -> CommandChoice:
    """Try the candidates of each project until one is good enough."""
    context, owner = _open_trial(project)
    tried = asyncio.run(_run_trial(context, owner, partial(_try_all, context, owner, projects, report)))
    return choose_commands(tried)


def try_settings(project: Project, report: ReportCheck) -> tuple[Check, ...]:
    """Try what is configured; the checks, or the setup command that failed."""
    context, owner = _open_trial(project)
    worktree, checks = project.settings.worktree, project.settings.validation.validator_diagnostics
    commands = Commands(
        setup=worktree.setup, registries=worktree.registries, tests=checks.commands if checks.enabled else ()
    )
    ended = asyncio.run(_run_trial(context, owner, partial(_try_commands, context, owner, commands, report)))
    ended = tuple(check for check in ended if check.name not in OWN_LINES)
    save_baseline(project, project.settings, ended)
    return ended


def save_baseline(project: Project, settings: Settings, checks: Sequence[Check]) -> None:
    """Record how the checks of these settings ended on the base, also for the commit that adds this configuration."""
    lines = settings.validation.validator_diagnostics.commands
    by_name = {check.name: check for check in checks}
    ran = [by_name[line] for line in lines if line in by_name]
    repo, baseline, commands = project.repo, BaselineFile(project.paths.baseline), digest_commands(settings)
    for tree in (find_tree(repo, repo.base_sha), digest_tree_without(repo, repo.base_sha, CONFIG_NAME)):
        baseline.save(BaselineKey(tree=tree, commands=commands), ran, lines)


def _open_trial(project: Project) -> tuple[SessionContext, str]:
    level = project.settings.sandbox.level
    problems = find_sandbox_problems(level)
    if problems:
        raise Refused(f"the sandbox cannot hold level {level}: {problems[0].words}")
    prepare_folders(project)
    return build_command_context(project), f"try-{int(SystemClock().now())}"


async def _run_trial(context: SessionContext, owner: str, run: Callable[[], Awaitable[T]]) -> T:
    """Run it; nothing of it is left afterwards, also when the person interrupts."""
    try:
        return await run()
    finally:
        for name in await context.engine.list_live(owner):
            await context.engine.cancel(name, "the trial has ended", STOP_GRACE)
            await context.engine.wait(name)
        for folder in context.paths.attempts.glob(f"{owner}.*"):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _try_all(
    context: SessionContext, owner: str, projects: Sequence[ProjectCommands], report: ReportCheck
) -> tuple[TriedProject, ...]:
    return tuple([await _try_project(context, f"{owner}.{n}", each, report) for n, each in enumerate(projects, 1)])


async def _try_project(
    context: SessionContext, owner: str, project: ProjectCommands, report: ReportCheck
) -> TriedProject:
    """The first candidate that is good enough, or else the best of them."""
    tried: list[TriedProject] = []
    for n, candidate in enumerate(project.candidates or (Candidate(),), start=1):
        tried += await _try_forms(context, f"{owner}-{n}", project, candidate, report)
        if is_good_enough(tried[-1]):
            break
        if any(check.timed_out for each in tried for check in each.checks):
            return tried[-1]
    return choose_tried(tried)


async def _try_forms(
    context: SessionContext, owner: str, project: ProjectCommands, candidate: Candidate, report: ReportCheck
) -> list[TriedProject]:
    """The candidate, and the same in another form where that may help; the last is the best of them."""
    tried = [await _try_candidate(context, owner, project, candidate, report)]
    while other := find_variant(tried[-1]):
        again = await _try_candidate(context, f"{owner}-{len(tried)}", project, other, report)
        if not is_usable(again) or (again.left_behind and is_good_enough(tried[-1])):
            return [again, *tried]
        tried.append(again)
    return tried


async def _try_candidate(
    context: SessionContext, owner: str, project: ProjectCommands, candidate: Candidate, report: ReportCheck
) -> TriedProject:
    commands = Commands(
        setup=candidate.setup, tests=candidate.tests, lints=project.lints, registries=project.registries
    )
    ended = await _try_commands(context, owner, commands, report)
    left = [line[3:] for check in ended if check.name == LIST_CHANGES for line in check.output.splitlines()]
    checks = tuple(check for check in ended if check.name not in OWN_LINES)
    return TriedProject(project=project, candidate=candidate, checks=checks, left_behind=tuple(left))


async def _try_commands(
    context: SessionContext, owner: str, commands: Commands, report: ReportCheck
) -> tuple[Check, ...]:
    """Run setup and checks, with lines of our own that find what the checks leave in the checkout."""

    def report_theirs(line: str, check: Check | None) -> None:
        if line not in OWN_LINES:
            report(line, check)

    worktree = context.settings.worktree.model_copy(update={"setup": commands.setup, "registries": commands.registries})
    order = CheckOrder(
        owner=owner,
        base_branch=context.repo.base_branch,
        lines=(IGNORE_LEFTOVERS, *commands.checks, LIST_CHANGES),
        sha=context.repo.base_sha,
        subject="try",
        report=report_theirs,
    )
    settings = context.settings.model_copy(update={"worktree": worktree})
    ended = await run_order(replace(context, settings=settings), order)
    if ended is None:
        raise Refused("the trial was stopped: nothing was written; start it again")
    return ended
