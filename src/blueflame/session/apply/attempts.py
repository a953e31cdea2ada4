"""How events about attempts, their runtimes and verdicts change a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from blueflame.model.attempt import BLAMELESS, Attempt, AttemptRecord, Duty, Ending, SentMessage
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptIntended,
    AttemptNearsBudget,
    AttemptStalled,
    AttemptStarted,
    Checked,
    EnvironmentFailed,
    EnvironmentRecovered,
    EnvironmentRetried,
    LessonsGiven,
    MessageDelivered,
    MessageSent,
    MessageUndelivered,
    OverlapSeen,
    QuestionAsked,
    RuntimeParked,
    RuntimeResumed,
    VerdictGiven,
)
from blueflame.model.seat import Seat
from blueflame.model.spend import NO_SPEND
from blueflame.model.verdict import StageVerdict
from blueflame.session.apply.indexes import hold_task, update_stage_queues
from blueflame.session.budget import compute_reservation
from blueflame.session.retries import is_blameless, truncate_text
from blueflame.session.state import Session, is_judged

MODEL_UNKNOWN_AFTER = (BLAMELESS - {Ending.QUESTION}) | {Ending.SETUP}
"""After any other ending the model was available, so the count of outages in a row starts again."""


def _apply_attempt_intended(session: Session, event: AttemptIntended, at: float) -> None:
    attempt = event.attempt
    session.attempts[attempt.id] = AttemptRecord(attempt=attempt, intended_at=at)
    session.live[attempt.id] = attempt
    session.awaited.pop(attempt.role, None)
    session.live_by_duty[attempt.duty] = session.count_running(attempt.duty) + 1
    session.attempts_on[attempt.subject, attempt.label] = attempt.n
    session.reserved = session.reserved + compute_reservation(attempt)
    _seat_attempt(session, attempt)
    if attempt.duty is Duty.MAKE:
        record = session.tasks[attempt.subject]
        session.last_work[attempt.subject] = attempt.id
        session.tasks[attempt.subject] = replace(
            record, attempts=record.attempts + 1, agent_id=attempt.agent_id, branch=attempt.branch, scratch=False
        )
    elif attempt.duty is Duty.JUDGE:
        session.to_review.remove(attempt.subject)


def _apply_lessons_given(session: Session, event: LessonsGiven, _at: float) -> None:
    """The first choice counts: two attempts may have started at once."""
    if not event.attempt:
        session.shared = session.shared or event
    elif session.attempts[event.attempt].lessons is None:
        session.attempts[event.attempt] = replace(session.attempts[event.attempt], lessons=event.lessons)


def _seat_attempt(session: Session, attempt: Attempt) -> None:
    if (given := attempt.allocation) is None:
        return
    known = session.seats.get(given.seat) or Seat(name=given.seat, role=attempt.role, domain=given.domain)
    if session.seat_of.get((attempt.subject, attempt.role)) != given.seat:
        known = replace(known, tasks={**known.tasks, given.domain: known.tasks.get(given.domain, 0) + 1})
    session.seats[given.seat] = known
    session.seat_of[attempt.subject, attempt.role] = given.seat
    if attempt.duty is Duty.MAKE:
        session.last_of_seat[given.seat] = attempt.id


def _apply_attempt_started(session: Session, event: AttemptStarted, at: float) -> None:
    record = session.attempts[event.attempt]
    session.attempts[event.attempt] = replace(
        record,
        started_at=at,
        base=event.base,
        worktree=event.worktree,
        inside=event.inside,
        warden_pid=event.warden_pid,
    )
    if record.attempt.duty is Duty.MAKE and record.live:
        task = session.tasks[record.attempt.subject]
        session.tasks[record.attempt.subject] = replace(task, worktree=event.worktree)


def _apply_attempt_stalled(session: Session, event: AttemptStalled, at: float) -> None:
    session.attempts[event.attempt] = replace(session.attempts[event.attempt], stalled_at=at)


def _apply_message_sent(session: Session, event: MessageSent, at: float) -> None:
    record = session.attempts[event.attempt]
    sent = SentMessage(text=event.text, by=event.by, at=at, gate=event.gate)
    session.attempts[event.attempt] = replace(record, messages=(*record.messages, sent))


def _apply_message_delivered(session: Session, event: MessageDelivered, at: float) -> None:
    record = session.attempts[event.attempt]
    messages = list(record.messages)
    messages[event.number - 1] = replace(messages[event.number - 1], delivered_at=at)
    session.attempts[event.attempt] = replace(record, messages=tuple(messages))


def _apply_message_undelivered(_session: Session, _event: MessageUndelivered, _at: float) -> None:
    """Nothing: the attempt has ended, and the message has no time of delivery."""


def _apply_question_asked(session: Session, event: QuestionAsked, _at: float) -> None:
    record = session.attempts[event.attempt]
    session.attempts[event.attempt] = replace(record, questions=record.questions + 1)


def _apply_attempt_cancelled(session: Session, event: AttemptCancelled, _at: float) -> None:
    record = session.attempts[event.attempt]
    was_left_by_stop = event.attempt in session.halted and not session.stopping
    if record.cancel_reason and not was_left_by_stop:  # the first reason counts
        return
    session.halted.pop(event.attempt, None)
    if session.stopping:
        session.halted[event.attempt] = None
    session.attempts[event.attempt] = replace(
        record, cancel_reason=event.reason, cancelled_for_silence=event.stalled, restarts=event.restarts
    )


def _apply_attempt_ended(session: Session, event: AttemptEnded, at: float) -> None:
    record = session.attempts[event.attempt]
    attempt, spend = record.attempt, event.ended.spend
    session.attempts[event.attempt] = replace(record, ended=event.ended, ended_at=at)
    del session.live[event.attempt]
    session.live_by_duty[attempt.duty] -= 1
    session.overlaps = {pair: paths for pair, paths in session.overlaps.items() if attempt.id not in pair}
    session.reserved = session.reserved - compute_reservation(attempt)
    session.spend = session.spend + spend
    last = session.spent_by[-1][0] if session.spent_by else at
    session.spent_by.append((max(at, last), session.spend))  # sorted even if the clock was set back
    session.spend_by_role[attempt.role] = session.spend_by_role.get(attempt.role, NO_SPEND) + spend
    session.spend_by_subject[attempt.subject] = session.spend_by_subject.get(attempt.subject, NO_SPEND) + spend
    if attempt.duty is Duty.JUDGE:
        task = session.tasks[attempt.subject]
        passed = event.ended.ending is Ending.PASSED
        failed = not (passed or is_blameless(attempt, event.ended))
        session.tasks[attempt.subject] = replace(task, validator_failures=task.validator_failures + failed)
        # the verdict is the next event; if a crash loses it, the task is reviewed again
        update_stage_queues(session, session.tasks[attempt.subject])
    if event.ended.ending is Ending.LOST:
        session.losses[attempt.subject, attempt.duty] = session.count_lost(attempt) + 1
    else:
        session.losses.pop((attempt.subject, attempt.duty), None)
    if event.ended.ending is Ending.CONFLICT and attempt.duty is Duty.MAKE:
        hold_task(session, attempt.subject, attempt.built_on)
    if event.ended.ending not in MODEL_UNKNOWN_AFTER:
        session.outages.pop(attempt.runtime, None)


def _apply_overlap_seen(session: Session, event: OverlapSeen, _at: float) -> None:
    session.overlaps.setdefault(event.attempts, {}).update(dict.fromkeys(event.paths, event.kind))


def _apply_attempt_nears_budget(session: Session, event: AttemptNearsBudget, _at: float) -> None:
    session.attempts[event.attempt] = replace(session.attempts[event.attempt], near_budget=True)


def _apply_runtime_parked(session: Session, event: RuntimeParked, _at: float) -> None:
    session.parked[event.runtime] = event
    if event.outages:
        session.outages[event.runtime] = event.outages


def _apply_runtime_resumed(session: Session, event: RuntimeResumed, at: float) -> None:
    session.parked.pop(event.runtime, None)
    if event.by:
        session.tried_at[event.runtime] = at


def _apply_environment_failed(session: Session, event: EnvironmentFailed, _at: float) -> None:
    session.problems[event.act] = event
    session.retrying.pop(event.act, None)


def _apply_environment_retried(session: Session, event: EnvironmentRetried, _at: float) -> None:
    if event.act in session.problems:
        session.retrying[event.act] = event.by


def _apply_environment_recovered(session: Session, event: EnvironmentRecovered, _at: float) -> None:
    session.problems.pop(event.act, None)
    session.retrying.pop(event.act, None)


def _apply_checked(session: Session, event: Checked, _at: float) -> None:
    record = session.tasks[event.task]
    if record.result is None or record.result.sha != event.sha or not is_judged(session, record):
        return
    session.checks[event.task] = event.checks
    workflow = session.find_workflow(record.task)
    after = workflow.find_next(record.stage)
    only_checks = not session.find_stage(event.task).role
    if only_checks and after and after.duty is Duty.JUDGE and all(check.is_acceptable for check in event.checks):
        record = replace(record, stage=workflow.find_next_position(record.stage))
    session.tasks[event.task] = record
    update_stage_queues(session, record)


def _apply_verdict_given(session: Session, event: VerdictGiven, _at: float) -> None:
    record = session.tasks[event.task]
    if record.result is None or record.result.sha != event.sha:
        return
    verdict = replace(event.verdict, notes=truncate_text(event.verdict.notes))
    given = StageVerdict(stage=event.stage, sha=event.sha, verdict=verdict)
    record = replace(
        record,
        verdict=event.verdict.status.value,
        verdict_notes=event.verdict.notes,
        verdicts=(*record.verdicts, given)[-MAX_VERDICTS:],
    )
    session.tasks[event.task] = record
    update_stage_queues(session, record)


MAX_VERDICTS = 50  # of one task; the journal has all
ATTEMPT_HANDLERS: dict[type, Callable[[Session, Any, float], None]] = {
    AttemptIntended: _apply_attempt_intended,
    LessonsGiven: _apply_lessons_given,
    AttemptStarted: _apply_attempt_started,
    AttemptStalled: _apply_attempt_stalled,
    QuestionAsked: _apply_question_asked,
    MessageSent: _apply_message_sent,
    MessageDelivered: _apply_message_delivered,
    MessageUndelivered: _apply_message_undelivered,
    AttemptCancelled: _apply_attempt_cancelled,
    AttemptNearsBudget: _apply_attempt_nears_budget,
    OverlapSeen: _apply_overlap_seen,
    RuntimeParked: _apply_runtime_parked,
    RuntimeResumed: _apply_runtime_resumed,
    EnvironmentFailed: _apply_environment_failed,
    EnvironmentRetried: _apply_environment_retried,
    EnvironmentRecovered: _apply_environment_recovered,
    AttemptEnded: _apply_attempt_ended,
    Checked: _apply_checked,
    VerdictGiven: _apply_verdict_given,
}
