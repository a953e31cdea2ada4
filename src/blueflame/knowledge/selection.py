"""Choose what of earlier sessions an attempt is given: what is about its files first, then what is about its words.

The same records and the same work give the same choice, in the same order. A token is estimated as three bytes, which
is more tokens than prose and code really have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from blueflame.knowledge.effect import UNKNOWN_EFFECT, Effect
from blueflame.knowledge.subjects import find_overlap, find_own_domain, parse_subject
from blueflame.knowledge.wording import COST_TOKENS, describe_record, word_lesson
from blueflame.knowledge.words import find_shared_words, index_stems, list_query_words
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Duty
from blueflame.model.memory import (
    GivenLesson,
    LeftOut,
    Lesson,
    MemoryRecord,
    SessionSummary,
    Source,
    TaskFailure,
    TaskResult,
)
from blueflame.paths.locks import LockPath
from blueflame.text.tokens import estimate_tokens

MAX_COUNTED = 20  # failures and sessions together
MAX_LEFT_OUT = 10  # that are recorded for lack of budget
MIN_WORDS = 2  # that a lesson about no file of the work has in common with it
MAX_NAMED = 5  # files and words that are recorded as the reason
SHARED_KINDS = ("wish", "insight", "note", "pattern")  # in this order
DUTY_KINDS: Mapping[Duty, frozenset[str]] = {
    Duty.SIZE: frozenset({"wish", "pattern", "allocation"}),
    Duty.MAKE: frozenset({"wish", "fix", "mistake", "insight", "note"}),
    Duty.JUDGE: frozenset({"wish", "fix", "mistake", "insight", "note"}),
    Duty.MERGE: frozenset({"wish", "fix", "mistake", "insight", "note"}),
    Duty.CURATE: frozenset(),  # its prompt has all of them, to judge and not to follow
}
"""The kinds of lessons for each duty; a planner gets everything. A kind that is not known is a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What an attempt is to do."""

    duty: Duty
    text: str
    files: tuple[str, ...] = ()  # its locks; none: it is about no file in particular
    domain: str = ""
    session: str = ""
    subject: str = ""
    attempt: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return list_query_words(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    record: MemoryRecord
    relevance: float = 0.0  # 0 to 1, by search; less for what is old
    age: int = 0  # sessions that are newer
    effect: Effect = UNKNOWN_EFFECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    records: tuple[MemoryRecord, ...] = ()  # that are given, best first
    lessons: tuple[GivenLesson, ...] = ()  # the same, and what was left out, with the reasons
    note: str = ""  # why it is incomplete


class _Ranked(NamedTuple):
    candidate: Candidate
    why: GivenLesson

    @property
    def is_about_work(self) -> bool:
        return bool(self.why.files or self.why.domain)


def choose_for_attempt(
    candidates: Iterable[Candidate], work: Work, *, budget: int, without: frozenset[str] = frozenset(), control: int = 0
) -> Choice:
    """`without`: keys that it has already. One lesson in `control` is left out to compare; 0: none."""
    locks, words = parse_subject(work.files), work.words
    known = {each.record.key: each for each in candidates if each.record.key not in without}
    fitting = [each for each in known.values() if _is_for(each.record, work)]
    ranked = [_Ranked(each, _explain(each, work.domain, locks, words)) for each in fitting]
    if work.duty is not Duty.PLAN:
        enough = min(MIN_WORDS, len(index_stems(words)) or 1)
        ranked = [each for each in ranked if each.is_about_work or len(each.why.words) >= enough]
    ranked.sort(key=lambda each: (_is_doubtful(each.candidate), not each.is_about_work, -each.why.score, each.why.key))
    return _fill(_limit_counted(ranked), work, budget, control)


def choose_for_session(lessons: Iterable[Lesson], budget: int) -> tuple[Lesson, ...]:
    """Choose what all attempts of a session are given: what a person said or confirmed, about no file in particular.

    By key, so that it is the same text for every attempt.
    """
    fitting = [
        each
        for each in lessons
        if _is_current(each)
        and not each.domain
        and not parse_subject(each.origin.files)
        and (each.confirmed or each.origin.source is Source.PERSON)
        and each.origin.source is not Source.IMPORT
        and each.about in SHARED_KINDS
    ]
    fitting.sort(key=lambda each: (each.stale, SHARED_KINDS.index(each.about), -each.origin.at, each.key))
    chosen, left = list[Lesson](), budget
    for each in fitting:
        cost = estimate_tokens(word_lesson(each))
        if cost <= left:
            chosen.append(each)
            left -= cost
    return tuple(sorted(chosen, key=lambda each: each.key))


def _is_for(record: MemoryRecord, work: Work) -> bool:
    own = record.origin.session == work.session
    if isinstance(record, Lesson) and not _is_current(record):
        return False
    if work.duty is Duty.PLAN:
        return not own
    if not isinstance(record, Lesson) or (own and record.origin.task == work.subject):
        return False
    about = record.about if record.about in LESSON_SCORES else "note"
    return about in DUTY_KINDS[work.duty] or (about == "pattern" and record.confirmed)


def _is_current(lesson: Lesson) -> bool:
    return lesson.is_active and not lesson.superseded_by


def _is_doubtful(candidate: Candidate) -> bool:
    """Whether it goes after all others: attempts with it fail more often, or its subject has changed since."""
    return candidate.effect.harms or (isinstance(candidate.record, Lesson) and candidate.record.stale)


def _explain(candidate: Candidate, domain: str, locks: Sequence[LockPath], words: tuple[str, ...]) -> GivenLesson:
    record = candidate.record
    same = domain if isinstance(record, Lesson) and domain and find_own_domain(record) == domain else ""
    shared = find_shared_words(words, record)
    near = find_overlap(record.origin.files, locks)
    files = tuple(sorted(near, key=lambda file: (-near[file], file)))
    found = candidate.relevance or (len(shared) / len(words) if words else 0.0)
    score = (
        KIND_SCORES[type(record)](record)
        + 2 / (1 + candidate.age)
        + 3 * found
        + 3 * max(near.values(), default=0.0)
        + candidate.effect.gain
        - (0.5 if record.faded else 0.0)
    )
    return GivenLesson(
        key=record.key, files=files[:MAX_NAMED], domain=same, words=shared[:MAX_NAMED], score=round(score, 2)
    )


def _score_lesson(record: Lesson) -> float:
    return LESSON_SCORES.get(record.about, LESSON_SCORES["note"]) + (1.0 if record.confirmed else 0.0)


LESSON_SCORES = {
    "wish": 3.0,
    "fix": 3.0,
    "mistake": 2.5,
    "pattern": 2.0,
    "insight": 1.5,
    "allocation": 1.5,
    "note": 1.0,
}
KIND_SCORES: Mapping[type, Callable[[Any], float]] = {
    TaskFailure: lambda record: 2.0 if record.overcome else 3.0,
    Lesson: _score_lesson,
    SessionSummary: lambda _record: 1.5,
    TaskResult: lambda _record: 1.0,
}


def _limit_counted(ranked: Sequence[_Ranked]) -> list[_Ranked]:
    counted = [each.why.key for each in ranked if isinstance(each.candidate.record, TaskFailure | SessionSummary)]
    left_out = frozenset(counted[MAX_COUNTED:])
    return [each for each in ranked if each.why.key not in left_out]


def _fill(ranked: Sequence[_Ranked], work: Work, budget: int, control: int) -> Choice:
    plans = work.duty is Duty.PLAN
    costs = plans and any(
        isinstance(each.candidate.record, SessionSummary) and each.candidate.record.origin.micro_usd for each in ranked
    )
    left = budget - (COST_TOKENS if costs else 0)
    given, held, missed = list[_Ranked](), list[GivenLesson](), list[GivenLesson]()
    for each in ranked:
        cost = estimate_tokens(_word_record(each.candidate, plans=plans))
        if cost > left:
            missed.append(replace(each.why, left_out=LeftOut.BUDGET))
        elif is_control(each.candidate.record, work.attempt, control):
            held.append(replace(each.why, left_out=LeftOut.CONTROL))
        else:
            given.append(each)
            left -= cost
    return Choice(
        records=tuple(each.candidate.record for each in given),
        lessons=(*(each.why for each in given), *held, *missed[:MAX_LEFT_OUT]),
    )


def _word_record(candidate: Candidate, *, plans: bool) -> str:
    record = candidate.record
    return word_lesson(record) if isinstance(record, Lesson) and not plans else describe_record(record, candidate.age)


def is_control(record: MemoryRecord, attempt: str, control: int) -> bool:
    """Whether an attempt works without a lesson to compare. A person's words are never left out."""
    if not control or not isinstance(record, Lesson) or record.confirmed or record.origin.source is Source.PERSON:
        return False
    drawn = sha256(f"{attempt} {record.key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(drawn[:8]) % control == 0
