"""The hand-offs of a task: who left what to whom, and how its stage ended. A view of the journal."""

from __future__ import annotations

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt, AttemptRecord, Duty, Ending
from blueflame.model.hand_off import HandOff, HandOffStatus
from blueflame.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class StageHandOff:
    task: str
    attempt: str
    position: int  # of the sender, in `Workflow.task_stages`
    sender: str  # the key of its stage
    receiver: str
    is_verdict: bool  # the sender is a reviewer,
    to_judge: bool  # the receiver is one
    status: HandOffStatus
    left: HandOff


def list_hand_offs(session: Session, *tasks: str) -> tuple[StageHandOff, ...]:
    """List what the stages of these tasks left, in the order in which they ended."""
    wanted = frozenset(tasks)
    records = tuple(session.attempts.values())  # prompts are built in threads, while the loop adds attempts
    ended = sorted(
        (each for each in records if each.attempt.subject in wanted and each.ended_at is not None),
        key=lambda each: (each.ended_at or 0.0, each.attempt.id),
    )
    return tuple(found for found in (build_hand_off(session, each) for each in ended) if found is not None)


def list_last_hand_offs(session: Session, *tasks: str) -> tuple[StageHandOff, ...]:
    """List the last word of each stage."""
    found = list_hand_offs(session, *tasks)
    last = {(each.task, each.sender): each.attempt for each in found}
    return tuple(each for each in found if last[each.task, each.sender] == each.attempt)


def build_hand_off(session: Session, record: AttemptRecord) -> StageHandOff | None:
    """Build the hand-off of an attempt; None while it runs, and where it has none: it only asked a question."""
    attempt, ended = record.attempt, record.ended
    if ended is None or ended.hand_off is None or attempt.stage is None or ended.ending is Ending.QUESTION:
        return None
    workflow, passed = session.find_workflow(session.tasks[attempt.subject].task), _has_passed(session, record)
    find_target = workflow.find_next_position if passed else workflow.find_making_stage
    if ended.ending is Ending.NOTHING_TO_DO and not _was_made_before(session, attempt):
        find_target = workflow.find_next_making_stage
    receiver = workflow.task_stages[min(find_target(attempt.stage), len(workflow.task_stages) - 1)]
    failed = HandOffStatus.BLOCKED if ended.hand_off.blockers else HandOffStatus.FAILED
    return StageHandOff(
        task=attempt.subject,
        attempt=attempt.id,
        position=attempt.stage,
        sender=attempt.label,
        receiver=receiver.name if receiver.duty is Duty.MERGE else receiver.key,
        is_verdict=attempt.duty is Duty.JUDGE,
        to_judge=receiver.duty is Duty.JUDGE,
        status=HandOffStatus.COMPLETE if passed else failed,
        left=ended.hand_off,
    )


def _was_made_before(session: Session, attempt: Attempt) -> bool:
    own = (each for each in tuple(session.attempts.values()) if each.attempt.subject == attempt.subject)
    return any((each.attempt.stage or 0) < (attempt.stage or 0) and each.ended and each.ended.commits for each in own)


def list_received(session: Session, attempt: Attempt) -> tuple[StageHandOff, ...]:
    """List what an attempt gets, the newest last: the last word of each stage up to its own, and what came back."""
    begun, at = session.attempts[attempt.id].intended_at, attempt.stage or 0
    before = [
        each
        for each in list_hand_offs(session, attempt.subject)
        if each.attempt != attempt.id and (session.attempts[each.attempt].ended_at or 0.0) <= begun
    ]
    last = {each.sender: each for each in before}
    return tuple(
        each for each in before if each is last[each.sender] and (each.position <= at or each.receiver == attempt.label)
    )


def _has_passed(session: Session, record: AttemptRecord) -> bool:
    """Whether the stage has passed: a reviewer by the verdict that counts, which the threshold may have turned."""
    ended, attempt = record.ended, record.attempt
    if ended is None or not ended.passed or attempt.duty is not Duty.JUDGE:
        return ended is not None and ended.passed
    given = [each.verdict for each in session.tasks[attempt.subject].verdicts if each.verdict.by == attempt.agent_id]
    return bool(given) and given[-1].passed
