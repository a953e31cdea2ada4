"""Build the memory records of a session, and shorten old ones.

The key of a record is made of the session and its subject, so saving a session again repeats nothing. Records depend
on nothing but the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from blueflame.knowledge.distill import distill_lessons
from blueflame.knowledge.effect import Effect
from blueflame.model.attempt import PLAN_SUBJECT, AttemptRecord
from blueflame.model.memory import (
    Decay,
    MemoryRecord,
    Origin,
    RoleSpend,
    SessionSummary,
    Source,
    TaskFailure,
    TaskResult,
)
from blueflame.model.spend import NO_SPEND
from blueflame.model.task import HistoryEntry, HistoryResult, TaskRecord, TaskState
from blueflame.session.state import Session
from blueflame.session.team.seats import sum_seat_work
from blueflame.text.notes import clean_note
from blueflame.text.sanitize import shorten_line

MAX_TITLE_CHARS, MAX_REASON_CHARS, MAX_NOTE_CHARS, MAX_ENTRY_CHARS = 200, 600, 600, 400
MAX_ENTRIES = 5
MAX_FILES = 30
MAX_ATTEMPTS = 200


def build_records(session: Session, *, failure_notes: bool = True) -> tuple[MemoryRecord, ...]:
    """Build all records of a session, in a fixed order. One that curates teaches nothing about the work."""
    if session.workflow.curates:
        return ()
    return (
        _build_summary(session),
        *_build_results(session),
        *_build_failures(session, notes=failure_notes),
        *distill_lessons(session, failure_notes=failure_notes),
    )


REHEARSED = "scripted"
"""The runtime of rehearsals: what a script reports says nothing about what a model would cost."""


def _build_summary(session: Session) -> SessionSummary:
    last = session.changesets[session.landings[-1]].landed_as if session.landings else None
    return SessionSummary(
        key=f"session:{session.id}",
        origin=Origin(
            session=session.id,
            at=session.opened_at,
            commit=last or session.base_sha,
            source=Source.PERSON,
            micro_usd=session.spend.micro_usd,
        ),
        request=clean_note(session.request, MAX_REASON_CHARS),
        outcome=session.outcome,
        reason=clean_note(session.outcome_reason, MAX_TITLE_CHARS),
        tasks=len(session.tasks),
        merged=session.count_in_state(TaskState.MERGED),
        failed=session.count_in_state(TaskState.FAILED, TaskState.BLOCKED),
        cycles=session.cycle,
        seconds=round(session.last_at - session.opened_at, 3),
        tokens=session.spend.tokens,
        spent=tuple(_build_spends(session)),
        tier=session.triage.tier if session.triage else None,
        chosen_by=session.triage.chosen_by if session.triage else None,
        seats=sum_seat_work(session),
    )


def _build_spends(session: Session) -> Iterator[RoleSpend]:
    paid: dict[str, list[AttemptRecord]] = {}
    for record in sorted(session.attempts.values(), key=lambda each: (each.intended_at, each.attempt.id)):
        if record.ended is not None and record.ended.spend.micro_usd and record.attempt.runtime != REHEARSED:
            paid.setdefault(record.attempt.role, []).append(record)
    for role, records in paid.items():
        newest = records[-MAX_ATTEMPTS:]
        yield RoleSpend(
            role=role,
            attempts=tuple(each.ended.spend.micro_usd for each in newest if each.ended is not None),
            seconds=tuple(round(_measure_seconds(each), 1) for each in newest),
        )


def _measure_seconds(record: AttemptRecord) -> float:
    return max((record.ended_at or record.intended_at) - (record.started_at or record.intended_at), 0.0)


def _build_results(session: Session) -> Iterator[TaskResult]:
    ends: dict[str, float] = {}
    for each in session.attempts.values():
        ends[each.attempt.subject] = max(ends.get(each.attempt.subject, session.opened_at), each.ended_at or 0.0)
    for name in session.list_in_state(TaskState.MERGED):
        yield _build_result(session, session.tasks[name], ends.get(name, session.opened_at))


def _build_result(session: Session, record: TaskRecord, at: float) -> TaskResult:
    return TaskResult(
        key=f"result:{session.id}:{record.task.id}",
        origin=_build_origin(session, record, at),
        title=clean_note(record.task.title, MAX_TITLE_CHARS),
        notes=clean_note(record.verdict_notes, MAX_NOTE_CHARS),
        group=clean_note(record.task.cohesion_group, MAX_TITLE_CHARS),
        attempts=record.attempts,
    )


def _build_origin(session: Session, record: TaskRecord, at: float) -> Origin:
    return Origin(
        session=session.id,
        at=at,
        task=record.task.id,
        commit=record.result.sha if record.result is not None else "",
        source=Source.AGENT,
        micro_usd=session.spend_by_subject.get(record.task.id, NO_SPEND).micro_usd,
        files=tuple(shorten_line(lock, MAX_TITLE_CHARS) for lock in record.task.file_locks[:MAX_FILES]),
    )


def _build_failures(session: Session, *, notes: bool) -> Iterator[TaskFailure]:
    for _name, record in sorted(session.tasks.items()):
        faults = [entry for entry in record.history if entry.result is not HistoryResult.STALE]
        if faults or record.state is TaskState.FAILED:
            yield _build_failure(session, record, faults, notes=notes)
    if session.ended and not session.tasks and session.plan_failures:
        yield TaskFailure(
            key=f"failure:{session.id}:{PLAN_SUBJECT}",
            origin=Origin(session=session.id, at=session.last_at, task=PLAN_SUBJECT, source=Source.AGENT),
            title=clean_note(f"the plan for: {session.request}", MAX_TITLE_CHARS),
            reason=clean_note(session.plan_failures[-1], MAX_REASON_CHARS) if notes else "",
            retries=len(session.plan_failures) - 1,
        )


def _build_failure(session: Session, record: TaskRecord, faults: list[HistoryEntry], *, notes: bool) -> TaskFailure:
    last = faults[-1] if faults else None
    at = last.at if last is not None else session.opened_at
    why = record.reason or (last.rejection_reason or last.notes if last is not None else "")
    return TaskFailure(
        key=f"failure:{session.id}:{record.task.id}",
        origin=_build_origin(session, record, at),
        title=clean_note(record.task.title, MAX_TITLE_CHARS),
        reason=clean_note(why, MAX_REASON_CHARS) if notes else "",
        retries=max(record.retries, len(faults) - 1, 0),
        history=tuple(map(_describe_entry, faults[-MAX_ENTRIES:])) if notes else (),
        overcome=record.state is TaskState.MERGED,
    )


def _describe_entry(entry: HistoryEntry) -> str:
    words = clean_note(entry.rejection_reason or entry.notes, MAX_ENTRY_CHARS)
    return f"attempt {entry.attempt}: {entry.result.value.replace('_', ' ')}" + (f": {words}" if words else "")


def compute_ages(records: Iterable[MemoryRecord]) -> Mapping[str, int]:
    """For each session of the records, how many sessions are newer."""
    begun: dict[str, float] = {}
    for record in records:
        name, at = record.origin.session, record.origin.at
        begun[name] = min(begun.get(name, at), at)
    newest_first = sorted(begun, key=lambda name: (begun[name], name), reverse=True)
    return {name: age for age, name in enumerate(newest_first)}


def fade_records(records: Iterable[MemoryRecord], decay: Decay) -> tuple[MemoryRecord, ...]:
    """Return shortened copies of the records that are old enough."""
    known = tuple(records)
    if not decay.enabled:
        return ()
    old = compute_ages(known)
    return tuple(
        _fade_record(record)
        for record in known
        if not record.faded and _is_old(record, old[record.origin.session], decay)
    )


def _is_old(record: MemoryRecord, age: int, decay: Decay) -> bool:
    if isinstance(record, TaskFailure):
        return age >= decay.failures_after
    return isinstance(record, TaskResult) and age >= decay.results_after


def _fade_record(record: MemoryRecord) -> MemoryRecord:
    origin = replace(record.origin, files=record.origin.files[:3])
    if isinstance(record, TaskFailure):
        return replace(record, origin=origin, reason=record.reason[:120], history=(), audit=(), faded=True)
    if isinstance(record, TaskResult):
        return replace(record, origin=origin, notes="", faded=True)
    return record


def add_effects(records: Iterable[MemoryRecord], effects: Mapping[str, Effect]) -> tuple[MemoryRecord, ...]:
    """Add how many attempts were given each record, and how many of the first ones passed at once."""
    return tuple(_add_effect(record, effects.get(record.key)) for record in records)


def _add_effect(record: MemoryRecord, effect: Effect | None) -> MemoryRecord:
    if effect is None:
        return record
    return replace(record, origin=replace(record.origin, used=effect.given, helped=effect.passed))
