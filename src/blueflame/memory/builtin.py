"""The built-in memory: SQLite, knowledge files that people edit, and pages about the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from blueflame.knowledge.curate import STALE_COMMITS, CurationStep, describe_edited
from blueflame.knowledge.effect import UNKNOWN_EFFECT, Trial, measure_effect
from blueflame.knowledge.history import PastCommit
from blueflame.knowledge.selection import Candidate, Choice, choose_for_attempt, choose_for_session
from blueflame.memory.curator import CurationReport, Curator
from blueflame.memory.foreign import ImportReport, name_imported, screen_foreign, screen_own
from blueflame.memory.knowledge_files import KnowledgeFolder
from blueflame.memory.pages import write_pages
from blueflame.memory.provider import (
    EditLessons,
    JournalMark,
    Recalled,
    RecallRequest,
    Remembered,
    edit_nothing,
)
from blueflame.memory.records import add_effects, fade_records
from blueflame.memory.store import MemoryStore
from blueflame.model.errors import MemoryFailed, WorldError
from blueflame.model.memory import Decay, Lesson, MemoryRecord
from blueflame.system.clock import SystemClock

CLOCK = SystemClock()


class BuiltInMemory:
    def __init__(
        self,
        database: Path,
        knowledge: Path,
        decay: Decay,
        *,
        stale_commits: int = STALE_COMMITS,
        list_commits: Callable[[], Sequence[PastCommit]] = tuple,
        now: Callable[[], float] = CLOCK.now,
    ) -> None:
        self.store = MemoryStore(database)
        self.files = KnowledgeFolder(knowledge, self.store)
        self._decay = decay
        self._now = now
        self._curator = Curator(
            store=self.store, files=self.files, now=now, list_commits=list_commits, stale_commits=stale_commits
        )

    def choose(self, request: RecallRequest, others: Sequence[MemoryRecord] = ()) -> Choice:
        """`others`: records that are not in this store."""
        self.pick_up_edits()
        try:
            found = self.store.find_records(request.work)
        except MemoryFailed as error:
            return Choice(note=str(error))
        candidates = [
            Candidate(
                record=record,
                relevance=found.relevance.get(record.key, 0.0),
                age=found.ages.get(record.origin.session, 0),
                effect=found.effects.get(record.key, UNKNOWN_EFFECT),
            )
            for record in (*found.records, *others)
        ]
        return choose_for_attempt(
            candidates, request.work, budget=request.budget, without=request.without, control=request.control
        )

    def choose_shared(self, budget: int) -> tuple[Lesson, ...]:
        self.pick_up_edits()
        try:
            return choose_for_session(self.store.list_lessons(), budget)
        except MemoryFailed:  # the first attempt that asks for its own reports it
            return ()

    def load(self, keys: Sequence[str]) -> Recalled:
        try:
            found = self.store.load_records(keys)
        except MemoryFailed as error:
            return Recalled(note=str(error))
        return Recalled(records=found.records, ages=found.ages)

    def remember(
        self,
        records: Sequence[MemoryRecord],
        mark: JournalMark | None = None,
        trials: Sequence[Trial] = (),
        edit: EditLessons = edit_nothing,
    ) -> Remembered:
        self.pick_up_edits()
        known = self.store.list_lessons()
        accepted, refused = screen_own(records, known, self._now())
        edited = tuple(edit(known))
        changed = self.store.save_records([*accepted, *edited], mark)
        new = self.store.note_refused(refused) if refused else ()
        faded = fade_records(self.store.list_records(), self._decay) if changed else ()
        if faded:
            self.store.save_records(faded)
        if trials and self.store.save_trials(trials):
            self._measure_effects()
            changed += 1
        warnings = [f"not remembered, since {each.reason}: {each.key}" for each in new]
        problems, curated = self._write_files() if changed else ((), ())
        return Remembered(warning="; ".join([*warnings, *problems]), curated=(*map(describe_edited, edited), *curated))

    def _measure_effects(self) -> None:
        trials = self.store.list_trials()
        given = dict.fromkeys(key for each in trials for key in each.lessons)
        records = self.store.load_records(given).records
        self.store.save_effects({record.key: measure_effect(record, trials) for record in records})

    def screen_foreign(self, records: Iterable[MemoryRecord]) -> tuple[MemoryRecord, ...]:
        """Return the records of a mirror that may be used; the others are listed as refused."""
        accepted, refused = screen_foreign(records, self._now())
        if refused:
            self.store.note_refused(refused)
        return tuple(accepted)

    def import_records(self, records: Sequence[MemoryRecord], *, revive: bool) -> ImportReport:
        """Save what comes from elsewhere, under keys of its own, except what is ours already.

        `revive`: also what a person made us forget.
        """
        self.pick_up_edits()
        known = {each.key: each for each in self.store.list_records()}
        gone = frozenset[str]() if revive else self.store.list_forgotten()
        accepted, refused = screen_foreign((each for each in records if each.key not in gone), self._now())
        new = [each for each in name_imported(accepted, known) if each.key not in known and each.key not in gone]
        self.store.note_refused(refused)
        self.store.allow_again([each.key for each in new])
        return ImportReport(new=len(new), refused=tuple(refused), warning=self.remember(new).warning)

    def list_marks(self) -> Sequence[JournalMark]:
        return self.store.list_marks()

    def list_records(self) -> Sequence[MemoryRecord]:
        """With what a person has changed in the files."""
        self.pick_up_edits()
        return add_effects(self.store.list_records(), self.store.list_effects())

    def pick_up_edits(self) -> tuple[str, ...]:
        """Take over what a person changed in the files; return what cannot be read. Never raises."""
        return self._curator.pick_up_edits()

    def find_problems(self) -> tuple[str, ...]:
        """What cannot be read in the files, with its place. Never raises."""
        return self._curator.find_problems()

    def add(self, lesson: Lesson) -> str:
        """Save an entry that a person gives us; return a warning, or ""."""
        self.store.allow_again([lesson.key])
        self.store.save_records([lesson])
        return "; ".join(self._write_files()[0])

    def forget(self, keys: Sequence[str]) -> Sequence[str]:
        self.pick_up_edits()
        gone = self.store.forget(keys)
        self._write_files()
        return gone

    def curate(self, *, dry_run: bool = False) -> CurationReport:
        """Apply the rules of curation and write the files; only report what would change in a dry run."""
        return self._curator.curate(dry_run=dry_run)

    def _write_files(self) -> tuple[Sequence[str], Sequence[CurationStep]]:
        """Return warnings, and what curation did."""
        try:
            report = self.curate()
            write_pages(self.files.folder, add_effects(self.store.list_records(), self.store.list_effects()))
        except WorldError as error:
            return [f"the pages of memory could not be written (nothing is lost): {error}"], ()
        return report.problems, report.steps
