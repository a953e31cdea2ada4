"""Run the diagnostics on one pinned commit, in a clean checkout that is removed afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from blueflame.git.checkouts import make_checkout, remove_checkout
from blueflame.git.seed_checkout import seed_checkout
from blueflame.model.verdict import Check
from blueflame.orchestrator.attempts.walls import build_command_walls, find_inner_path
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.commands import Command
from blueflame.orchestrator.engine.diagnostics import run_check, run_checks
from blueflame.orchestrator.engine.interface import Queued
from blueflame.session.state import Session
from blueflame.system.environment import build_worktree_variables

MIN_TIMEOUT_SECONDS = 0.1  # 0 would mean no limit


async def check_commit(
    context: SessionContext, session: Session, sha: str, subject: str, *, again: bool = False
) -> tuple[Check, ...] | None:
    """Run the worktree's setup, then every diagnostic command; a setup that fails is a red check.

    None when a stop ended it. Commands that an earlier orchestrator started are found by their names; `again` gives
    them new names, so that they run once more.
    """
    lines = session.limits.checks
    if not lines:
        return ()
    name = f"{subject}-{sha[:12]}" + ("-again" if again else "")
    async with _open_scratch(context, f"{session.id}.{name}", context.paths.checkout(f"check-{name}"), sha) as checkout:
        variables = build_worktree_variables(
            root=context.repo.root,
            worktree=find_inner_path(context, checkout),
            branch="",
            session=session.id,
            task=subject,
            base_branch=session.base_branch,
            agent="checks",
            role="checks",
        )
        command = Command(
            name=f"{session.id}.{name}.check",
            text="",
            cwd=checkout,
            env={},
            wall=build_command_walls(context, checkout, variables),
            timeout=context.settings.validation.validator_diagnostics.timeout,
        )
        wall = build_command_walls(context, checkout, variables, setup=True)
        setup = await _run_setup(context, replace(command, name=f"{session.id}.{name}.setup", wall=wall))
        if setup is None or not all(check.passed for check in setup):
            return setup
        return await run_checks(context.engine, lines, command)


async def _run_setup(context: SessionContext, like: Command) -> tuple[Check, ...] | None:
    """Run up to the first that fails; the time limit is for all of them together."""
    left = context.settings.worktree.setup_timeout
    done: list[Check] = []
    for n, line in enumerate(context.settings.worktree.setup, start=1):
        command = replace(like, name=f"{like.name}-{n:02d}", text=line, timeout=max(left, MIN_TIMEOUT_SECONDS))
        check = await run_check(context.engine, command)
        if check is None:
            return None
        done.append(check)
        if not check.passed:
            break
        left -= check.seconds
    return tuple(done)


@asynccontextmanager
async def _open_scratch(context: SessionContext, stem: str, path: Path, sha: str) -> AsyncIterator[Path]:
    """Make and remove a checkout in a thread: a large tree must not block the loop.

    One in which commands were started before a crash is used again. One that a stop interrupts stays, since its
    commands may still use it; `blueflame resume` or `cleanup` remove it.
    """
    if not await _is_in_use(context, stem):
        await asyncio.to_thread(remove_checkout, path)
    await asyncio.to_thread(make_checkout, context.repo, path, base=sha)
    await asyncio.to_thread(seed_checkout, context.repo.root, path, context.settings.worktree.include)
    yield path
    await asyncio.to_thread(remove_checkout, path)


async def _is_in_use(context: SessionContext, stem: str) -> bool:
    first = [f"{stem}.{kind}-01.1" for kind in ("setup", "check")]
    return any([not isinstance(await context.engine.inspect(name), Queued) for name in first])
