"""Read lessons out of a session, without asking a model.

A lesson depends on nothing but the session, and its key on its subject: reading a session again repeats nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from blueflame.knowledge.claims import CURE, FAILED, REJECTED
from blueflame.knowledge.screen import is_clean
from blueflame.model.attempt import BLAMELESS, PASSING, AttemptRecord, Duty
from blueflame.model.gate import Gate, GateKind
from blueflame.model.hand_off import HandOffStatus, TouchedFile
from blueflame.model.memory import Lesson, Origin, Source
from blueflame.model.task import TaskRecord, TaskState
from blueflame.model.verdict import StageVerdict
from blueflame.paths.domains import WHOLE
from blueflame.session.clarifications import find_answer_text
from blueflame.session.hand_offs import StageHandOff, list_last_hand_offs
from blueflame.session.state import Session
from blueflame.session.team.seats import find_task_domain
from blueflame.text.format import format_count
from blueflame.text.notes import clean_note
from blueflame.text.sanitize import shorten_line

MAX_TITLE_CHARS, MAX_TEXT_CHARS = 200, 600
MAX_WORDS_CHARS = 300  # of a check or a reviewer
MAX_FILES = 30
MAX_NAMED_FILES = 5
MAX_PATTERN_TASKS = 12
MAX_MISTAKES = 3  # of one task
DOMAIN_NAME = re.compile(r"\w[\w.-]{0,59}")
REJECTIONS: Mapping[tuple[GateKind, str], str] = {
    (GateKind.PLAN, "replan"): "of a plan",
    (GateKind.SESSION, "replan"): "between two cycles",
    (GateKind.CHANGESET, "reject"): "of a changeset that was turned down",
}
CHECKS = "checks"  # who gives the verdict when a check has failed
WorkFiles: TypeAlias = Mapping[str, tuple[str, ...]]
"""The files that the work on each task changed."""


def distill_lessons(session: Session, *, failure_notes: bool = True) -> tuple[Lesson, ...]:
    """Return what a session taught, in a fixed order. `failure_notes`: also why work was rejected."""
    work = _collect_work_files(session)
    found = [
        *_list_patterns(session),
        *_list_wishes(session),
        *_list_answers(session),
        *_list_faults(session, work),
        *_list_learned(session, work),
        *_list_allocations(session, work),
        *(_list_mistakes(session, work) if failure_notes else ()),
    ]
    return tuple(lesson for lesson in found if lesson.text)


def _list_patterns(session: Session) -> Iterator[Lesson]:
    """A plan whose tasks all landed: an example for similar requests."""
    tasks = [record.task for _name, record in sorted(session.tasks.items())]
    if session.outcome != "completed" or len(tasks) < 2 or session.count_in_state(TaskState.MERGED) < len(tasks):
        return
    parts = [
        f"{clean_note(task.title, 80)} [{', '.join(task.file_locks[:4])}]"
        + (f" after {', '.join(task.dependencies)}" if task.dependencies else "")
        for task in tasks[:MAX_PATTERN_TASKS]
    ]
    more = f"; and {len(tasks) - MAX_PATTERN_TASKS} more" if len(tasks) > MAX_PATTERN_TASKS else ""
    attempts = sum(record.attempts for record in session.tasks.values())
    text = (
        f"{clean_note(session.request, MAX_TITLE_CHARS)}: {len(tasks)} tasks in "
        f"{format_count(len(session.groups), 'group')} all landed in {format_count(session.cycle, 'cycle')} "
        f"with {attempts} attempts: {'; '.join(parts)}{more}"
    )
    origin = Origin(
        session=session.id,
        at=session.opened_at,
        commit=session.base_sha,
        source=Source.AGENT,
        micro_usd=session.spend.micro_usd,
        files=list_locks(session, [task.id for task in tasks]),
    )
    yield Lesson(
        key=f"pattern:{session.id}", origin=origin, text=shorten_line(text, 3 * MAX_TEXT_CHARS), about="pattern"
    )


def _list_wishes(session: Session) -> Iterator[Lesson]:
    """The notes with which a person rejected something."""
    for name, answer in session.answers.items():
        gate = session.gates[name]
        about = REJECTIONS.get((gate.kind, answer.choice))
        if about and answer.note.strip():
            text = f"said {about}: {clean_note(answer.note, MAX_TEXT_CHARS)}"
            yield _build_wish(session, gate, f"wish:{session.id}:{name}", text)


def _list_answers(session: Session) -> Iterator[Lesson]:
    """What a person answered when an agent asked."""
    for name, answer in session.answers.items():
        gate = session.gates[name]
        words = find_answer_text(gate, answer) if gate.kind is GateKind.CLARIFICATION else ""
        if words.strip():
            asked = clean_note(str(gate.evidence["question"]), MAX_WORDS_CHARS)
            question = f"asked {asked!r}" if is_clean(asked) else "asked by an agent"
            text = f"{question}, a person answered: {clean_note(words, MAX_TEXT_CHARS)}"
            yield _build_wish(session, gate, f"answer:{session.id}:{name}", text)


def _build_wish(session: Session, gate: Gate, key: str, text: str) -> Lesson:
    changeset = session.changesets.get(gate.subject)
    names = changeset.changeset.tasks if changeset else [gate.subject]
    files = list_locks(session, names)
    origin = Origin(session=session.id, at=session.opened_at, source=Source.PERSON, files=files)
    return Lesson(key=key, origin=origin, text=text, about="wish", confirmed=True)


def _list_faults(session: Session, work: WorkFiles) -> Iterator[Lesson]:
    """What people found wrong with work that was done: the next plan should not repeat it."""
    for name, fix in session.fixes.items():
        origin = Origin(
            session=session.id,
            at=session.opened_at,
            task=name,
            commit=fix.work.commit,
            source=Source.PERSON,
            files=work.get(name) or list_locks(session, [name]),
        )
        title, wrong = clean_note(fix.work.title, MAX_TITLE_CHARS), clean_note(fix.wrong, MAX_TEXT_CHARS)
        about = title if is_clean(title) else name
        text = f"{about}: {wrong}{_describe_cure(session, name, work)}"
        yield Lesson(key=f"fix:{session.id}:{name}", origin=origin, text=text, about="fix", confirmed=True)


def _list_learned(session: Session, work: WorkFiles) -> Iterator[Lesson]:
    """What agents say the next one should know, if their stage passed and its work has landed."""
    landed = session.list_in_state(TaskState.MERGED)
    for left in list_last_hand_offs(session, *landed):
        if left.status is HandOffStatus.COMPLETE:
            for number, words in enumerate(left.left.learnings, start=1):
                yield _build_learned(session, left, number, words, work)


def _build_learned(session: Session, left: StageHandOff, number: int, words: str, work: WorkFiles) -> Lesson:
    attempt = session.attempts[left.attempt]
    result = session.tasks[left.task].result
    origin = Origin(
        session=session.id,
        task=left.task,
        attempt=left.attempt,
        commit=result.sha if result is not None else "",
        at=attempt.ended_at or session.opened_at,
        source=Source.AGENT,
        files=work.get(left.task) or list_locks(session, [left.task]),
    )
    key = f"learned:{session.id}:{left.task}:{left.sender}:{number}"
    domain = find_lesson_domain(session, left.task)
    return Lesson(key=key, origin=origin, text=clean_note(words, MAX_TEXT_CHARS), about="insight", domain=domain)


def _list_allocations(session: Session, work: WorkFiles) -> Iterator[Lesson]:
    """Tasks that one could not do and another did: who should get the next one like it."""
    made: dict[str, list[AttemptRecord]] = {}
    for each in session.attempts.values():
        if each.attempt.duty is Duty.MAKE and each.ended is not None and each.ended.ending not in BLAMELESS:
            made.setdefault(each.attempt.subject, []).append(each)
    for name in session.list_in_state(TaskState.MERGED):
        tries = sorted(made.get(name, ()), key=lambda each: (each.intended_at, each.attempt.id))
        done = _describe_maker(tries[-1]) if tries and tries[-1].ended and tries[-1].ended.ending in PASSING else ""
        others = [each for each in tries if _describe_maker(each) != done and each.attempt.key == tries[-1].attempt.key]
        if not done or not others:
            continue
        title = clean_note(session.tasks[name].task.title, MAX_TITLE_CHARS)
        failed = f"{_describe_maker(others[0])} did not do it in {format_count(len(others), 'attempt')}"
        origin = Origin(
            session=session.id,
            task=name,
            attempt=tries[-1].attempt.id,
            at=_find_end(session, name),
            source=Source.MACHINE,
            files=work.get(name) or list_locks(session, [name]),
        )
        text = f"{title}: {failed}, {done} did"
        yield Lesson(key=f"allocation:{session.id}:{name}", origin=origin, text=text, about="allocation")


def _describe_maker(record: AttemptRecord) -> str:
    attempt = record.attempt
    return f"{attempt.role} with {attempt.model or attempt.runtime}"


def _list_mistakes(session: Session, work: WorkFiles) -> Iterator[Lesson]:
    """Results that a reviewer rejected, and those that failed a check and passed later."""
    for _name, record in sorted(session.tasks.items()):
        cured = record.state is TaskState.MERGED
        failed = [each for each in record.verdicts if not each.verdict.passed and (cured or each.verdict.by != CHECKS)]
        newest = {_build_mistake_key(session, record, each): each for each in failed}  # some were judged again
        for key, given in list(newest.items())[-MAX_MISTAKES:]:
            yield _build_mistake(session, record, given, work, key)


def _build_mistake_key(session: Session, record: TaskRecord, given: StageVerdict) -> str:
    return f"mistake:{session.id}:{record.task.id}:{given.stage or 'review'}:{given.sha[:12]}"


def _build_mistake(session: Session, record: TaskRecord, given: StageVerdict, work: WorkFiles, key: str) -> Lesson:
    verdict, name = given.verdict, record.task.id
    by_check = verdict.by == CHECKS
    said = clean_note(_find_last_words(verdict.notes) if by_check else verdict.notes, MAX_WORDS_CHARS)
    what = "; ".join(clean_note(issue, MAX_WORDS_CHARS) for issue in verdict.issues[:3])
    who = FAILED if by_check else REJECTED
    parts = ": ".join(part for part in (clean_note(record.task.title, MAX_TITLE_CHARS), who, what, said) if part)
    origin = Origin(
        session=session.id,
        task=name,
        commit=given.sha,
        at=_find_end(session, name),
        source=Source.MACHINE if by_check else Source.AGENT,
        files=work.get(name) or list_locks(session, [name]),
    )
    text = shorten_line(f"{parts}{_describe_cure(session, name, work)}", 2 * MAX_TEXT_CHARS)
    return Lesson(key=key, origin=origin, text=text, about="mistake")


def _find_last_words(notes: str) -> str:
    """The last lines of a check's output sum it up."""
    lines = [line for line in notes.splitlines() if line.strip()]
    return "\n".join(lines[1:][-3:])


def _describe_cure(session: Session, name: str, work: WorkFiles) -> str:
    """What the attempt changed that passed; "" if none has landed."""
    record = session.tasks.get(name)
    files = tuple(filter(is_clean, work.get(name, ())))[:MAX_NAMED_FILES]
    if record is None or record.state is not TaskState.MERGED or not files:
        return ""
    return f"{CURE}{', '.join(files)}"


def _find_end(session: Session, name: str) -> float:
    last = session.find_last_work(name)
    return (last.ended_at if last is not None else None) or session.opened_at


def _collect_work_files(session: Session) -> WorkFiles:
    """The files that the newest attempt of each making stage changed, by git, for each task."""
    left: dict[str, dict[str, tuple[TouchedFile, ...]]] = {}
    for each in session.attempts.values():
        attempt, hand_off = each.attempt, each.ended.hand_off if each.ended is not None else None
        if attempt.duty is Duty.MAKE and hand_off is not None:
            left.setdefault(attempt.subject, {})[attempt.label] = hand_off.files
    return {name: _list_paths(stages.values()) for name, stages in left.items()}


def _list_paths(stages: Iterable[Sequence[TouchedFile]]) -> tuple[str, ...]:
    found = dict.fromkeys(touched.path for files in stages for touched in files)
    return tuple(shorten_line(path, MAX_TITLE_CHARS) for path in found)[:MAX_FILES]


def find_lesson_domain(session: Session, name: str) -> str:
    """The domain of a task; "" if that is the whole repository or can name no file, and for anything else."""
    found = find_task_domain(session, session.tasks[name].task) if name in session.tasks else WHOLE
    return found if found != WHOLE and DOMAIN_NAME.fullmatch(found) else ""


def list_locks(session: Session, names: Sequence[str]) -> tuple[str, ...]:
    """The files that tasks declare."""
    known = (session.tasks[name].task for name in names if name in session.tasks)
    locks = dict.fromkeys(lock for task in known for lock in task.file_locks)
    return tuple(shorten_line(lock, MAX_TITLE_CHARS) for lock in locks)[:MAX_FILES]
