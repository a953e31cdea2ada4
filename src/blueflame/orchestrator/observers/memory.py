"""Save what a session learned to memory, beside the loop, however the session ends.

Records are a function of the session and each has a key, so saving again repeats nothing. Memory is a view of the
journal: a session that was killed before it was saved is saved when it is resumed, or by the next session. A memory
that fails is reported once and delays nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeAlias

from blueflame.git.results import list_changes
from blueflame.journal.journal import Journal
from blueflame.knowledge.agent_edits import build_edit_origin, list_approved_edits, make_edits
from blueflame.knowledge.curate import CurationStep, sum_up_steps
from blueflame.knowledge.effect import list_trials
from blueflame.memory.provider import NO_MEMORY, JournalMark, Remembered
from blueflame.memory.records import MAX_FILES, MAX_TITLE_CHARS, build_records
from blueflame.model.attempt import Duty
from blueflame.model.errors import InternalError, JournalError, WorldError
from blueflame.model.event import (
    CycleEnded,
    FixRequested,
    GateOpened,
    JournalEntry,
    OrchestratorStarted,
    OrchestratorStopped,
    SessionEnded,
)
from blueflame.model.gate import GateKind
from blueflame.model.memory import MemoryRecord, TaskFailure, TaskResult
from blueflame.model.settings import Settings
from blueflame.model.task import TaskState
from blueflame.orchestrator.context import SessionContext
from blueflame.session.replay import apply_event, replay
from blueflame.session.state import Session
from blueflame.telemetry.audit import read_audit
from blueflame.text.notes import clean_note
from blueflame.text.sanitize import shorten_line

SAVING_EVENTS = (OrchestratorStarted, OrchestratorStopped, FixRequested, SessionEnded)
See: TypeAlias = Callable[[Session, Sequence[JournalEntry]], None]
MAX_REFUSALS = 5


class MemoryWriter:
    """Observer of a session."""

    def __init__(
        self, context: SessionContext, journal: Journal, session: Session, warn: Callable[[str], None]
    ) -> None:
        self._context = context
        self._journal = journal
        self._session = session
        self._warn = warn
        self._warned = False
        self._due = asyncio.Event()
        self._leaving, self._save_last = False, True
        self._files: dict[tuple[str, str], tuple[str, ...]] = {}
        self._saved = -1  # the last saved event
        self._curated: list[CurationStep] = []  # what the rules did to the knowledge files
        self._ended = _count_ended(session)  # tasks, when it was saved last

    def see(self, session: Session, recorded: Sequence[JournalEntry]) -> None:
        if any(_is_saving_moment(each, self._context.settings) for each in recorded) or self._has_many_ended(session):
            self._due.set()

    def _has_many_ended(self, session: Session) -> bool:
        most = self._context.settings.memory.sync_after_tasks
        if not most or (ended := _count_ended(session)) - self._ended < most:
            return False
        self._ended = ended
        return True

    async def keep_up(self) -> None:
        """Save until `leave`."""
        while not self._leaving:
            await self._due.wait()
            self._due.clear()
            if not self._leaving:
                await self.save()
        if self._save_last:
            await self.save()

    def leave(self, *, save: bool) -> None:
        self._leaving, self._save_last = True, save
        self._due.set()

    async def save(self) -> None:
        if self._saved == self._session.seq or self._context.memory is NO_MEMORY:
            return
        self._saved = self._session.seq
        remember = self._build_saving(self._session)  # reads the session before the thread starts: the loop changes it
        await self._try(remember)

    def record_curated(self) -> Sequence[JournalEntry]:
        """Record what the rules did to the knowledge files: for the activity log, after the loop has ended."""
        event, self._curated = sum_up_steps(self._curated), []
        if event is None:
            return ()
        session, at = self._session, self._session.last_at  # what is done afterwards makes no session last longer
        entry = JournalEntry(session.seq + 1, at, event)
        self._journal.append(session.id, session.seq, [event], at)
        apply_event(session, entry)
        self._context.memory.remember((), JournalMark(session.id, session.seq))  # else it counts as not saved yet
        return (entry,)

    async def catch_up(self) -> None:
        """Save sessions that an earlier process did not, before this one continues: its planner should know of them."""
        await self._try(self._catch_up)

    async def _try(self, act: Callable[[], Remembered]) -> None:
        try:
            done = await asyncio.to_thread(act)
            self._curated += done.curated
            warning = done.warning
        except WorldError as error:
            warning = f"this session could not be saved to memory; it continues: {error}"
        if warning and not self._warned:
            self._warned = True
            self._warn(warning)

    def _build_saving(self, session: Session) -> Callable[[], Remembered]:
        """Return what saves the session as it is now."""
        records = build_records(session, failure_notes=self._context.settings.beads.include_failure_notes)
        mark, evidence = JournalMark(session.id, session.seq), _collect_evidence(session)
        trials, edits, origin = tuple(list_trials(session)), list_approved_edits(session), build_edit_origin(session)
        return lambda: self._context.memory.remember(
            [self._add_evidence(each, evidence) for each in records],
            mark,
            trials,
            lambda lessons: make_edits(lessons, edits, origin),
        )

    def _catch_up(self) -> Remembered:
        marks = [mark for mark in self._context.memory.list_marks() if mark.session != self._session.id]
        behind = [self._load(mark.session) for mark in marks if self._journal.find_last_seq(mark.session) > mark.seq]
        done = [self._build_saving(past)() for past in behind if past is not None]
        warning = next((each.warning for each in done if each.warning), "")
        return Remembered(warning=warning, curated=tuple(step for each in done for step in each.curated))

    def _load(self, name: str) -> Session | None:
        try:
            return replay(self._journal.read_events(name))
        except (JournalError, InternalError):  # written by another version: only that session is skipped
            return None

    def _add_evidence(self, record: MemoryRecord, evidence: Evidence) -> MemoryRecord:
        if isinstance(record, TaskResult | TaskFailure):
            spans, agents = evidence.get(record.origin.task, (("", ""), ()))
            files = self._list_changed(*spans) if spans[1] else ()
            record = replace(record, origin=replace(record.origin, files=files or record.origin.files))
            if isinstance(record, TaskFailure) and self._context.settings.beads.include_failure_notes:
                return replace(record, audit=tuple(self._list_refused(agents)))
        return record

    def _list_changed(self, base: str, tip: str) -> tuple[str, ...]:
        """Files that a result changed; empty when git no longer has its commits."""
        if (base, tip) not in self._files:
            try:
                found = [path for change in list_changes(self._context.repo, base, tip) for path in change.paths]
            except WorldError:
                found = []
            self._files[base, tip] = tuple(shorten_line(path, MAX_TITLE_CHARS) for path in dict.fromkeys(found))[
                :MAX_FILES
            ]
        return self._files[base, tip]

    def _list_refused(self, agents: Sequence[str]) -> list[str]:
        """The newest calls of the task's agents that the watcher refused."""
        refused = [
            line for agent in agents for line in read_audit(self._context.paths.audit(agent)).lines if not line.allowed
        ]
        calls = [line for line in refused if line.rule != "canary"]
        return [
            clean_note(f"{line.rule}: {line.tool} {line.target}", MAX_TITLE_CHARS) for line in calls[-MAX_REFUSALS:]
        ]


Evidence = dict[str, tuple[tuple[str, str], tuple[str, ...]]]
"""For each task the base and tip of its result, and the agents that worked on it."""


def _collect_evidence(session: Session) -> Evidence:
    agents: dict[str, list[str]] = {}
    for record in session.attempts.values():
        if record.attempt.duty is Duty.MAKE:
            agents.setdefault(record.attempt.subject, []).append(record.attempt.agent_id)
    return {
        name: ((record.result.base, record.result.sha) if record.result else ("", ""), tuple(agents.get(name, ())))
        for name, record in session.tasks.items()
    }


def _count_ended(session: Session) -> int:
    return len(session.list_in_state(TaskState.MERGED, TaskState.FAILED))


def _is_saving_moment(recorded: JournalEntry, settings: Settings) -> bool:
    """Whether to save: at start, stop and end, when the budget is used up, and after each cycle if configured."""
    event = recorded.event
    if isinstance(event, CycleEnded):
        return settings.beads.archive_after_wave
    if isinstance(event, GateOpened):
        return event.gate.kind is GateKind.BUDGET
    return isinstance(event, SAVING_EVENTS)


@asynccontextmanager
async def run_memory_writer(
    context: SessionContext, journal: Journal, session: Session, warn: Callable[[str], None], log: See
) -> AsyncIterator[MemoryWriter]:
    """The session is saved when the block ends, also by an error. `log` sees what curation did then."""
    writer = MemoryWriter(context, journal, session, warn)
    await writer.catch_up()
    keeping_up = asyncio.create_task(writer.keep_up())
    reliable = True
    try:
        yield writer
    except JournalError:  # then the session may be ahead of the journal
        reliable = False
        raise
    finally:
        writer.leave(save=reliable)
        await keeping_up
        if reliable:
            with suppress(WorldError, JournalError):  # it is only a line of the log
                log(session, writer.record_curated())
