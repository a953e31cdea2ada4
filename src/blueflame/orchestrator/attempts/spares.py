"""Start attempts on large repositories at once: keep the files of ended checkouts for others, and make some ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from blueflame.git.checkouts import (
    count_spares,
    get_index_path,
    keep_files,
    list_checkouts,
    prepare_spare,
    remove_checkout,
)
from blueflame.git.repository import measure_tree
from blueflame.git.spares.index_file import count_entries
from blueflame.git.spares.store import MIN_FILES
from blueflame.git.trees import list_tree_files
from blueflame.model.attempt import Attempt
from blueflame.model.errors import WorldError
from blueflame.orchestrator.attempts.inspect_result import read_object
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.interface import ExitReason
from blueflame.orchestrator.preflight import CHECKOUT_GROWTH
from blueflame.session.state import Session
from blueflame.system.machine import measure_free

MAX_POLLS, POLL_SECONDS = 60, 0.05
MORE_SPARES = 2  # than workers
MAX_SPARE_FILES = 20_000  # in all of them, where that is more


def release_checkout(context: SessionContext, path: Path, ran: Iterable[str]) -> None:
    """Remove a checkout, or keep its files if all that ran there is gone for certain. Idempotent."""
    if get_index_path(path).exists() and all(_has_left_nothing_running(context, name) for name in ran):
        files = count_entries(get_index_path(path))
        keep_files(context.repo, path, most=limit_spares(context.settings.concurrency.development, files))
    else:
        remove_checkout(path)


def _has_left_nothing_running(context: SessionContext, name: str) -> bool:
    """Whether its sandbox ended by itself: the first process of one ends after all others."""
    launch, outcome = (read_object(context, name, file) for file in ("launch.json", "outcome.json"))
    return bool(launch.get("sandbox")) and outcome.get("reason") == ExitReason.EXITED and outcome["signal"] is None


def limit_spares(workers: int, files: int) -> int:
    """How many may be kept: more than are wanted ahead if they are small, for one that is removed is written again.

    Also in time: ext4 searches long for a free inode while many were removed within the last minute.
    """
    return max(workers + MORE_SPARES, MAX_SPARE_FILES // max(files, MIN_FILES))


def _count_wanted(context: SessionContext) -> int:
    """One for each worker, and when one has ended one for its checks and one for the next worker."""
    return context.settings.concurrency.development + MORE_SPARES


def is_large(context: SessionContext, attempt: Attempt) -> bool:
    """Whether the checkout of an attempt is so large that its files are kept."""
    return get_index_path(context.paths.checkout(attempt.agent_id)).exists()


async def let_others_start(sleep: Callable[[float], Awaitable[None]], session: Session) -> None:
    """Wait until no attempt is starting, though not for ever: writing many files keeps cores and disk busy."""
    for _poll in range(MAX_POLLS):
        if all(session.attempts[name].started_at is not None for name in session.live):
            return
        await sleep(POLL_SECONDS)


async def prepare_spares(context: SessionContext, session: Session) -> None:
    """Make checkouts of a large repository ahead, one at a time, while a planner or a person thinks."""
    if context.settings.sandbox.level == "off":  # none is ever kept there
        return
    worktrees = context.paths.worktrees
    if len(await asyncio.to_thread(list_tree_files, context.repo, session.base_sha)) < MIN_FILES:
        return
    with suppress(WorldError):  # then attempts make their own, and report what is wrong
        while await asyncio.to_thread(_is_spare_wanted, context, session):
            await let_others_start(context.clock.sleep, session)
            await asyncio.to_thread(prepare_spare, context.repo, worktrees, session.base_sha)


def _is_spare_wanted(context: SessionContext, session: Session) -> bool:
    worktrees = context.paths.worktrees
    needed = CHECKOUT_GROWTH * measure_tree(context.repo, session.base_sha) * _count_wanted(context)
    has_room = measure_free(worktrees).disk > (context.settings.sandbox.min_free_disk_mb << 20) + needed
    there = count_spares(context.repo, worktrees) + len(list_checkouts(worktrees))
    return has_room and there < _count_wanted(context)
