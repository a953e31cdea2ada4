"""What follows immediately from an event. An outcome and its consequences are appended to the journal together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from blueflame.model.attempt import (
    MERGER,
    PLAN_SUBJECT,
    PLANNER,
    UNAVAILABLE,
    VALIDATOR,
    WORKER,
    Attempt,
    AttemptOutcome,
    Ending,
)
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptStalled,
    AttemptStarted,
    BaseLost,
    ChangesetEvicted,
    ChangesetJudged,
    ChangesetTrimmed,
    Checked,
    ConfigDrifted,
    ConflictResolved,
    CycleEnded,
    EditRefused,
    EnvironmentFailed,
    EnvironmentRecovered,
    EnvironmentRetried,
    Event,
    GateAnswered,
    GateWithdrawn,
    HookRan,
    Landed,
    MessageUndelivered,
    OrchestratorStarted,
    OverlapSeen,
    PlanFailed,
    PullRequestOpened,
    RuntimeParked,
    RuntimeResumed,
    SessionEnded,
    TaskMoved,
    TasksImported,
    VerdictGiven,
)
from blueflame.model.gate import GateKind
from blueflame.model.ids import build_attempt_id
from blueflame.model.task import Cause, HistoryEntry, HistoryResult, Result, TaskRecord, TaskState
from blueflame.model.verdict import Check, Verdict, VerdictStatus
from blueflame.session.budget import describe_task_budget, is_stopped_by_shared_budget, is_task_budget_exhausted
from blueflame.session.cascade import (
    block_dependants,
    defer_tasks_built_on,
    drop_task,
    find_failed_dependency,
)
from blueflame.session.changesets.queue import give_task_back
from blueflame.session.environment import (
    is_held,
    name_attempt_act,
    report_unstarted,
    retry_all,
)
from blueflame.session.environment import should_ask as should_ask_about_environment
from blueflame.session.foundations import are_foundations_valid
from blueflame.session.gates.answers import handle_answer
from blueflame.session.gates.questions import (
    open_base_gate,
    open_drift_gate,
    open_environment_gate,
    open_overlap_gate,
    open_rate_limit_gate,
    open_session_gate,
    open_stall_gate,
    open_tasks_gate,
    open_validation_gate,
    open_validator_gate,
)
from blueflame.session.missing_work import redo_missing
from blueflame.session.overlaps import order_by_start
from blueflame.session.rate_limits import ACCOUNT_KINDS, park_after_outage, should_ask, try_account_again
from blueflame.session.requests.task_file import handle_tasks_imported
from blueflame.session.retries import (
    KILL,
    MAX_NOTE_CHARS,
    build_history_entry,
    is_blameless,
    send_task_back,
    truncate_text,
)
from blueflame.session.state import Session
from blueflame.session.task_states import MOVES, find_next_state
from blueflame.session.user_hooks import Hook, has_vetoed

SKIPPED_IF_ILLEGAL = frozenset({Cause.DEFER, Cause.BLOCK})
"""Moves that several causes can give at once: a task that has already moved stays where it is."""


def consequences_of(session: Session, event: Event, now: float) -> Iterator[Event]:
    """Yield the event and everything that follows from it, decided on the session before the event.

    Every move is checked here: a journal with an illegal one could not be replayed.
    """
    if isinstance(event, PlanFailed) and _is_planner_blameless(session, event.round):
        return
    if _is_about_old_changeset(session, event):
        return
    states: dict[str, TaskState] = {}
    for each in _expand_event(session, event, now):
        if isinstance(each, TaskMoved):
            state = states.get(each.task, session.tasks[each.task].state)
            if each.cause in SKIPPED_IF_ILLEGAL and (state, each.cause) not in MOVES:
                continue
            states[each.task] = find_next_state(state, each.cause)
        yield each


def _is_about_old_changeset(session: Session, event: Event) -> bool:
    """Whether a merger reports on a changeset whose tasks went back while it was running."""
    match event:
        case ConflictResolved():
            return session.changesets[event.changeset].state is not ChangesetState.CONFLICTED
        case ChangesetTrimmed() | ChangesetEvicted():
            return event.changeset not in session.merging
    return False


def _is_planner_blameless(session: Session, round_: int) -> bool:
    """Whether the planner of this round ended for no fault of its own: then it is started again."""
    record = session.attempts.get(build_attempt_id(session.id, PLAN_SUBJECT, PLANNER, round_))
    if record is None or record.ended is None:
        return False
    unstarted = record.ended.ending is Ending.ENVIRONMENT
    return unstarted or record.ended.ending in UNAVAILABLE or is_stopped_by_shared_budget(record.attempt, record.ended)


def _expand_event(session: Session, event: Event, now: float) -> Iterator[Event]:
    yield event
    handler = HANDLERS.get(type(event))
    for consequence in handler(session, event, now) if handler else ():
        yield from _expand_event(session, consequence, now)


def _handle_attempt_stalled(session: Session, event: AttemptStalled, _now: float) -> Iterator[Event]:
    attempt, policy = session.live.get(event.attempt), session.limits.on_stall
    if attempt is None or session.stopping or session.attempts[event.attempt].cancel_reason:
        return
    if policy == KILL:
        reason = f"no output for {event.seconds:.0f} s"
        yield AttemptCancelled(attempt=event.attempt, reason=reason, stalled=True)
    elif policy == "ask" and not session.is_asking(GateKind.STALL, attempt.subject):
        yield open_stall_gate(session, attempt, event.seconds)


def _handle_attempt_cancelled(session: Session, event: AttemptCancelled, _now: float) -> Iterator[Event]:
    """Withdraw the gates about this attempt, except the one whose answer cancelled it."""
    why = f"the agent is being ended: {event.reason}"
    if not event.stalled:
        yield from _withdraw_stall_gate(session, event.attempt, why)
    if not event.restarts:
        yield from _withdraw_overlap_gates(session, event.attempt, why)
    act = name_attempt_act(session.attempts[event.attempt].attempt)
    if is_held(session, act):  # it may not have been started: then it ends at once
        yield EnvironmentRetried(act=act)


def _handle_attempt_started(session: Session, event: AttemptStarted, _now: float) -> Iterator[Event]:
    act = name_attempt_act(session.attempts[event.attempt].attempt)
    if act in session.problems:
        yield EnvironmentRecovered(act=act)


def _withdraw_overlap_gates(session: Session, attempt: str, why: str) -> Iterator[Event]:
    for name, gate in session.open_gates.items():
        if gate.kind is GateKind.OVERLAP and attempt in gate.evidence["attempts"]:
            yield GateWithdrawn(gate=name, reason=why)


def _withdraw_stall_gate(session: Session, attempt: str, why: str) -> Iterator[Event]:
    subject = session.attempts[attempt].attempt.subject
    name = session.gate_subjects.get((GateKind.STALL, subject))
    if name is not None and session.open_gates[name].evidence.get("attempt") == attempt:
        yield GateWithdrawn(gate=name, reason=why)


def _handle_attempt_ended(session: Session, event: AttemptEnded, now: float) -> Iterator[Event]:
    yield from _withdraw_stall_gate(session, event.attempt, "the agent has ended")
    yield from _withdraw_overlap_gates(session, event.attempt, "one of the two agents has ended")
    ending = session.attempts[event.attempt]
    attempt = ending.attempt
    for number, message in enumerate(ending.messages, start=1):
        if message.delivered_at is None:
            yield MessageUndelivered(attempt=event.attempt, number=number)
    if event.ended.ending is Ending.ENVIRONMENT:
        yield report_unstarted(session, attempt, event.ended, now)
    if event.ended.ending in UNAVAILABLE:
        yield from park_after_outage(session, attempt, event.ended, now)
    if attempt.role == WORKER:
        yield from _handle_worker_ended(session, attempt, event.ended, now)
    elif attempt.role == MERGER:
        yield from _handle_merger_ended(session, attempt, event.ended)
    elif event.ended.ending is Ending.PASSED or is_blameless(attempt, event.ended, session.count_lost(attempt)):
        return
    elif attempt.role == VALIDATOR:
        record = session.tasks[attempt.subject]
        if record.state is TaskState.DONE and record.validator_failures >= session.limits.validator_retries:
            yield open_validator_gate(session, record, describe_ending(event.ended))
    elif event.ended.ending is Ending.LOST:
        yield PlanFailed(round=attempt.n, reason=describe_ending(event.ended))


def _handle_merger_ended(session: Session, attempt: Attempt, ended: AttemptOutcome) -> Iterator[Event]:
    """Send the task back when the merger failed; a resolution is a separate event."""
    record = session.changesets[attempt.subject]
    if ended.ending is Ending.PASSED or record.state is not ChangesetState.CONFLICTED or record.conflict is None:
        return
    ended_by_a_person = ended.ending is Ending.CANCELLED and attempt.id not in session.halted
    if ended_by_a_person or not is_blameless(attempt, ended, session.count_lost(attempt)):
        yield give_task_back(session, attempt.subject, record.conflict, f"the merger {describe_ending(ended)}")


def _handle_worker_ended(session: Session, attempt: Attempt, ended: AttemptOutcome, now: float) -> Iterator[Event]:
    record = session.tasks[attempt.subject]
    if record.state is not TaskState.CLAIMED:
        return
    if ended.ending is Ending.PASSED:
        yield from _complete_task(session, attempt, ended)
    elif ended.ending is Ending.CANCELLED and attempt.id not in session.halted:
        reason = session.attempts[attempt.id].cancel_reason or "cancelled"
        entry = _build_failure_entry(session, attempt, ended, reason, now)
        if session.attempts[attempt.id].restarts:
            yield TaskMoved(task=attempt.subject, cause=Cause.RELEASE, reason=reason, history=entry)
            yield from _block_if_dependency_failed(session, attempt.subject)
        else:
            yield TaskMoved(task=attempt.subject, cause=Cause.REQUEUE, reason=reason, history=entry)
    elif is_blameless(attempt, ended, record.losses):
        yield TaskMoved(task=attempt.subject, cause=Cause.RELEASE, reason=describe_ending(ended))
        yield from _block_if_dependency_failed(session, attempt.subject)
    else:
        yield from _fail_task(session, record, attempt, ended, now)


def _complete_task(session: Session, attempt: Attempt, ended: AttemptOutcome) -> Iterator[Event]:
    assert ended.tip is not None, f"{attempt.id} passed without a commit"
    assert ended.base is not None, f"{attempt.id} passed without a base"
    result = Result(
        sha=ended.tip, base=ended.base, built_on=attempt.built_on, attempt=attempt.id, subject=ended.subject
    )
    yield TaskMoved(task=attempt.subject, cause=Cause.COMPLETE, result=result)
    if not (session.workflow.has_stage("check") or session.workflow.has_stage("validate")):
        verdict = Verdict(status=VerdictStatus.PASS, notes="the workflow has no stage that judges it", by="workflow")
        yield VerdictGiven(task=attempt.subject, sha=ended.tip, verdict=verdict)
        yield TaskMoved(task=attempt.subject, cause=Cause.VALIDATE)
    if not are_foundations_valid(session, attempt.built_on):
        yield TaskMoved(task=attempt.subject, cause=Cause.DEFER, reason="what it was built on is no longer valid")


def _fail_task(
    session: Session, record: TaskRecord, attempt: Attempt, ended: AttemptOutcome, now: float
) -> Iterator[Event]:
    reason = describe_ending(ended)
    exhausted = is_task_budget_exhausted(session, attempt.subject, ended.spend)
    if exhausted:
        reason = f"{reason}; {describe_task_budget(session, attempt.subject, ended.spend)}"
    entry = _build_failure_entry(session, attempt, ended, reason, now)
    yield TaskMoved(task=attempt.subject, cause=Cause.FAIL, reason=reason, history=entry)
    if record.retries < session.limits.max_retries and not exhausted:
        yield TaskMoved(task=attempt.subject, cause=Cause.RETRY, reason=reason)
        yield from _block_if_dependency_failed(session, attempt.subject)
    else:
        yield from block_dependants(session, attempt.subject, f"dependency {attempt.subject} failed")


def _block_if_dependency_failed(session: Session, task: str) -> Iterator[Event]:
    """Block a task if one of its dependencies failed, was blocked or was dropped while it was worked on."""
    if reason := find_failed_dependency(session, task):
        yield TaskMoved(task=task, cause=Cause.BLOCK, reason=reason)


def _build_failure_entry(
    session: Session, attempt: Attempt, ended: AttemptOutcome, notes: str, now: float
) -> HistoryEntry:
    entry = build_history_entry(session, session.tasks[attempt.subject], HistoryResult.FAILED, now, notes=notes)
    return replace(entry, agent_id=attempt.agent_id, cost_usd=ended.spend.usd, tokens_used=ended.spend.tokens)


def describe_ending(ended: AttemptOutcome) -> str:
    words = [ended.ending.value.replace("_", " ")]
    if ended.exit_code:
        words.append(f"exit code {ended.exit_code}")
    detail = "; ".join(str(violation) for violation in ended.violations[:20]) or ended.notes
    return ", ".join(words) + (f": {truncate_text(detail)}" if detail else "")


def _handle_orchestrator_started(session: Session, event: OrchestratorStarted, now: float) -> Iterator[Event]:
    """Redo what is missing, and try again what failed before or waits for a person: they have come back."""
    yield from redo_missing(session, event.missing, now)
    yield from retry_all(session)
    if name := session.gate_subjects.get((GateKind.ENVIRONMENT, GateKind.ENVIRONMENT.value)):
        yield GateWithdrawn(gate=name, reason="the session was resumed")
    for runtime, parked in session.parked.items():
        if parked.kind in ACCOUNT_KINDS:
            yield from try_account_again(session, runtime, now)
            if name := session.gate_subjects.get((GateKind.RATE_LIMIT, runtime)):
                yield GateWithdrawn(gate=name, reason="the session was resumed")


def _handle_runtime_parked(session: Session, event: RuntimeParked, now: float) -> Iterator[Event]:
    asking = session.is_asking(GateKind.RATE_LIMIT, event.runtime)
    if not session.stopping and not asking and should_ask(session.limits, event, now):
        yield open_rate_limit_gate(session, event)


def _handle_runtime_resumed(session: Session, event: RuntimeResumed, _now: float) -> Iterator[Event]:
    name = session.gate_subjects.get((GateKind.RATE_LIMIT, event.runtime))
    if name is not None and not event.by:  # with `by` a person has just answered that gate
        yield GateWithdrawn(gate=name, reason=event.reason or f"{event.runtime} is available again")


def _handle_environment_failed(session: Session, event: EnvironmentFailed, _now: float) -> Iterator[Event]:
    """Ask once for all acts that fail again and again."""
    asks = should_ask_about_environment(event) and not session.is_asking(GateKind.ENVIRONMENT)
    if asks and not session.stopping:
        yield open_environment_gate(session, event)


def _handle_environment_recovered(session: Session, event: EnvironmentRecovered, _now: float) -> Iterator[Event]:
    name = session.gate_subjects.get((GateKind.ENVIRONMENT, GateKind.ENVIRONMENT.value))
    others = (problem for act, problem in session.problems.items() if act != event.act)
    if name is not None and not any(map(should_ask_about_environment, others)):
        yield GateWithdrawn(gate=name, reason=f"{event.act} does not fail any more")


def _handle_checked(session: Session, event: Checked, _now: float) -> Iterator[Event]:
    record = session.tasks[event.task]
    if record.result is None or record.result.sha != event.sha or record.state is not TaskState.DONE:
        return
    red = [check for check in event.checks if not check.is_acceptable]
    if red:
        yield VerdictGiven(task=event.task, sha=event.sha, verdict=build_failed_verdict(red))
    elif not session.workflow.has_stage("validate"):
        verdict = Verdict(status=VerdictStatus.PASS, notes=_describe_passed(event.checks), by="checks")
        yield VerdictGiven(task=event.task, sha=event.sha, verdict=verdict)


def _describe_passed(checks: Sequence[Check]) -> str:
    if not checks:
        return "no checks are configured"
    known = [check.name for check in checks if not check.passed]
    fewer = [f"{check.name} ({check.tests_beside_base})" for check in checks if check.ran_fewer_tests]
    return "; ".join(
        (
            f"{len(checks) - len(known)} checks passed",
            *([f"red before, same failures: {', '.join(known)}"] if known else []),
            *([f"fewer tests than on the base: {', '.join(fewer)}"] if fewer else []),
        )
    )


def build_failed_verdict(red: list[Check]) -> Verdict:
    """Build the verdict on a result whose checks failed: no reviewer is asked."""
    issues = tuple(
        f"`{check.name}` {'timed out' if check.timed_out else f'exited with {check.exit_code}'}" for check in red
    )
    room = MAX_NOTE_CHARS // len(red) - 2  # each output keeps its end, which sums it up
    outputs = (
        truncate_text(f"{issue}:\n{check.output.strip()}", room) for issue, check in zip(issues, red, strict=True)
    )
    return Verdict(status=VerdictStatus.FAIL, notes="\n\n".join(outputs), issues=issues, by="checks")


def _handle_verdict_given(session: Session, event: VerdictGiven, now: float) -> Iterator[Event]:
    record = session.tasks[event.task]
    if record.state is not TaskState.DONE or record.result is None or record.result.sha != event.sha:
        return
    if event.verdict.passed:
        yield TaskMoved(task=event.task, cause=Cause.VALIDATE)
    elif session.limits.on_validation_failed == "requeue":
        yield from send_task_back(session, record, event.verdict.notes, now)
    elif session.limits.on_validation_failed == "drop":
        yield from drop_task(session, event.task, "validation failed")
    else:
        yield open_validation_gate(session, record, event.verdict)


def _handle_changeset_evicted(session: Session, event: ChangesetEvicted, now: float) -> Iterator[Event]:
    tasks = session.changesets[event.changeset].changeset.tasks
    for name in tasks:
        entry = build_history_entry(session, session.tasks[name], HistoryResult.CONFLICT, now, notes=event.reason)
        yield TaskMoved(task=name, cause=Cause.REQUEUE, reason=event.reason, history=entry)
    yield from defer_tasks_built_on(session, tasks, f"{event.changeset} could not land: {event.reason}")


def _handle_changeset_trimmed(session: Session, event: ChangesetTrimmed, now: float) -> Iterator[Event]:
    outcome = HistoryResult.CONFLICT if event.paths else HistoryResult.VALIDATION_FAILED
    for name in event.tasks:
        entry = build_history_entry(session, session.tasks[name], outcome, now, notes=event.reason)
        yield TaskMoved(task=name, cause=Cause.REQUEUE, reason=event.reason, history=entry)
    why = f"{', '.join(event.tasks)} could not land: {event.reason}"
    for name in event.waiting:
        yield TaskMoved(task=name, cause=Cause.DEFER, reason=why)
    yield from defer_tasks_built_on(session, (*event.tasks, *event.waiting), why, apart_from=event.changeset)


def _handle_changeset_judged(session: Session, event: ChangesetJudged, now: float) -> Iterator[Event]:
    """Move the tasks of a rejected or skipped changeset; an approved one lands by an effect."""
    changeset = session.changesets[event.changeset].changeset
    if event.choice == "reject":
        for name in changeset.tasks:
            entry = build_history_entry(
                session, session.tasks[name], HistoryResult.REJECTED, now, rejection_reason=event.note
            )
            yield TaskMoved(task=name, cause=Cause.REQUEUE, reason=f"rejected: {event.note}", history=entry)
        why = f"depends on the rejected changeset [{changeset.group}]"
        yield from defer_tasks_built_on(session, changeset.tasks, why)
    elif event.choice == "skip":
        for name in changeset.tasks:
            yield TaskMoved(task=name, cause=Cause.DEFER, reason=event.note or "skipped")
        why = f"depends on the skipped changeset [{changeset.group}]"
        yield from defer_tasks_built_on(session, changeset.tasks, why)


def _handle_landed(session: Session, event: Landed | PullRequestOpened, _now: float) -> Iterator[Event]:
    for name in session.changesets[event.changeset].changeset.tasks:
        yield TaskMoved(task=name, cause=Cause.LAND)


def _handle_hook_ran(session: Session, event: HookRan, _now: float) -> Iterator[Event]:
    due = session.hooks_due.get(event.key)
    if due is None or not has_vetoed(Hook(event.hook), exit_code=event.exit_code, timed_out=event.timed_out):
        return
    words = "timed out" if event.timed_out else f"exited with {event.exit_code}"
    verdict = Verdict(
        status=VerdictStatus.FAIL,
        notes=truncate_text(f"the pre_validation hook {words}: {event.output}"),
        issues=("vetoed by the pre_validation hook",),
        by="pre_validation hook",
    )
    for name in [due.subject] if due.subject else session.list_in_state(TaskState.DONE):
        record = session.tasks[name]
        if record.result is not None and record.verdict is None:
            yield VerdictGiven(task=name, sha=record.result.sha, verdict=verdict)


def _handle_cycle_ended(session: Session, event: CycleEnded, _now: float) -> Iterator[Event]:
    if session.all_finished:
        yield SessionEnded(outcome="completed")
    elif event.cycle >= session.limits.max_cycles:
        left = ", ".join(session.unfinished)
        yield SessionEnded(outcome="max_cycles", reason=f"not finished after {event.cycle} cycles: {left}")
    else:
        yield open_session_gate(session, event.cycle)


def _handle_overlap_seen(session: Session, event: OverlapSeen, _now: float) -> Iterator[Event]:
    """Ask about each pair of attempts once; later overlaps of the same pair are only reported."""
    if session.limits.on_overlap != "ask" or session.stopping:
        return
    at_work = [name for name in event.attempts if name in session.live and not session.attempts[name].cancel_reason]
    asked = any(
        gate.kind is GateKind.OVERLAP and set(gate.evidence["attempts"]) == set(event.attempts)
        for gate in session.gates.values()
    )
    later = session.attempts[order_by_start(session, event.attempts)[-1]].attempt.subject
    if len(at_work) == len(event.attempts) and not asked and not session.is_asking(GateKind.OVERLAP, later):
        yield open_overlap_gate(session, event)


def _handle_edit_refused(session: Session, event: EditRefused, _now: float) -> Iterator[Event]:
    if not session.is_asking(GateKind.TASKS):
        yield open_tasks_gate(session, event)


def _handle_config_drifted(session: Session, event: ConfigDrifted, _now: float) -> Iterator[Event]:
    if not session.is_asking(GateKind.DRIFT):  # two boundaries may have found the same change
        yield open_drift_gate(session, event)


def _handle_base_lost(session: Session, event: BaseLost, _now: float) -> Iterator[Event]:
    if not session.is_asking(GateKind.BASE):
        yield open_base_gate(session, event)


def _handle_gate_answered(session: Session, event: GateAnswered, now: float) -> Iterator[Event]:
    yield from handle_answer(session, session.open_gates[event.gate], event.answer, now)


HANDLERS: dict[type, Callable[[Session, Any, float], Iterator[Event]]] = {
    OrchestratorStarted: _handle_orchestrator_started,
    AttemptStarted: _handle_attempt_started,
    AttemptStalled: _handle_attempt_stalled,
    AttemptCancelled: _handle_attempt_cancelled,
    AttemptEnded: _handle_attempt_ended,
    RuntimeParked: _handle_runtime_parked,
    RuntimeResumed: _handle_runtime_resumed,
    EnvironmentFailed: _handle_environment_failed,
    EnvironmentRecovered: _handle_environment_recovered,
    Checked: _handle_checked,
    VerdictGiven: _handle_verdict_given,
    ChangesetEvicted: _handle_changeset_evicted,
    ChangesetTrimmed: _handle_changeset_trimmed,
    ChangesetJudged: _handle_changeset_judged,
    Landed: _handle_landed,
    PullRequestOpened: _handle_landed,
    HookRan: _handle_hook_ran,
    CycleEnded: _handle_cycle_ended,
    OverlapSeen: _handle_overlap_seen,
    TasksImported: handle_tasks_imported,
    EditRefused: _handle_edit_refused,
    ConfigDrifted: _handle_config_drifted,
    BaseLost: _handle_base_lost,
    GateAnswered: _handle_gate_answered,
}
