"""Running the diagnostics on one pinned commit, in a clean checkout that is thrown away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from blueflame.engine.diagnostics import run_checks
from blueflame.model.verdict import Check
from blueflame.rules.session import Session
from blueflame.tools.environment import clean_environment, environment
from blueflame.tools.git.checkouts import scratch_checkout
from blueflame.tools.places import make_folder
from blueflame.tools.seeding import seed
from blueflame.waves.flame import Flame

MOMENT = 0.1  # seconds; 0 would mean no limit at all


async def check_commit(flame: Flame, session: Session, sha: str, subject: str) -> tuple[Check, ...]:
    """The worktree's own setup, then every diagnostic command; a setup that fails is a red check."""
    commands = session.limits.checks
    if not commands:
        return ()
    name = f"check-{subject}-{sha[:12]}"
    logs = flame.places.logs / session.id / name
    async with _scratch(flame, flame.places.checkout(name), sha) as checkout:
        env = _environment(flame, session, checkout, subject)
        failed = await _set_up(flame, checkout, logs / "setup", env)
        if failed is not None:
            return (failed,)
        limit = flame.settings.validation.validator_diagnostics.timeout
        return await _run(commands, checkout, limit, logs, env)


async def _set_up(flame: Flame, checkout: Path, logs: Path, env: dict[str, str]) -> Check | None:
    """The command that failed, if one did; the time limit is for all of them together."""
    left = flame.settings.worktree.setup_timeout
    for n, command in enumerate(flame.settings.worktree.setup, start=1):
        (check,) = await _run([command], checkout, max(left, MOMENT), logs / f"{n:02d}", env)
        if not check.passed:
            return check
        left -= check.seconds
    return None


async def _run(
    commands: Sequence[str], checkout: Path, timeout: float, logs: Path, env: dict[str, str]
) -> tuple[Check, ...]:
    await asyncio.to_thread(make_folder, logs)
    return await run_checks(commands, checkout=checkout, timeout=timeout, log_dir=logs, env=env)


@asynccontextmanager
async def _scratch(flame: Flame, path: Path, sha: str) -> AsyncIterator[Path]:
    """Made and removed in a thread: a large tree must not hold the loop up."""
    with ExitStack() as undo:
        checkout = await asyncio.to_thread(undo.enter_context, scratch_checkout(flame.repo, path, sha))
        await asyncio.to_thread(seed, flame.repo.root, checkout, flame.settings.worktree.include)
        yield checkout
        await asyncio.to_thread(undo.close)


def _environment(flame: Flame, session: Session, checkout: Path, subject: str) -> dict[str, str]:
    return clean_environment(flame.environ) | environment(
        root=flame.repo.root,
        worktree=checkout,
        branch="",
        session=session.id,
        task=subject,
        base_branch=session.base_branch,
        agent="checks",
        role="checks",
    )
