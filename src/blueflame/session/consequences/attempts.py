"""What follows when an attempt starts, falls silent, is cancelled or ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from blueflame.model.attempt import UNAVAILABLE, Attempt, AttemptOutcome, Duty, Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptIntended,
    AttemptStalled,
    AttemptStarted,
    EnvironmentRecovered,
    EnvironmentRetried,
    Event,
    GateWithdrawn,
    MessageUndelivered,
    OverlapSeen,
    QuestionAsked,
    TaskMoved,
    VerdictGiven,
)
from blueflame.model.gate import GateKind
from blueflame.model.task import Cause, HistoryEntry, HistoryResult, Result, TaskRecord, TaskState
from blueflame.model.verdict import Verdict, VerdictStatus
from blueflame.session.budget import describe_task_budget, is_task_budget_exhausted
from blueflame.session.cascade import block_dependants, block_if_dependency_failed
from blueflame.session.changesets.queue import give_task_back
from blueflame.session.clarifications import find_question_gate, is_question_kept
from blueflame.session.environment import (
    KILLED,
    count_unstarted,
    is_held,
    name_attempt_act,
    report_lost,
    report_unstarted,
)
from blueflame.session.foundations import are_foundations_valid
from blueflame.session.gates.questions import (
    ask_or_give_up,
    open_clarification_gate,
    open_overlap_gate,
    open_stall_gate,
    open_validator_gate,
)
from blueflame.session.gates.slots import withdraw_assignment
from blueflame.session.next_try import find_retry_moment, may_retry
from blueflame.session.overlaps import order_by_start
from blueflame.session.rate_limits import park_after_outage
from blueflame.session.retries import KILL, build_history_entry, is_blameless, truncate_text
from blueflame.session.state import Session, is_judged


def _handle_attempt_started(session: Session, event: AttemptStarted, _now: float) -> Iterator[Event]:
    """A start ends what hindered it, except where the attempt before had got as far: its own end tells."""
    attempt = session.attempts[event.attempt].attempt
    act = name_attempt_act(attempt)
    if act in session.problems and not count_unstarted(session, attempt):
        yield EnvironmentRecovered(act=act)


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
        by_person = not (session.stopping or event.stalled)
        yield EnvironmentRetried(act=act, by=KILLED if by_person else "")


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
    question = find_question_gate(session, attempt)
    if question is not None and not is_question_kept(session, attempt, event.ended):
        yield GateWithdrawn(gate=question.id, reason="the agent ended without an answer")
    for number, message in enumerate(ending.messages, start=1):
        if message.delivered_at is None and not message.gate:  # an answer is in the next prompt
            yield MessageUndelivered(attempt=event.attempt, number=number)
    if event.ended.ending is Ending.ENVIRONMENT:
        yield report_unstarted(session, attempt, event.ended, now)
    yield from report_lost(session, attempt, event.ended, now)
    if event.ended.ending in UNAVAILABLE:
        yield from park_after_outage(session, attempt, event.ended, now)
    if attempt.duty is Duty.MAKE:
        yield from _handle_worker_ended(session, attempt, event.ended, now)
    elif attempt.duty is Duty.MERGE:
        yield from _handle_merger_ended(session, attempt, event.ended)
    elif event.ended.ending is Ending.PASSED or is_blameless(attempt, event.ended):
        return
    elif attempt.duty is Duty.JUDGE:
        record = session.tasks[attempt.subject]
        if is_judged(session, record) and record.validator_failures >= session.limits.validator_retries:
            yield open_validator_gate(session, record, describe_ending(event.ended))


def _handle_merger_ended(session: Session, attempt: Attempt, ended: AttemptOutcome) -> Iterator[Event]:
    """Send the task back when the merger failed; a resolution is a separate event."""
    record = session.changesets[attempt.subject]
    if ended.ending is Ending.PASSED or record.state is not ChangesetState.CONFLICTED or record.conflict is None:
        return
    ended_by_a_person = ended.ending is Ending.CANCELLED and attempt.id not in session.halted
    if ended_by_a_person or not is_blameless(attempt, ended):
        yield give_task_back(session, attempt.subject, record.conflict, f"the merger {describe_ending(ended)}")


def _handle_worker_ended(session: Session, attempt: Attempt, ended: AttemptOutcome, now: float) -> Iterator[Event]:
    record = session.tasks[attempt.subject]
    if record.state is not TaskState.CLAIMED:
        return
    if ended.passed:
        yield from _complete_task(session, attempt, ended)
    elif ended.ending is Ending.CANCELLED and attempt.id not in session.halted:
        reason = session.attempts[attempt.id].cancel_reason or "cancelled"
        entry = _build_failure_entry(session, attempt, ended, reason, now)
        if session.attempts[attempt.id].restarts:
            yield TaskMoved(task=attempt.subject, cause=Cause.RELEASE, reason=reason, history=entry)
            yield from block_if_dependency_failed(session, attempt.subject)
        else:
            stage = record.stage
            yield TaskMoved(task=attempt.subject, cause=Cause.REQUEUE, reason=reason, history=entry, stage=stage)
    elif is_blameless(attempt, ended):
        if ended.ending is Ending.QUESTION or find_question_gate(session, attempt) is not None:
            return  # it keeps its locks until the question is settled
        yield TaskMoved(task=attempt.subject, cause=Cause.RELEASE, reason=describe_ending(ended))
        yield from block_if_dependency_failed(session, attempt.subject)
    else:
        yield from _fail_task(session, record, attempt, ended, now)


def _complete_task(session: Session, attempt: Attempt, ended: AttemptOutcome) -> Iterator[Event]:
    assert ended.base is not None, f"{attempt.id} passed without a base"
    record = session.tasks[attempt.subject]
    base = record.start.base if record.start is not None else ended.base  # of all that its stages made
    tip = ended.tip or ended.base  # without commits it is what it started from
    result = Result(sha=tip, base=base, built_on=attempt.built_on, attempt=attempt.id, subject=ended.subject)
    if record.start is not None and tip == record.start.sha:
        result = record.start
    workflow = session.find_workflow(record.task)
    after = workflow.find_next(record.stage)
    if not workflow.is_made(record.stage):
        yield _hand_over(session, attempt, ended, result)
        return
    yield TaskMoved(task=attempt.subject, cause=Cause.COMPLETE, result=result)
    if after is None or after.duty is not Duty.JUDGE:
        verdict = Verdict(status=VerdictStatus.PASS, notes="the workflow has no stage that judges it", by="workflow")
        yield VerdictGiven(task=attempt.subject, sha=tip, verdict=verdict)
        yield TaskMoved(task=attempt.subject, cause=Cause.VALIDATE)
    if not are_foundations_valid(session, attempt.built_on):
        yield TaskMoved(task=attempt.subject, cause=Cause.DEFER, reason="what it was built on is no longer valid")


def _hand_over(session: Session, attempt: Attempt, ended: AttemptOutcome, result: Result) -> TaskMoved:
    """Give a task to its next stage; a task of which nothing is made yet to the next one that makes, not to a judge."""
    record = session.tasks[attempt.subject]
    workflow, is_empty = session.find_workflow(record.task), result.sha == result.base
    find_next = workflow.find_next_making_stage if is_empty else workflow.find_next_position
    stage = find_next(record.stage)
    nothing = f"{attempt.role} had nothing to do; " if ended.ending is Ending.NOTHING_TO_DO else ""
    reason = f"{nothing}{workflow.task_stages[stage].name} is next"
    at = stage if is_empty else None
    return TaskMoved(task=attempt.subject, cause=Cause.HAND_OVER, reason=reason, result=result, stage=at)


def _fail_task(
    session: Session, record: TaskRecord, attempt: Attempt, ended: AttemptOutcome, now: float
) -> Iterator[Event]:
    reason = describe_ending(ended)
    exhausted = is_task_budget_exhausted(session, attempt.subject, ended.spend)
    if exhausted:
        reason = f"{reason}; {describe_task_budget(session, attempt.subject, ended.spend)}"
    entry = _build_failure_entry(session, attempt, ended, reason, now)
    yield TaskMoved(task=attempt.subject, cause=Cause.FAIL, reason=reason, history=entry, stage=record.stage)
    if may_retry(session.limits, record) and not exhausted:
        until = find_retry_moment(session.limits, record, now)
        yield TaskMoved(task=attempt.subject, cause=Cause.RETRY, reason=reason, until=until)
        yield from block_if_dependency_failed(session, attempt.subject)
    elif exhausted:
        yield from block_dependants(session, attempt.subject, f"dependency {attempt.subject} failed")
    else:
        yield from ask_or_give_up(session, record, reason)


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


def _handle_question_asked(session: Session, event: QuestionAsked, now: float) -> Iterator[Event]:
    """Ask the person, one question about a subject at a time."""
    attempt = session.attempts[event.attempt].attempt
    if not session.is_asking(GateKind.CLARIFICATION, attempt.subject):
        yield open_clarification_gate(session, attempt, event.question, now)


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


ATTEMPT_CONSEQUENCES: dict[type, Callable[[Session, Any, float], Iterator[Event]]] = {
    AttemptIntended: lambda session, event, _now: withdraw_assignment(
        session, event.attempt.role, f"{event.attempt.agent_id} got a slot"
    ),
    AttemptStarted: _handle_attempt_started,
    AttemptStalled: _handle_attempt_stalled,
    AttemptCancelled: _handle_attempt_cancelled,
    AttemptEnded: _handle_attempt_ended,
    QuestionAsked: _handle_question_asked,
    OverlapSeen: _handle_overlap_seen,
}
