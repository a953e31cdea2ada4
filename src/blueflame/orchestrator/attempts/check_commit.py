"""Run the diagnostics on one pinned commit, in a clean checkout that is removed afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from blueflame.checks.failed_tests import compare_with_base
from blueflame.config.locate import CONFIG_NAME
from blueflame.git.checkouts import get_home_path, list_checkouts, make_checkout, remove_checkout
from blueflame.git.merge import digest_tree_without, find_tree
from blueflame.git.seed_checkout import seed_checkout
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError
from blueflame.model.event import Checked, Event
from blueflame.model.verdict import Check
from blueflame.orchestrator.attempts.kept_dependencies import is_missing, keep_installed, restore_kept
from blueflame.orchestrator.attempts.spares import release_checkout
from blueflame.orchestrator.attempts.walls import build_command_walls, find_inner_path
from blueflame.orchestrator.baseline import BaselineKey, digest_commands
from blueflame.orchestrator.check_runner import (
    CheckRunner,
    ChecksStopped,
    confirm_blame,
    list_blamed,
    require_endings,
    require_programs,
)
from blueflame.orchestrator.context import Emit, ScratchCheckout, SessionContext
from blueflame.orchestrator.engine.commands import Command
from blueflame.orchestrator.engine.diagnostics import ReportCheck, run_check, run_checks
from blueflame.orchestrator.engine.interface import Queued
from blueflame.session.effects import DiagnoseTask, name_act
from blueflame.session.environment import count_failures
from blueflame.session.state import Session
from blueflame.system.environment import build_worktree_variables

SCRATCH_PREFIX = "check-"
MIN_TIMEOUT_SECONDS = 0.1  # 0 would mean no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOrder:
    """What to run on which commit, and for whom: `owner` is a session, or a trial."""

    owner: str
    base_branch: str
    lines: tuple[str, ...]
    sha: str
    subject: str
    again: bool = False  # new names for commands that have run already, so that they run once more
    tries: int = 0  # likewise, how often the machine was at fault before
    report: ReportCheck = lambda _line, _check: None


async def run_diagnostics(
    context: SessionContext, session: Session, effect: DiagnoseTask, _emit: Emit
) -> Sequence[Event]:
    tries = count_failures(session, name_act(session, effect))

    async def run(commit: str, again: bool) -> tuple[Check, ...] | None:
        return await check_commit(context, session, commit, effect.task, again=again, tries=tries)

    checks = await run(effect.sha, False)
    result = session.tasks[effect.task].result
    if checks and result is not None:
        known = await asyncio.to_thread(find_base_checks, context, session, result.base)
        on_base = await _find_checks_before(context, session, result.base, checks)
        if on_base is None:
            return []
        runner = CheckRunner(run=run, retry=context.settings.merging.retry_red_checks)
        try:
            checks = compare_with_base(checks, on_base)
            if list_blamed(checks) and (known or not on_base):  # without any, the setup failed there
                recheck = partial(recheck_base, context, session, result.base, effect.sha, tries)
                checks = await confirm_blame(checks, on_base, recheck)
            else:
                require_endings(checks, on_base)
            checks = await runner.repeat_blamed(effect.sha, checks, on_base)
            require_programs(checks, context.baseline.list_missing(digest_commands(context.settings)))
        except ChecksStopped:
            return []
    return [] if checks is None else [Checked(task=effect.task, sha=effect.sha, checks=checks)]


async def recheck_base(
    context: SessionContext, session: Session, base: str, sha: str, tries: int
) -> tuple[Check, ...] | None:
    """Run the checks on a base now, whatever is known about it, because `sha` is red."""
    return await check_commit(context, session, base, f"base-{sha[:12]}", tries=tries)


async def _find_checks_before(
    context: SessionContext, session: Session, base: str, checks: Sequence[Check]
) -> tuple[Check, ...] | None:
    """How the checks end on the base; None when a stop ended them.

    They are run there for red checks, and once on the base of the session, so that the numbers of tests can be
    compared; a base that only this task has is not worth another run, nor one that differs in the configuration alone
    from one that was tried.
    """
    if not all(check.passed for check in checks):
        return await check_base(context, session, base)
    known = await asyncio.to_thread(find_base_checks, context, session, base)
    found = next(iter(known.values()), ()) or await asyncio.to_thread(find_tried_checks, context, session, base)
    return found if found or base != session.base_sha else await check_base(context, session, base)


async def check_commit(
    context: SessionContext, session: Session, sha: str, subject: str, *, again: bool = False, tries: int = 0
) -> tuple[Check, ...] | None:
    """Run the session's checks on a commit; () when it has none, None when a stop ended them."""
    order = CheckOrder(
        owner=session.id,
        base_branch=session.base_branch,
        lines=session.limits.checks,
        sha=sha,
        subject=subject,
        again=again,
        tries=tries,
    )
    return await run_order(context, order) if order.lines else ()


async def check_base(context: SessionContext, session: Session, base: str) -> tuple[Check, ...] | None:
    """Find how the checks end on a base, or run them there; None when a stop ended them."""

    async def run(commit: str, again: bool) -> tuple[Check, ...] | None:
        return await check_commit(context, session, commit, "base", again=again)

    async with context.baseline.lock:  # tasks that ask at once share one run
        known = await asyncio.to_thread(find_base_checks, context, session, base)
        if not known:
            tree = await asyncio.to_thread(find_tree, context.repo, base)
            try:
                known = {tree: await CheckRunner(run=run).examine(base, tree)}
            except ChecksStopped:
                return None
            finally:
                await _release_earlier(context)  # other tasks use the same name
            await asyncio.to_thread(keep_base_checks, context, session, tree, known[tree])
    # never a setup command: one that fails is no reason to accept a result that was not checked
    (checks,) = known.values()
    return tuple(check for check in checks if check.name in session.limits.checks)


def keep_base_checks(context: SessionContext, session: Session, tree: str, checks: tuple[Check, ...]) -> None:
    """Keep how the checks ended on a base, unless a program is missing: that may be the machine."""
    if not any(check.cannot_start for check in checks):
        key = BaselineKey(tree=tree, commands=digest_commands(context.settings))
        context.baseline.save(key, checks, session.limits.checks)


def find_base_checks(context: SessionContext, session: Session, base: str) -> dict[str, tuple[Check, ...]]:
    """Find the recorded result on the base, by tree; empty when these checks never ran there."""
    tree = find_tree(context.repo, base)
    found = context.baseline.find(BaselineKey(tree=tree, commands=digest_commands(context.settings)))
    found = found or _find_green_result(session, base)
    same = tuple(check.name for check in found) == session.limits.checks
    return {tree: found} if found and same else {}


def find_tried_checks(context: SessionContext, session: Session, base: str) -> tuple[Check, ...]:
    """Find the result of a trial on the base without its configuration; a check may read it: this excuses nothing."""
    tree = digest_tree_without(context.repo, base, CONFIG_NAME)
    found = context.baseline.find(BaselineKey(tree=tree, commands=digest_commands(context.settings))) or ()
    return found if tuple(check.name for check in found) == session.limits.checks else ()


def _find_green_result(session: Session, commit: str) -> tuple[Check, ...]:
    """The checks of the task whose result is this commit; red ones were not run twice, and excuse nothing."""
    for name, checks in tuple(session.checks.items()):  # in a thread, while the loop adds some
        result = session.tasks[name].result
        if result is not None and result.sha == commit and all(check.passed for check in checks):
            return checks
    return ()


async def run_order(context: SessionContext, order: CheckOrder) -> tuple[Check, ...] | None:
    """Run the worktree's setup, then every line; a setup that fails is a red check.

    None when a stop ended it. Commands that an earlier orchestrator started are found by their names.
    """
    later = (f"-{order.tries + 1}" if order.tries else "") + ("-again" if order.again else "")
    name = f"{order.subject}-{order.sha[:12]}{later}"
    path = context.paths.checkout(f"{SCRATCH_PREFIX}{name}")
    ran = [f"{order.owner}.{name}.setup-{n:02d}.1" for n in range(1, len(context.settings.worktree.setup) + 1)]
    ran += [f"{order.owner}.{name}.check-{n:02d}.1" for n in range(1, len(order.lines) + 1)]
    async with _open_scratch(context, ran, path, order.sha) as checkout:
        variables = build_worktree_variables(
            root=context.repo.root,
            worktree=find_inner_path(context, checkout),
            branch="",
            session=order.owner,
            task=order.subject,
            base_branch=order.base_branch,
            agent="checks",
            role="checks",
        )
        command = Command(
            name=f"{order.owner}.{name}.check",
            text="",
            cwd=checkout,
            env={},
            wall=build_command_walls(context, checkout, variables),
            timeout=context.settings.validation.validator_diagnostics.timeout,
        )
        wall = build_command_walls(context, checkout, variables, setup=True)
        setup = await _run_setup(context, order, replace(command, name=f"{order.owner}.{name}.setup", wall=wall))
        if setup is None or not all(check.passed for check in setup):
            return setup
        checks = await run_checks(context.engine, order.lines, command, order.report)
        if checks is not None:
            await asyncio.to_thread(keep_installed, context, checkout, order.sha, order.base_branch)
        return checks


async def install_dependencies(context: SessionContext, session: Session) -> None:
    """Run the setup once on the session's base, so that every checkout starts with what it installs.

    A setup that fails keeps nothing: the attempt that runs it next reports it.
    """
    if not context.settings.worktree.setup:
        return
    async with context.installing:  # attempts that start at once share one run
        if await asyncio.to_thread(is_missing, context, session.base_sha):
            order = CheckOrder(
                owner=session.id, base_branch=session.base_branch, lines=(), sha=session.base_sha, subject="setup"
            )
            await run_order(context, order)
            await _release_earlier(context)  # other attempts use the same name


async def is_setup_green(context: SessionContext, session: Session, subject: str) -> bool:
    """Run the setup on the session's base now; False, too, when a stop ended it."""
    base = session.base_sha
    order = CheckOrder(owner=session.id, base_branch=session.base_branch, lines=(), sha=base, subject=subject)
    checks = await run_order(context, order)
    return checks is not None and all(check.passed for check in checks)


async def _run_setup(context: SessionContext, order: CheckOrder, like: Command) -> tuple[Check, ...] | None:
    """Run up to the first that fails; the time limit is for all of them together."""
    left = context.settings.worktree.setup_timeout
    done: list[Check] = []
    for n, line in enumerate(context.settings.worktree.setup, start=1):
        command = replace(like, name=f"{like.name}-{n:02d}", text=line, timeout=max(left, MIN_TIMEOUT_SECONDS))
        order.report(line, None)
        check = await run_check(context.engine, command)
        if check is None:
            return None
        order.report(line, check)
        done.append(check)
        if not check.passed:
            break
        left -= check.seconds
    return tuple(done)


@asynccontextmanager
async def _open_scratch(context: SessionContext, runs: Sequence[str], path: Path, sha: str) -> AsyncIterator[Path]:
    """Make and remove a checkout in a thread: a large tree must not block the loop.

    One in which commands were started before a crash is used again. One that a stop interrupts stays, since its
    commands may still use it; `blueflame resume` or `cleanup` remove it. `runs` names the first run of each command.
    The last one of an effect is removed when its result is recorded: a removal that is slow or fails costs no result.
    """
    await _release_earlier(context)  # the next one may use its files
    is_new = not await _is_in_use(context, runs)
    if is_new:
        await asyncio.to_thread(remove_checkout, path)
    await asyncio.to_thread(_make_scratch, context, path, sha, is_new=is_new)
    yield path
    if context.unneeded is None:
        await asyncio.to_thread(release_checkout, context, path, runs)
    else:
        context.unneeded.append(ScratchCheckout(path, runs))


async def _release_earlier(context: SessionContext) -> None:
    """Release those of the same effect; one that cannot be removed is tried again with the last."""
    with suppress(WorldError, OSError):
        await asyncio.to_thread(release_unneeded, context, context.unneeded or [])


def release_unneeded(context: SessionContext, unneeded: list[ScratchCheckout]) -> None:
    """A stop ends the wait for this and not its thread: the next one may find the same checkouts, or none any more."""
    for each in tuple(unneeded):
        release_checkout(context, *each)
        with suppress(ValueError):
            unneeded.remove(each)


def release_left_scratch(context: SessionContext, session: Session) -> None:
    """Remove what an orchestrator that was killed left behind: nothing of it is needed when a session has ended."""
    agents = {record.attempt.agent_id for record in session.attempts.values()}
    for path in list_checkouts(context.paths.worktrees):
        if path.name.startswith(SCRATCH_PREFIX) and path.name not in agents:
            remove_checkout(path)


def _make_scratch(context: SessionContext, path: Path, sha: str, *, is_new: bool) -> None:
    make_checkout(context.repo, path, base=sha)
    if is_new:
        restore_kept(context, path, get_home_path(path), sha)
    seed_checkout(context.repo.root, path, context.settings.worktree.include)


async def _is_in_use(context: SessionContext, runs: Sequence[str]) -> bool:
    return any([not isinstance(await context.engine.inspect(name), Queued) for name in runs])
