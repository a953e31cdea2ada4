"""Run one attempt: checkout, prompt, warden, result. Every step is idempotent."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from blueflame.agents.credentials import VENDORS
from blueflame.agents.hook import find_hook
from blueflame.agents.runtime import AgentOutput, ResumingRuntime
from blueflame.agents.structured_output import parse_object
from blueflame.git.batch import find_ref
from blueflame.git.checkouts import make_checkout
from blueflame.git.damage import find_damage, find_reported_loss
from blueflame.git.merge import MergeConflict
from blueflame.git.results import set_ref
from blueflame.git.seed_checkout import seed_checkout
from blueflame.git.tripwire import REPOSITORY_TOUCHED
from blueflame.git.untrusted.damage import find_checkout_damage
from blueflame.git.untrusted.disarm import disarm_checkout
from blueflame.model.attempt import (
    BLAMELESS,
    COMMITTING,
    UNAVAILABLE,
    WITHOUT_TASK,
    Attempt,
    AttemptOutcome,
    AttemptRecord,
    Duty,
    Ending,
)
from blueflame.model.errors import BlueFlameError, NoStartingPoint, WorldError
from blueflame.model.event import AttemptEnded, AttemptStarted, Event, QuestionAsked, VerdictGiven
from blueflame.model.ids import build_branch_name
from blueflame.model.question import Question
from blueflame.model.runtime_support import RUNTIMES
from blueflame.model.spend import Spend
from blueflame.orchestrator.attempts.check_commit import install_dependencies, is_setup_green
from blueflame.orchestrator.attempts.clear import clear_attempt, get_base_ref, wait_for_spare
from blueflame.orchestrator.attempts.curator import read_curator
from blueflame.orchestrator.attempts.inspect_result import (
    find_write_fault,
    may_hook_be_killed,
    read_last_output,
    save_fingerprint,
    was_nothing_done_unwatched,
)
from blueflame.orchestrator.attempts.kept_dependencies import restore_kept
from blueflame.orchestrator.attempts.launch import build_spec
from blueflame.orchestrator.attempts.lessons import give_lessons
from blueflame.orchestrator.attempts.merger import prepare_merge, read_merger
from blueflame.orchestrator.attempts.planner import read_planner
from blueflame.orchestrator.attempts.triager import read_triager
from blueflame.orchestrator.attempts.validator import read_validator
from blueflame.orchestrator.attempts.walls import find_inner_path
from blueflame.orchestrator.attempts.worker import combine_foundations, find_start, read_worker
from blueflame.orchestrator.context import Emit, FinishedAttempt, SessionContext
from blueflame.orchestrator.engine.interface import (
    ExitReason,
    ProcessOutcome,
    Queued,
    Running,
    StatusUnknown,
    Unreadable,
)
from blueflame.orchestrator.monitors.messages import carry_messages
from blueflame.orchestrator.monitors.stalls import watch_for_stall
from blueflame.session.clarifications import count_questions_left, parse_question
from blueflame.session.effects import AttendAttempt, CancelAttempt
from blueflame.session.environment import (
    UNWATCHED_CAUSE,
    has_failed_meanwhile,
    is_last_try,
    may_blame_setup,
    may_blame_watch,
    was_limited_meanwhile,
)
from blueflame.session.from_settings import find_runtime_kind
from blueflame.session.rate_limits import describe_account_fix
from blueflame.session.state import Session
from blueflame.system.disk import measure_folder
from blueflame.system.machine import measure_free
from blueflame.system.process import LIMIT_REACHED
from blueflame.system.terminal_attach import has_requested_terminal
from blueflame.text.tokens import estimate_tokens

RESULT_READERS = {
    Duty.SIZE: read_triager,
    Duty.PLAN: read_planner,
    Duty.MAKE: read_worker,
    Duty.JUDGE: read_validator,
    Duty.MERGE: read_merger,
    Duty.CURATE: read_curator,
}
SPOILT_BY_MACHINE = frozenset(
    {Ending.FAILED, Ending.CRASHED, Ending.NO_COMMITS, Ending.NOTHING_TO_DO, Ending.BAD_OUTPUT, Ending.SETUP}
)
RECORDS = ("launch.json", "policy.json", "outcome.json")  # of ours, in the folder of each attempt that has ended
MAX_ERROR_CHARS = 500
READ_ONLY = "read-only file system"
BLOCKED_FIX = "in the sandbox nothing can write what permissions.blocked_paths names: take the file out there"
CANARY = "canary: "  # the sandbox's own line
LAST_OUTPUT_SECONDS = 5.0  # for the last output to reach the screen
MAX_POLLS, POLL_SECONDS = 200, 0.01  # a warden takes its lock after some 50 ms


async def run_attempt(context: SessionContext, session: Session, effect: AttendAttempt, emit: Emit) -> Sequence[Event]:
    record = session.attempts[effect.attempt]
    events = await _run_to_end(context, session, record, emit)
    # before its end is recorded: a person who looks at the checkout then must not run what the agent left there
    await asyncio.to_thread(disarm_checkout, context.repo, context.paths.checkout(record.attempt.agent_id))
    return events


async def _run_to_end(context: SessionContext, session: Session, record: AttemptRecord, emit: Emit) -> Sequence[Event]:
    attempt = record.attempt
    if record.cancel_reason and record.base is None and not await _was_submitted(context, attempt):
        return [_build_ended(record, Ending.CANCELLED, record.cancel_reason)]
    if attempt.duty is Duty.JUDGE and record.base is None and session.tasks[attempt.subject].result is None:
        return [_build_ended(record, Ending.LOST, "what it was to judge is no longer in the repository")]
    try:
        base = record.base or await _start_attempt(context, session, attempt, emit)
        if base is None or not await _was_submitted(context, attempt):  # it must not be started a second time
            gone = get_base_ref(attempt) if base is None else context.engine.locate(attempt.id)
            notes = f"{gone} was removed"
            return [_build_ended(record, Ending.LOST, notes)]
        outcome = await _wait_until_ended(context, session, attempt, emit)
    except StatusUnknown:
        raise  # it may be running: its slot is not free, and its task must not be started again
    except (BlueFlameError, OSError) as error:
        await _roll_back(context, attempt)
        if isinstance(error, NoStartingPoint):
            return [_build_ended(record, Ending.SETUP if attempt.duty is Duty.MERGE else Ending.CONFLICT, str(error))]
        # mergers are not part of the preflight: without one the task goes back
        if attempt.duty is not Duty.MERGE or isinstance(error, WorldError | OSError):
            raise
        return [_build_ended(record, Ending.SETUP, str(error))]
    return await _collect_result(context, session, attempt, base, outcome)


async def _wait_until_ended(context: SessionContext, session: Session, attempt: Attempt, emit: Emit) -> ProcessOutcome:
    folder = context.engine.mirror(attempt.id)
    talks = attempt.interactive and await asyncio.to_thread(has_requested_terminal, folder)
    watching = asyncio.create_task(
        _connect_terminal(context, attempt, folder) if talks else watch_for_stall(context, session, attempt.id, emit)
    )
    carrying = asyncio.create_task(carry_messages(context, session, attempt.id, emit))
    try:
        outcome = await context.engine.wait(attempt.id)
        if talks:
            await asyncio.wait({watching}, timeout=LAST_OUTPUT_SECONDS)
    finally:
        for task in (watching, carrying):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    record = session.attempts[attempt.id]
    if outcome.reason is ExitReason.CANCELLED and not record.cancel_reason:
        return replace(outcome, reason=ExitReason.LOST)  # a signal from outside ended its warden
    if outcome.reason is ExitReason.CANCELLED and record.cancelled_for_silence:
        return replace(outcome, reason=ExitReason.SILENT)
    return outcome


async def _connect_terminal(context: SessionContext, attempt: Attempt, folder: Path) -> None:
    """Connect the person's terminal; without a person, the agent waits for an attach. Its silence is no stall."""
    if context.converse is not None:
        await context.converse(attempt, folder)


async def cancel_attempt(
    context: SessionContext, session: Session, effect: CancelAttempt, _emit: Emit
) -> Sequence[Event]:
    """Ask it to end; its end is recorded by `run_attempt`."""
    await context.engine.cancel(effect.attempt, effect.reason, grace=0 if effect.now else None)
    if not isinstance(await context.engine.inspect(effect.attempt), Queued):
        await context.engine.wait(effect.attempt)
    while effect.attempt in session.live:
        await context.clock.sleep(0.02)
    return []


async def _start_attempt(context: SessionContext, session: Session, attempt: Attempt, emit: Emit) -> str | None:
    """Start the attempt, or adopt one that was submitted before a crash. Return the commit it starts from.

    None: it was submitted, and its base is no longer known.
    """
    checkout = context.paths.checkout(attempt.agent_id)
    base = await asyncio.to_thread(find_ref, context.repo, get_base_ref(attempt))
    if isinstance(await context.engine.inspect(attempt.id), Queued):
        await asyncio.to_thread(_check_room, context)
        if attempt.duty in COMMITTING:
            await install_dependencies(context, session)
        await wait_for_spare(context, session)
        base = await asyncio.to_thread(_prepare_checkout, context, session, attempt, checkout, base)
        await give_lessons(context, session, attempt, emit)
        await context.engine.submit(await asyncio.to_thread(build_spec, context, session, attempt, checkout, base))
    if base is None:
        return None
    pid = await _find_warden_pid(context, attempt)
    inside = await asyncio.to_thread(find_inner_path, context, checkout)
    emit([AttemptStarted(attempt=attempt.id, base=base, worktree=str(checkout), warden_pid=pid, inside=inside)])
    return base


def _check_room(context: SessionContext) -> None:
    """Start no agent that its warden would end at once: it would be blamed for a disk that others filled."""
    needed, place = context.settings.sandbox.min_free_disk_mb, context.paths.worktrees
    free = measure_free(place).disk >> 20
    if free < needed:
        fix = "free space, or lower sandbox.min_free_disk_mb"
        raise WorldError(f"the disk is nearly full: {free} MB are free in {place}, {needed} MB must stay free; {fix}")


async def _find_warden_pid(context: SessionContext, attempt: Attempt) -> int:
    """The pid for display, 0 when the attempt ended at once. Nothing is decided by it."""
    for _poll in range(MAX_POLLS):
        status = await context.engine.inspect(attempt.id)
        if isinstance(status, Running):
            return status.pid
        if not isinstance(status, Queued | Unreadable):  # the warden has the lock before it has written its pid there
            return 0
        await context.clock.sleep(POLL_SECONDS)
    return 0


def _prepare_checkout(
    context: SessionContext, session: Session, attempt: Attempt, checkout: Path, base: str | None
) -> str:
    if base is None:
        base = _find_base(context, session, attempt)
        set_ref(context.repo, get_base_ref(attempt), base)
    branch = attempt.branch or build_branch_name(attempt.session, f"{attempt.subject}-{attempt.label}", attempt.n)
    start = find_start(context.repo, attempt, base)
    make_checkout(context.repo, checkout, base=start.tree, branch=branch, head=start.head)
    if attempt.duty not in WITHOUT_TASK:
        restore_kept(context, checkout, context.engine.stage(attempt.id) / "home", start.tree)
    seed_checkout(context.repo.root, checkout, context.settings.worktree.include)
    save_fingerprint(context, attempt)
    return base


def _find_base(context: SessionContext, session: Session, attempt: Attempt) -> str:
    if attempt.duty is Duty.JUDGE:
        result = session.tasks[attempt.subject].result
        assert result is not None, f"{attempt.subject} is reviewed without a result"
        return result.sha
    if attempt.duty is Duty.MERGE:
        return prepare_merge(context.repo, session, attempt.subject)
    started = session.tasks[attempt.subject].start if attempt.duty is Duty.MAKE else None
    if started is not None:
        return started.sha
    found = combine_foundations(context.repo, session, attempt)
    if isinstance(found, MergeConflict):
        names = ", ".join(foundation.task for foundation in attempt.built_on)
        raise NoStartingPoint(f"{names} conflict with each other in {', '.join(found.paths)}: nothing to build on")
    return found.sha


async def _roll_back(context: SessionContext, attempt: Attempt) -> None:
    """Remove the checkout of an attempt that never started; what cannot be removed is left to `blueflame cleanup`."""
    if isinstance(await context.engine.inspect(attempt.id), Queued):
        with suppress(WorldError, OSError):
            await asyncio.to_thread(clear_attempt, context, attempt)


async def _was_submitted(context: SessionContext, attempt: Attempt) -> bool:
    """Whether the engine has it; False also after its folder was removed."""
    status = await context.engine.inspect(attempt.id)
    return not isinstance(status, Queued) or context.engine.is_submitted(attempt.id)


def _build_ended(record: AttemptRecord, ending: Ending, notes: str) -> AttemptEnded:
    outcome = AttemptOutcome(ending=ending, notes=notes, base=record.base)
    return AttemptEnded(attempt=record.attempt.id, ended=outcome)


async def _collect_result(
    context: SessionContext, session: Session, attempt: Attempt, base: str, outcome: ProcessOutcome
) -> Sequence[Event]:
    runtime = context.runtimes[attempt.runtime]
    gathered = await asyncio.to_thread(context.engine.read_output, attempt.id, runtime)
    finished = FinishedAttempt(
        attempt=attempt,
        base=base,
        outcome=outcome,
        gathered=gathered,
        reports_end=runtime.reports_end,
        question=_find_question(session, attempt, gathered),
        asked=await asyncio.to_thread(_has_asked, context, attempt),
        printed=await asyncio.to_thread(_read_printed, context, attempt),
    )
    try:
        ended, more = await RESULT_READERS[attempt.duty](context, session, finished)
    except (WorldError, OSError) as error:
        if not is_last_try(session, attempt):
            raise
        notes = f"{session.attempts[attempt.id].cancel_reason}; its result could not be read: {error}"
        ended, more = AttemptOutcome(ending=Ending.CANCELLED, notes=notes, base=base), []
    if ended.ending is Ending.QUESTION and finished.question is not None:
        ended, more = replace(ended, notes=""), [QuestionAsked(attempt=attempt.id, question=finished.question)]
    spend = await asyncio.to_thread(_settle_spend, context, attempt, gathered)
    cause = outcome.cause if ended.ending is Ending.BUDGET or ended.ending in UNAVAILABLE else ""
    ended = replace(ended, spend=spend, exit_code=outcome.exit_code, cause=cause)
    tokens = await asyncio.to_thread(_measure_conversation, context, attempt)
    ended = replace(ended, seconds=outcome.seconds, waited=outcome.waited, context_tokens=tokens)
    is_spoilt = ended.ending in SPOILT_BY_MACHINE or any(map(_is_rejection, more))
    if is_spoilt and (why := await asyncio.to_thread(_find_machine_fault, context, finished)):
        return [AttemptEnded(attempt=attempt.id, ended=replace(ended, ending=Ending.ENVIRONMENT, notes=why))]
    if ended.ending is Ending.SETUP and not await _is_setup_to_blame(context, session, attempt):
        is_blocked = READ_ONLY in ended.notes.lower() and context.settings.sandbox.level != "off"
        fix = (
            f"{BLOCKED_FIX}, or change worktree.setup"
            if is_blocked
            else "repair what it needs, or change worktree.setup"
        )
        why = f"the setup failed; {fix}: {ended.notes}"
        return [AttemptEnded(attempt=attempt.id, ended=replace(ended, ending=Ending.ENVIRONMENT, notes=why))]
    if why := await asyncio.to_thread(_find_interference, context, session, finished, ended):
        if ended.ending is Ending.UNWATCHED:
            # no one may build on what was not watched
            ended = replace(ended, tip=None, commits=0, unfinished=None, cause=UNWATCHED_CAUSE)
        ended, more = replace(ended, ending=Ending.LOST, notes=why, violations=()), []  # what followed from it is gone
    if ended.ending is Ending.ACCOUNT:
        ended = replace(ended, notes=_describe_account_problem(context, attempt, ended, outcome.detail))
    return [AttemptEnded(attempt=attempt.id, ended=ended), *more]


async def _is_setup_to_blame(context: SessionContext, session: Session, attempt: Attempt) -> bool:
    """Whether agents' commits break the setup: twice in a row, while it works on the base."""
    return may_blame_setup(session, attempt) and await is_setup_green(context, session, f"setup-{attempt.agent_id}")


def _has_asked(context: SessionContext, attempt: Attempt) -> bool:
    """Whether its program has asked its model anything, or needs none, or was a person's to end."""
    usage = context.engine.read_file(attempt.id, "usage.jsonl")
    silent = usage is not None and not usage.strip()
    return not silent or attempt.interactive or not context.runtimes[attempt.runtime].reports_end


def _read_printed(context: SessionContext, attempt: Attempt) -> str:
    printed = context.engine.read_file(attempt.id, "stderr.log") or b""
    lines = printed.decode("utf-8", "replace").splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith(CANARY))[-MAX_ERROR_CHARS:]


def _measure_conversation(context: SessionContext, attempt: Attempt) -> int:
    """Estimate the tokens of a maker's conversation; 0 if no other attempt can continue it."""
    runtime = context.runtimes[attempt.runtime]
    if attempt.duty is not Duty.MAKE or not isinstance(runtime, ResumingRuntime):
        return 0
    messages = runtime.read_conversation(context.engine.mirror(attempt.id))
    return estimate_tokens(json.dumps(messages)) if messages else 0


def _find_question(session: Session, attempt: Attempt, gathered: AgentOutput) -> Question | None:
    """The question with which an agent ended. When it may ask no more, its ending is judged like any other."""
    if not count_questions_left(session, attempt.subject):
        return None
    return parse_question(gathered.output or parse_object(gathered.text))


def _find_interference(
    context: SessionContext, session: Session, finished: FinishedAttempt, ended: AttemptOutcome
) -> str:
    """Why the ending says nothing about the agent, although it was read; empty if it does."""
    attempt, ending = finished.attempt, ended.ending
    if {each.rule for each in ended.violations} == {REPOSITORY_TOUCHED}:
        touched = "; ".join(f"{each.path} was {each.detail}" for each in ended.violations)
        return f"in your repository {touched}. If it was not you, look at it before you go on"
    folder = context.engine.mirror(attempt.id)
    if not ended.passed and ending not in BLAMELESS and not all((folder / name).exists() for name in RECORDS):
        return f"{folder} was removed"
    audit = context.paths.audit(attempt.agent_id)
    if ending is Ending.UNWATCHED and not audit.exists():
        return f"{audit} was removed: what it did is unknown"
    if ending is Ending.UNWATCHED and _was_hook_replaced(session.attempts[attempt.id].started_at or 0.0):
        return "Blue Flame was removed or installed again while it ran, so its calls could not be watched"
    if ending is Ending.UNWATCHED and was_nothing_done_unwatched(context, finished):
        return "its hook could not ask whether its calls are allowed, and refused them"
    if ending is Ending.UNWATCHED and may_hook_be_killed(context, finished) and not may_blame_watch(session, attempt):
        return f"its hook may have been killed: {ended.notes}"
    refused = finished.outcome.refused_forks
    if refused and ending in (*SPOILT_BY_MACHINE, Ending.UNWATCHED):
        return f"{refused} processes could not be started while it ran: {LIMIT_REACHED}"
    if ending in (*SPOILT_BY_MACHINE, Ending.UNWATCHED) and was_limited_meanwhile(session, attempt):
        return f"processes of ours could not be started while it ran: {LIMIT_REACHED}"
    hindrance = finished.outcome.watch.get("hindrance")
    if hindrance and ending in (*SPOILT_BY_MACHINE, Ending.UNWATCHED):
        return f"{hindrance}, so its failure says nothing about it"
    if finished.outcome.reason is ExitReason.DISK and not _has_filled_disk(context, attempt):
        return f"{finished.outcome.detail}; others have filled it"
    is_unreadable = ending is Ending.POSTCHECK and not ended.violations
    if ending not in SPOILT_BY_MACHINE and not is_unreadable:
        return ""
    if has_failed_meanwhile(session, attempt):
        return "git or the disk failed when it ended, so its failure says nothing about it"
    return ""


def _was_hook_replaced(since: float) -> bool:
    """Whether the hook is gone, or it or a folder that it is installed in was moved or replaced since then: agents
    without a sandbox could not ask it meanwhile."""
    try:
        path = find_hook()
        folders = [each for each in path.parents if each.is_relative_to(sys.prefix)] or path.parents[:2]
        return any(each.stat().st_ctime > since for each in (path, *folders))
    except (OSError, WorldError):
        return True


def _is_rejection(event: Event) -> bool:
    return isinstance(event, VerdictGiven) and not event.verdict.passed


def _find_machine_fault(context: SessionContext, finished: FinishedAttempt) -> str:
    """Why no agent could have done better: a full disk, or damaged objects of our repository or of its checkout."""
    if why := find_write_fault(context, finished):
        return why
    earlier = finished.attempt.continues
    commits = (finished.base, *((earlier.tip, earlier.unfinished) if earlier is not None else ()))
    checkout = context.paths.checkout(finished.attempt.agent_id)
    return (
        find_damage(context.repo, filter(None, commits))
        or find_checkout_damage(checkout, finished.base)
        or find_reported_loss(context.repo, read_last_output(context, finished.attempt))
    )


def _has_filled_disk(context: SessionContext, attempt: Attempt) -> bool:
    """Whether there would be enough room without what the agent wrote in its checkout and its folder."""
    checkout, folder = context.paths.checkout(attempt.agent_id), context.engine.mirror(attempt.id)
    wrote = measure_folder(str(checkout)) + measure_folder(str(folder))
    free = measure_free(context.paths.worktrees).disk
    return free + wrote >= context.settings.sandbox.min_free_disk_mb << 20


def _describe_account_problem(context: SessionContext, attempt: Attempt, ended: AttemptOutcome, detail: str) -> str:
    """What the provider says, and what the person has to do."""
    kind = find_runtime_kind(context.settings, attempt.runtime)
    how = "; ".join(VENDORS[api].how for api in (RUNTIMES[kind].apis if kind in RUNTIMES else ()))
    fix = describe_account_fix(
        ended.cause, role=attempt.role, model=attempt.model, runtime=attempt.runtime, how_to_log_in=how
    )
    return f"{(detail or ended.notes).rstrip('.')}. {fix[:1].upper()}{fix[1:]}."


def _settle_spend(context: SessionContext, attempt: Attempt, gathered: AgentOutput) -> Spend:
    """What the attempt cost, by the gateway's count; by the agent's own report only where it had no gateway."""
    folder = context.engine.mirror(attempt.id)
    if not (folder / "usage.jsonl").exists():
        return gathered.spend
    from blueflame.telemetry.observed_prices import record_observed_price
    from blueflame.telemetry.usage import read_metered_usage, settle_spend

    metered = read_metered_usage(folder)
    reported = gathered.result.reported if gathered.result is not None else None
    record_observed_price(context.paths.state, metered, reported)
    return settle_spend(metered, reported, own=context.settings.prices)
