"""What follows at once from a fact. An outcome and its consequences are appended to the journal together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blueflame.model.attempt import MERGER, PLAN_SUBJECT, PLANNER, VALIDATOR, WORKER, Attempt, AttemptOutcome, Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptStalled,
    ChangesetEvicted,
    ChangesetJudged,
    ChangesetTrimmed,
    Checked,
    ConfigDrifted,
    CycleEnded,
    EditRefused,
    Event,
    GateAnswered,
    GateWithdrawn,
    HookRan,
    Landed,
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
from blueflame.session.attempt_history import cut, remembered
from blueflame.session.budget import short_of_others_money, task_is_spent_out, task_meter
from blueflame.session.cascade import block_dependants, defer_built_on, obstacle
from blueflame.session.foundations import holds
from blueflame.session.gates.answers import after_answer
from blueflame.session.gates.questions import (
    drift_gate,
    overlap_gate,
    rate_limit_gate,
    session_gate,
    stall_gate,
    tasks_gate,
    validation_gate,
    validator_gate,
)
from blueflame.session.merging.queue import give_back
from blueflame.session.overlaps import in_order
from blueflame.session.rate_limits import after_outage, is_worth_a_question
from blueflame.session.retries import is_blameless, may_retry
from blueflame.session.stalls import KILL
from blueflame.session.state import Session
from blueflame.session.task_file_edits import after_import
from blueflame.session.task_states import MOVES, move
from blueflame.session.user_hooks import Hook, vetoes

GIVE_WAY = frozenset({Cause.DEFER, Cause.BLOCK})
"""Moves that several falls can bring about at once; who has moved already is left as it is."""


def follow(session: Session, event: Event, now: float) -> Iterator[Event]:
    """The event and all that follows from it, decided on the session as it stood before.

    Every move is tried before anything is written: a journal with an illegal one could never be read again.
    """
    if isinstance(event, PlanFailed) and _planner_was_let_down(session, event.round):
        return
    states: dict[str, TaskState] = {}
    for each in _chain(session, event, now):
        if isinstance(each, TaskMoved):
            state = states.get(each.task, session.tasks[each.task].state)
            if each.cause in GIVE_WAY and (state, each.cause) not in MOVES:
                continue
            states[each.task] = move(state, each.cause)
        yield each


def _planner_was_let_down(session: Session, round_: int) -> bool:
    """It ended for want of its model or of somebody else's money: no word about the plan, so it is asked again."""
    record = session.attempts.get(build_attempt_id(session.id, PLAN_SUBJECT, PLANNER, round_))
    if record is None or record.ended is None:
        return False
    return record.ended.ending is Ending.OUTAGE or short_of_others_money(record.attempt, record.ended)


def _chain(session: Session, event: Event, now: float) -> Iterator[Event]:
    yield event
    rule = FOLLOWS.get(type(event))
    if rule is not None:
        for consequence in rule(session, event, now):
            yield from _chain(session, consequence, now)


def _attempt_stalled(session: Session, event: AttemptStalled, _now: float) -> Iterator[Event]:
    attempt, policy = session.live.get(event.attempt), session.limits.on_stall
    if attempt is None or session.stopping or session.attempts[event.attempt].cancel_reason:
        return
    if policy == KILL:
        reason = f"it said nothing for {event.seconds:.0f} s"
        yield AttemptCancelled(attempt=event.attempt, reason=reason, stalled=True)
    elif policy == "ask" and not session.asks(GateKind.STALL, attempt.subject):
        yield stall_gate(session, attempt, event.seconds)


def _attempt_cancelled(session: Session, event: AttemptCancelled, _now: float) -> Iterator[Event]:
    """A gate that brought this about has been answered just now."""
    why = f"the agent is being ended: {event.reason}"
    if not event.stalled:
        yield from _withdraw_stall(session, event.attempt, why)
    if not event.restarts:
        yield from _withdraw_overlaps(session, event.attempt, why)


def _withdraw_overlaps(session: Session, attempt: str, why: str) -> Iterator[Event]:
    for name, gate in session.open_gates.items():
        if gate.kind is GateKind.OVERLAP and attempt in gate.evidence["attempts"]:
            yield GateWithdrawn(gate=name, reason=why)


def _withdraw_stall(session: Session, attempt: str, why: str) -> Iterator[Event]:
    subject = session.attempts[attempt].attempt.subject
    name = session.gate_subjects.get((GateKind.STALL, subject))
    if name is not None and session.open_gates[name].evidence.get("attempt") == attempt:
        yield GateWithdrawn(gate=name, reason=why)


def _attempt_ended(session: Session, event: AttemptEnded, now: float) -> Iterator[Event]:
    yield from _withdraw_stall(session, event.attempt, "the agent has ended")
    yield from _withdraw_overlaps(session, event.attempt, "one of the two agents has ended")
    attempt = session.attempts[event.attempt].attempt
    if event.ended.ending is Ending.OUTAGE:
        yield from after_outage(session, attempt, event.ended, now)
    if attempt.role == WORKER:
        yield from _worker_ended(session, attempt, event.ended, now)
    elif attempt.role == MERGER:
        yield from _merger_ended(session, attempt, event.ended)
    elif event.ended.ending is Ending.PASSED or is_blameless(attempt, event.ended, session.lost(attempt)):
        return
    elif attempt.role == VALIDATOR:
        yield from _validator_failed(session, session.tasks[attempt.subject], event.ended)
    elif event.ended.ending is Ending.LOST:
        yield PlanFailed(round=attempt.n, reason=describe_ending(event.ended))


def _merger_ended(session: Session, attempt: Attempt, ended: AttemptOutcome) -> Iterator[Event]:
    """What it made of the conflict is the next event; one that failed is not asked twice, and the task goes back."""
    record = session.changesets[attempt.subject]
    if ended.ending is Ending.PASSED or record.state is not ChangesetState.CONFLICTED or record.conflict is None:
        return
    ended_by_a_person = ended.ending is Ending.CANCELLED and attempt.id not in session.halted
    if ended_by_a_person or not is_blameless(attempt, ended, session.lost(attempt)):
        yield give_back(session, attempt.subject, record.conflict, f"the merger {describe_ending(ended)}")


def _validator_failed(session: Session, record: TaskRecord, ended: AttemptOutcome) -> Iterator[Event]:
    if record.state is TaskState.DONE and record.validator_failures >= session.limits.validator_retries:
        yield validator_gate(session, record, describe_ending(ended))


def _worker_ended(session: Session, attempt: Attempt, ended: AttemptOutcome, now: float) -> Iterator[Event]:
    record = session.tasks[attempt.subject]
    if record.state is not TaskState.CLAIMED:
        return
    if ended.ending is Ending.PASSED:
        yield from _completed(session, attempt, ended)
    elif ended.ending is Ending.CANCELLED and attempt.id not in session.halted:
        reason = session.attempts[attempt.id].cancel_reason or "cancelled"
        entry = _failure(record, attempt, ended, reason, now)
        if session.attempts[attempt.id].restarts:
            yield TaskMoved(task=attempt.subject, cause=Cause.RELEASE, reason=reason, history=entry)
            yield from _block_if_hopeless(session, attempt.subject)
        else:
            yield TaskMoved(task=attempt.subject, cause=Cause.REQUEUE, reason=reason, history=entry)
    elif is_blameless(attempt, ended, record.losses):
        yield TaskMoved(task=attempt.subject, cause=Cause.RELEASE, reason=describe_ending(ended))
        yield from _block_if_hopeless(session, attempt.subject)
    else:
        yield from _failed(session, record, attempt, ended, now)


def _completed(session: Session, attempt: Attempt, ended: AttemptOutcome) -> Iterator[Event]:
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
    if not holds(session, attempt.built_on):
        yield TaskMoved(task=attempt.subject, cause=Cause.DEFER, reason="what it was built on no longer stands")


def _failed(
    session: Session, record: TaskRecord, attempt: Attempt, ended: AttemptOutcome, now: float
) -> Iterator[Event]:
    reason = describe_ending(ended)
    broke = task_is_spent_out(session, attempt.subject, ended.spend)
    if broke:
        reason = f"{reason}; {task_meter(session, attempt.subject, ended.spend)}"
    entry = _failure(record, attempt, ended, reason, now)
    yield TaskMoved(task=attempt.subject, cause=Cause.FAIL, reason=reason, history=entry)
    if may_retry(record, session.limits) and not broke:
        yield TaskMoved(task=attempt.subject, cause=Cause.RETRY, reason=reason)
        yield from _block_if_hopeless(session, attempt.subject)
    else:
        yield from block_dependants(session, attempt.subject, f"dependency {attempt.subject} failed")


def _block_if_hopeless(session: Session, task: str) -> Iterator[Event]:
    """While it was being worked on, what it depends on may have been given up."""
    why = obstacle(session, task)
    if why:
        yield TaskMoved(task=task, cause=Cause.BLOCK, reason=why)


def _failure(record: TaskRecord, attempt: Attempt, ended: AttemptOutcome, notes: str, now: float) -> HistoryEntry:
    return HistoryEntry(
        attempt=record.attempts,
        agent_id=attempt.agent_id,
        at=now,
        result=HistoryResult.FAILED,
        notes=notes,
        cost_usd=ended.spend.usd,
        tokens_used=ended.spend.tokens,
    )


def describe_ending(ended: AttemptOutcome) -> str:
    words = [ended.ending.value.replace("_", " ")]
    if ended.exit_code:
        words.append(f"exit code {ended.exit_code}")
    detail = "; ".join(str(violation) for violation in ended.violations[:20]) or ended.notes
    return ", ".join(words) + (f": {cut(detail)}" if detail else "")


def _runtime_parked(session: Session, event: RuntimeParked, now: float) -> Iterator[Event]:
    asking = session.asks(GateKind.RATE_LIMIT, event.runtime)
    if not session.stopping and not asking and is_worth_a_question(session.limits, event, now):
        yield rate_limit_gate(session, event)


def _runtime_resumed(session: Session, event: RuntimeResumed, _now: float) -> Iterator[Event]:
    name = session.gate_subjects.get((GateKind.RATE_LIMIT, event.runtime))
    if name is not None and not event.by:  # who said to try now has answered that gate just now
        yield GateWithdrawn(gate=name, reason=event.reason or f"{event.runtime} can be had again")


def _checked(session: Session, event: Checked, _now: float) -> Iterator[Event]:
    record = session.tasks[event.task]
    if record.result is None or record.result.sha != event.sha or record.state is not TaskState.DONE:
        return
    red = [check for check in event.checks if not check.passed]
    if red:
        yield VerdictGiven(task=event.task, sha=event.sha, verdict=red_verdict(red))
    elif not session.workflow.has_stage("validate"):
        passed = f"{len(event.checks)} checks passed" if event.checks else "no checks are configured"
        verdict = Verdict(status=VerdictStatus.PASS, notes=passed, by="checks")
        yield VerdictGiven(task=event.task, sha=event.sha, verdict=verdict)


def red_verdict(red: list[Check]) -> Verdict:
    """Exit codes decide; no reviewer is asked about a result whose checks are red."""
    issues = tuple(
        f"`{check.name}` {'ran out of time' if check.timed_out else f'exited with {check.exit_code}'}" for check in red
    )
    tails = "\n\n".join(f"{issue}:\n{check.output}" for issue, check in zip(issues, red, strict=True))
    return Verdict(status=VerdictStatus.FAIL, notes=cut(tails), issues=issues, by="checks")


def _verdict_given(session: Session, event: VerdictGiven, now: float) -> Iterator[Event]:
    record = session.tasks[event.task]
    if record.state is not TaskState.DONE or record.result is None or record.result.sha != event.sha:
        return
    if event.verdict.passed:
        yield TaskMoved(task=event.task, cause=Cause.VALIDATE)
    elif session.limits.on_validation_failed == "requeue":
        yield from send_back(session, record, HistoryResult.VALIDATION_FAILED, event.verdict.notes, now)
    elif session.limits.on_validation_failed == "drop":
        yield TaskMoved(task=event.task, cause=Cause.DROP, reason="validation failed")
        yield from defer_built_on(session, (event.task,), f"{event.task} was dropped")
        yield from block_dependants(session, event.task, f"dependency {event.task} was dropped")
    else:
        yield validation_gate(session, record, event.verdict)


def send_back(session: Session, record: TaskRecord, outcome: HistoryResult, notes: str, now: float) -> Iterator[Event]:
    name = record.task.id
    entry = remembered(record, outcome, now, notes=notes)
    yield TaskMoved(task=name, cause=Cause.REQUEUE, reason=outcome.value.replace("_", " "), history=entry)
    yield from defer_built_on(session, (name,), f"{name} is being redone")


def _evicted(session: Session, event: ChangesetEvicted, now: float) -> Iterator[Event]:
    tasks = session.changesets[event.changeset].changeset.tasks
    for name in tasks:
        entry = remembered(session.tasks[name], HistoryResult.CONFLICT, now, notes=event.reason)
        yield TaskMoved(task=name, cause=Cause.REQUEUE, reason=event.reason, history=entry)
    yield from defer_built_on(session, tasks, f"{event.changeset} could not land: {event.reason}")


def _trimmed(session: Session, event: ChangesetTrimmed, now: float) -> Iterator[Event]:
    outcome = HistoryResult.CONFLICT if event.paths else HistoryResult.VALIDATION_FAILED
    for name in event.tasks:
        entry = remembered(session.tasks[name], outcome, now, notes=event.reason)
        yield TaskMoved(task=name, cause=Cause.REQUEUE, reason=event.reason, history=entry)
    why = f"{', '.join(event.tasks)} could not land: {event.reason}"
    for name in event.waiting:
        yield TaskMoved(task=name, cause=Cause.DEFER, reason=why)
    yield from defer_built_on(session, (*event.tasks, *event.waiting), why, apart_from=event.changeset)


def _judged(session: Session, event: ChangesetJudged, now: float) -> Iterator[Event]:
    """Approved work lands by an effect; work that is deferred has been moved by whoever deferred it."""
    changeset = session.changesets[event.changeset].changeset
    if event.choice == "reject":
        for name in changeset.tasks:
            entry = remembered(session.tasks[name], HistoryResult.REJECTED, now, rejection_reason=event.note)
            yield TaskMoved(task=name, cause=Cause.REQUEUE, reason=f"rejected: {event.note}", history=entry)
        yield from defer_built_on(session, changeset.tasks, f"depends on the rejected changeset [{changeset.group}]")
    elif event.choice == "skip":
        for name in changeset.tasks:
            yield TaskMoved(task=name, cause=Cause.DEFER, reason=event.note or "skipped")
        yield from defer_built_on(session, changeset.tasks, f"depends on the skipped changeset [{changeset.group}]")


def _landed(session: Session, event: Landed | PullRequestOpened, _now: float) -> Iterator[Event]:
    for name in session.changesets[event.changeset].changeset.tasks:
        yield TaskMoved(task=name, cause=Cause.LAND)


def _hook_ran(session: Session, event: HookRan, _now: float) -> Iterator[Event]:
    due = session.hooks_due.get(event.key)
    if due is None or not vetoes(Hook(event.hook), exit_code=event.exit_code, timed_out=event.timed_out):
        return
    words = "ran out of time" if event.timed_out else f"exited with {event.exit_code}"
    verdict = Verdict(
        status=VerdictStatus.FAIL,
        notes=cut(f"the pre_validation hook {words}: {event.output}"),
        issues=("vetoed by the pre_validation hook",),
        by="pre_validation hook",
    )
    for name in [due.subject] if due.subject else session.in_state(TaskState.DONE):
        record = session.tasks[name]
        if record.result is not None and record.verdict is None:
            yield VerdictGiven(task=name, sha=record.result.sha, verdict=verdict)


def _cycle_ended(session: Session, event: CycleEnded, _now: float) -> Iterator[Event]:
    if session.all_finished:
        yield SessionEnded(outcome="completed")
    elif event.cycle >= session.limits.max_cycles:
        left = ", ".join(session.unfinished)
        yield SessionEnded(outcome="max_cycles", reason=f"after {event.cycle} cycles there is still: {left}")
    else:
        yield session_gate(session, event.cycle)


def _overlap_seen(session: Session, event: OverlapSeen, _now: float) -> Iterator[Event]:
    """Asked once for each two; what comes later is told."""
    if session.limits.on_overlap != "ask" or session.stopping:
        return
    at_work = [name for name in event.attempts if name in session.live and not session.attempts[name].cancel_reason]
    asked = any(
        gate.kind is GateKind.OVERLAP and set(gate.evidence["attempts"]) == set(event.attempts)
        for gate in session.gates.values()
    )
    later = session.attempts[in_order(session, event.attempts)[-1]].attempt.subject
    if len(at_work) == len(event.attempts) and not asked and not session.asks(GateKind.OVERLAP, later):
        yield overlap_gate(session, event)


def _edit_refused(session: Session, event: EditRefused, _now: float) -> Iterator[Event]:
    if not session.asks(GateKind.TASKS):
        yield tasks_gate(session, event)


def _config_drifted(session: Session, event: ConfigDrifted, _now: float) -> Iterator[Event]:
    if not session.asks(GateKind.DRIFT):  # two boundaries may have been looked at together
        yield drift_gate(session, event)


def _gate_answered(session: Session, event: GateAnswered, now: float) -> Iterator[Event]:
    yield from after_answer(session, session.open_gates[event.gate], event.answer, now)


FOLLOWS: dict[type, Callable[[Session, Any, float], Iterator[Event]]] = {
    AttemptStalled: _attempt_stalled,
    AttemptCancelled: _attempt_cancelled,
    AttemptEnded: _attempt_ended,
    RuntimeParked: _runtime_parked,
    RuntimeResumed: _runtime_resumed,
    Checked: _checked,
    VerdictGiven: _verdict_given,
    ChangesetEvicted: _evicted,
    ChangesetTrimmed: _trimmed,
    ChangesetJudged: _judged,
    Landed: _landed,
    PullRequestOpened: _landed,
    HookRan: _hook_ran,
    CycleEnded: _cycle_ended,
    OverlapSeen: _overlap_seen,
    TasksImported: after_import,
    EditRefused: _edit_refused,
    ConfigDrifted: _config_drifted,
    GateAnswered: _gate_answered,
}
