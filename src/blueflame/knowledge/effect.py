"""Whether a lesson helps: first attempts that were given it, beside comparable ones that were not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from math import sqrt

from blueflame.knowledge.distill import list_locks
from blueflame.knowledge.subjects import find_overlap, parse_subject
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import BLAMELESS, AttemptRecord, Duty, Ending
from blueflame.model.memory import MemoryRecord
from blueflame.model.task import HistoryResult, TaskState
from blueflame.session.state import Session

MIN_TRIES = 10
Z = 1.64  # one chance in twenty that equal groups differ as much
PASSED_STATES = frozenset({TaskState.VALIDATED, TaskState.MERGED, TaskState.DEFERRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An attempt that has ended, what it was given and whether that was enough."""

    attempt: str
    session: str
    duty: Duty
    tier: int = 0  # of its request; 0 if it was not sized
    files: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()  # keys
    is_first: bool = True  # at its subject
    passed: bool = False  # at once: nothing came back


class Finding(StrEnum):
    TOO_FEW = "too few"
    HELPS = "helps"
    HARMS = "harms"
    SAME = "no difference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    given: int = 0  # attempts
    tried: int = 0  # first attempts among them
    passed: int = 0  # those of them that passed at once
    others: int = 0  # comparable first attempts without it
    others_passed: int = 0

    @property
    def finding(self) -> Finding:
        if self.tried < MIN_TRIES or self.others < MIN_TRIES:
            return Finding.TOO_FEW
        both = (self.passed + self.others_passed) / (self.tried + self.others)
        margin = Z * sqrt(both * (1 - both) * (1 / self.tried + 1 / self.others))
        difference = self.passed / self.tried - self.others_passed / self.others
        if not margin or abs(difference) <= margin:
            return Finding.SAME
        return Finding.HELPS if difference > 0 else Finding.HARMS

    @property
    def harms(self) -> bool:
        return self.finding is Finding.HARMS

    @property
    def gain(self) -> float:
        """What it adds to the score of a lesson."""
        return 1.0 if self.finding is Finding.HELPS else 0.0

    def describe(self) -> str:
        """In words for people; "" if no attempt was given it."""
        if not self.given:
            return ""
        times = "once" if self.given == 1 else f"{self.given} times"
        beside = f"{self.others_passed} of {self.others} without it"
        return f"given {times}; {self.passed} of {self.tried} first attempts passed at once, {beside}: {self.finding}"


UNKNOWN_EFFECT = Effect()


def measure_effect(record: MemoryRecord, trials: Iterable[Trial]) -> Effect:
    """Compare with attempts of the same duties on the same files; where those are too few, of the same tiers."""
    known = tuple(trials)
    given = [each for each in known if record.key in each.lessons]
    tried = [each for each in given if each.is_first]
    duties, tiers = {each.duty for each in tried}, {each.tier for each in tried}
    without = [each for each in known if record.key not in each.lessons and each.is_first and each.duty in duties]
    subject = parse_subject(record.origin.files)
    near = [each for each in without if find_overlap(each.files, subject)] if len(tried) >= MIN_TRIES else []
    others = near if len(near) >= MIN_TRIES else [each for each in without if each.tier in tiers]
    return Effect(
        given=len(given),
        tried=len(tried),
        passed=sum(each.passed for each in tried),
        others=len(others),
        others_passed=sum(each.passed for each in others),
    )


def list_trials(session: Session) -> Iterator[Trial]:
    """List the attempts of a session whose outcome is known; endings that say nothing about the work are left out."""
    shared = tuple(each.key for each in session.shared.lessons) if session.shared else ()
    for record in session.attempts.values():
        passed = _find_outcome(session, record)
        if passed is not None:
            attempt = record.attempt
            own = tuple(each.key for each in record.lessons or () if each.left_out is None)
            yield Trial(
                attempt=attempt.id,
                session=session.id,
                duty=attempt.duty,
                tier=session.triage.tier.value if session.triage else 0,
                files=list_locks(session, [attempt.subject]),
                lessons=(*shared, *own),
                is_first=attempt.n == 1,
                passed=passed,
            )


def _find_outcome(session: Session, record: AttemptRecord) -> bool | None:
    """Whether it passed at once; None while that is open, and where its ending says nothing."""
    attempt, ended = record.attempt, record.ended
    if ended is None or ended.ending in BLAMELESS:
        return None
    if attempt.duty is Duty.MAKE:
        return _find_making_outcome(session, record, ended.ending)
    if ended.ending is not Ending.PASSED:
        return False
    return _find_plan_outcome(session, attempt.n) if attempt.duty is Duty.PLAN else True


def _find_making_outcome(session: Session, record: AttemptRecord, ending: Ending) -> bool | None:
    attempt = record.attempt
    task = session.tasks[attempt.subject]
    is_done = task.state in PASSED_STATES or task.stage > (attempt.stage or 0) + 1
    idle = ending is Ending.NO_COMMITS and is_done and session.last_work[attempt.subject] == attempt.id
    if idle or ending is Ending.NOTHING_TO_DO:  # the first is of journals before there was the second
        return None
    if ending is not Ending.PASSED:
        return False
    came_back = [entry for entry in task.history if entry.agent_id == attempt.agent_id]
    if any(entry.result is not HistoryResult.STALE for entry in came_back):
        return False
    return True if is_done else None


def _find_plan_outcome(session: Session, n: int) -> bool | None:
    if session.plan_round > n or session.plan_failures:
        return False
    return True if session.plan_approved_at is not None else None
