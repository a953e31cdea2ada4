"""The merge stage: build a changeset on the newest base in the object store, check it, land it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from blueflame.checks.failed_tests import compare_with_base
from blueflame.checks.merge_losses import find_losses
from blueflame.git.filters import refuse_filtered_changes
from blueflame.git.forges import PullRequest, choose_forge, create_pull_request, push_branch
from blueflame.git.landing import Advanced, Dirty, advance_branch
from blueflame.git.merge import find_tree
from blueflame.git.merge_sides import MergeSide, read_changed_files
from blueflame.git.rebase import CannotRebase
from blueflame.git.repository import Repository
from blueflame.git.secret_scan import scan_changeset
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changeset import Build, Changeset, ChangesetRecord, Conflict
from blueflame.model.errors import WorldError
from blueflame.model.event import (
    BaseLost,
    BaseMoved,
    ChangesetBuilt,
    ChangesetEvicted,
    Event,
    Landed,
    PullRequestOpened,
    ScanDelayed,
)
from blueflame.model.verdict import Check
from blueflame.orchestrator.attempts.check_commit import (
    check_commit,
    find_base_checks,
    find_tried_checks,
    keep_base_checks,
    recheck_base,
)
from blueflame.orchestrator.attempts.validator import list_file_changes
from blueflame.orchestrator.base_branch import read_base
from blueflame.orchestrator.baseline import digest_commands
from blueflame.orchestrator.check_runner import (
    CheckRunner,
    ChecksStopped,
    confirm_blame,
    list_blamed,
    require_endings,
    require_programs,
)
from blueflame.orchestrator.commit_rules import DEFAULT_RULES, CommitRules, build_commit_rules
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.merge_queue.assemble import FAST_FORWARD, PULL_REQUEST, MergeInputs, assemble_changeset
from blueflame.orchestrator.merge_queue.bisect import examine_base, find_culprit
from blueflame.orchestrator.merge_queue.review_hints import add_hints
from blueflame.session.changesets.queue import give_task_back, handle_conflict, trim_changeset
from blueflame.session.effects import BuildChangeset, LandChangeset, name_act
from blueflame.session.environment import count_failures
from blueflame.session.state import Session
from blueflame.text.pull_request import format_pull_request_body, format_pull_request_title

SLOW_SCAN_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSite:
    """The repository in which a changeset is built, and how it is checked."""

    repo: Repository
    runner: CheckRunner
    leaks: Callable[[str, str], Awaitable[Sequence[object]]]  # secrets between two commits
    mode: str = "merge"
    rules: CommitRules = DEFAULT_RULES
    recheck: Callable[[str, str], Awaitable[tuple[Check, ...] | None]] | None = None  # of a base, for a red commit
    missing: frozenset[str] = frozenset()  # checks whose program a person knows to be missing
    tried: tuple[Check, ...] = ()  # how the checks ended on the base without its configuration; excuses nothing


async def build_changeset(
    context: SessionContext, session: Session, effect: BuildChangeset, emit: Emit
) -> Sequence[Event]:
    changeset = session.changesets[effect.changeset].changeset

    tries = count_failures(session, name_act(session, effect))

    async def run(commit: str, again: bool) -> tuple[Check, ...] | None:
        return await check_commit(context, session, commit, changeset.id, again=again, tries=tries)

    async def recheck(base: str, commit: str) -> tuple[Check, ...] | None:
        return await recheck_base(context, session, base, commit, tries)

    known = await asyncio.to_thread(list_known_checks, context.repo, session, changeset)
    site = BuildSite(
        repo=context.repo,
        runner=CheckRunner(run=run, known=known, retry=context.settings.merging.retry_red_checks),
        leaks=partial(_scan_changeset, context, emit, changeset.id),
        mode=context.settings.landing.mode,
        rules=build_commit_rules(context.repo, context.settings),
        recheck=recheck,
        missing=context.baseline.list_missing(digest_commands(context.settings)),
    )
    base = await asyncio.to_thread(read_base, context.repo, session)
    if isinstance(base, BaseLost):
        return [base]
    on_base = await asyncio.to_thread(find_base_checks, context, session, base)
    known.update(on_base)
    tree = await asyncio.to_thread(find_tree, context.repo, base)
    tried = () if known.get(tree) else await asyncio.to_thread(find_tried_checks, context, session, base)
    events = await build_on_base(replace(site, tried=tried), session, changeset.id, base)
    if tree in known and not on_base:  # the next changeset on this base needs no run of its own
        await asyncio.to_thread(keep_base_checks, context, session, tree, known[tree])
    allow_file = context.settings.validation.secrets.allow_file
    return await asyncio.to_thread(add_hints, context.repo, events, allow_file=allow_file)


async def _scan_changeset(context: SessionContext, emit: Emit, name: str, base: str, commit: str) -> Sequence[object]:
    """Search it for secrets; say so when that takes long, and when it has ended after that."""
    settings, scans, began = context.settings.validation.secrets, context.paths.scans, context.clock.now()
    scan = asyncio.ensure_future(asyncio.to_thread(scan_changeset, context.repo, base, commit, settings, below=scans))
    if not (await asyncio.wait({scan}, timeout=SLOW_SCAN_SECONDS))[0]:
        emit([ScanDelayed(changeset=name, seconds=round(context.clock.now() - began, 1))])
        await asyncio.wait({scan})
        emit([ScanDelayed(changeset=name, seconds=round(context.clock.now() - began, 1), is_over=True)])
    return await scan


async def build_on_base(site: BuildSite, session: Session, name: str, base: str) -> Sequence[Event]:
    """Build and check a changeset on this base. It is built, in conflict, trimmed, evicted or skipped."""
    inputs = MergeInputs(site.repo, session, session.changesets[name], base, site.rules)
    made = await asyncio.to_thread(assemble_changeset, inputs, site.mode)
    if isinstance(made, Conflict):  # what a merger resolves cannot be rebased: the task goes back
        act = give_task_back if site.mode == FAST_FORWARD else handle_conflict
        return [act(session, name, made)]
    if isinstance(made, CannotRebase):
        return [_send_back_unrebased(session, inputs.changeset, made)]
    leaks = await site.leaks(base, made.commit)
    if leaks:
        listed = "\n".join(str(leak) for leak in leaks)
        return [ChangesetEvicted(changeset=name, reason=f"it would land secrets:\n{listed}")]
    try:
        known = site.runner.known.get(await asyncio.to_thread(find_tree, site.repo, base), ())
        is_new = made.tree not in site.runner.known
        checks = await site.runner.run_once(made.commit) if is_new else site.runner.known[made.tree]
        if checks:
            tried = site.tried if all(check.passed for check in checks) else ()
            on_base = known or tried or await examine_base(site.runner, inputs)
            on_base = tuple(check for check in on_base if check.name in session.limits.checks)  # never a setup command
            checks = compare_with_base(checks, on_base)
            if site.recheck is not None and list_blamed(checks) and (known or not on_base):
                checks = await confirm_blame(checks, on_base, partial(site.recheck, base, made.commit))
            elif not known:
                require_endings(checks, on_base)
            if is_new:
                checks = site.runner.known[made.tree] = await site.runner.repeat_blamed(made.commit, checks, on_base)
            require_programs(checks, site.missing)
        if list_blamed(checks):
            return await find_culprit(site.runner, inputs, checks)
    except ChecksStopped:
        return []
    files = await asyncio.to_thread(list_file_changes, site.repo, base, made.commit)
    lost = find_losses(
        await asyncio.to_thread(
            read_changed_files, site.repo, base, _list_sides(session, inputs.changeset), made.commit
        )
    )
    built = Build(base=base, commit=made.commit, files=files, checks=checks, losses=lost)
    return [ChangesetBuilt(changeset=name, build=built)]


def _send_back_unrebased(session: Session, changeset: Changeset, found: CannotRebase) -> Event:
    """Send back the task whose commits cannot be rebased; it starts again from the newest base."""
    results = {name: session.tasks[name].result for name in changeset.tasks}
    culprits = [name for name, result in results.items() if result is not None and result.sha == found.tip]
    reason = f"it cannot land by fast-forward: {found.reason}"
    return trim_changeset(session, changeset.id, culprits or changeset.tasks, reason)


def list_known_checks(repo: Repository, session: Session, changeset: Changeset) -> dict[str, tuple[Check, ...]]:
    """Results by tree, from the tasks' own checks and from the last landing: these trees are not checked again."""
    known: dict[str, tuple[Check, ...]] = {}
    for name in changeset.tasks:
        result = session.tasks[name].result
        if result is not None and name in session.checks:
            known[find_tree(repo, result.sha)] = session.checks[name]
    last = session.changesets[session.landings[-1]] if session.landings else None
    if last is not None and last.build is not None:
        known[find_tree(repo, last.build.commit)] = last.build.checks
    return known


def _list_sides(session: Session, changeset: Changeset) -> list[MergeSide]:
    results = [(name, session.tasks[name].result) for name in changeset.tasks]
    return [MergeSide(name, result.base, result.sha) for name, result in results if result is not None]


async def land_changeset(
    context: SessionContext, session: Session, effect: LandChangeset, _emit: Emit
) -> Sequence[Event]:
    """Land exactly the approved commit, by compare-and-swap from the base it was built on, or nothing."""
    record = session.changesets[effect.changeset]
    build = record.build
    assert build is not None, f"{effect.changeset} was approved without a build"
    if context.settings.landing.mode == PULL_REQUEST:
        return await asyncio.to_thread(open_pull_request, context, session, record, build)
    if isinstance(base := await asyncio.to_thread(read_base, context.repo, session), BaseLost):
        return [base]
    if base == build.base:  # on another one it is built again, with other attributes
        await asyncio.to_thread(refuse_filtered_changes, context.repo, base, build.commit)
    done = await asyncio.to_thread(advance_branch, context.repo, session.base_branch, old=build.base, new=build.commit)
    if isinstance(done, Advanced):
        return [Landed(changeset=effect.changeset, before=build.base, after=build.commit, checkout=done.checkout)]
    if isinstance(done, Dirty) and done.under_way:
        raise WorldError(f"{done.reason}; {effect.changeset} lands after that, nothing was changed")
    if isinstance(done, Dirty):
        why = ": ".join(filter(None, (done.reason, ", ".join(done.paths[:10]))))
        state = f"your checkout of {session.base_branch} is not clean ({why})"
        raise WorldError(f"{state}; it was not touched, and {effect.changeset} lands after that")
    return [BaseMoved(changeset=effect.changeset, expected=build.base, found=done.found)]


def open_pull_request(
    context: SessionContext, session: Session, record: ChangesetRecord, build: Build
) -> Sequence[Event]:
    """Idempotent. Without a remote or a forge it is held and tried again, as all that fails outside of us."""
    landing, changeset = context.settings.landing, record.changeset
    branch = f"{landing.branch_prefix}{session.id}/{changeset.id}"
    refuse_filtered_changes(context.repo, build.base, build.commit)
    try:
        push_branch(context.repo, landing.remote, build.commit, branch, timeout=landing.push_timeout)
        forge = choose_forge(context.repo.root, landing.remote, landing.forge)
        request = PullRequest(
            branch=branch,
            base=session.base_branch,
            title=format_pull_request_title(record),
            text=format_pull_request_body(session, record, build),
            draft=landing.draft,
        )
        url = create_pull_request(context.repo, forge, request) if forge else ""
    except WorldError as error:
        raise WorldError(f"no pull request could be opened: {error}") from error
    return [PullRequestOpened(changeset=changeset.id, commit=build.commit, branch=branch, url=url)]
