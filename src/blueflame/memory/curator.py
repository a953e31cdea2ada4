"""Keep the knowledge files and the store in step: take over what people changed, curate, write, archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from blueflame.knowledge.curate import STALE_COMMITS, Curated, CurationRules, CurationStep, curate_lessons, list_steps
from blueflame.knowledge.history import PastCommit, count_changes
from blueflame.lazy_dataclass import dataclass
from blueflame.memory.knowledge_files import KnowledgeFolder
from blueflame.memory.records import add_effects
from blueflame.memory.store import MemoryStore
from blueflame.model.errors import WorldError
from blueflame.model.memory import Lesson

WRITE_TRIES = 5
BUSY = "a knowledge file was saved again and again while it was to be written; the next session writes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationReport:
    """What curation did, or would do."""

    steps: tuple[CurationStep, ...] = ()
    problems: tuple[str, ...] = ()  # files and entries that cannot be read, with their places
    over_budget: tuple[tuple[str, int], ...] = ()  # files whose own words of a person are more than they may have
    archives: tuple[Path, ...] = ()  # new files


@dataclass(frozen=True, slots=True, kw_only=True)
class Curator:
    store: MemoryStore
    files: KnowledgeFolder
    now: Callable[[], float]
    list_commits: Callable[[], Sequence[PastCommit]] = tuple
    stale_commits: int = STALE_COMMITS

    def pick_up_edits(self) -> tuple[str, ...]:
        """Take over what a person changed in the files; return what cannot be read. Never raises."""
        try:
            if not self.files.has_changed():
                return ()
            with self.files.hold():
                return self.files.pick_up(self.now())
        except WorldError as error:
            return (str(error),)

    def find_problems(self) -> tuple[str, ...]:
        """What cannot be read in the files, with its place. Never raises."""
        problems = self.pick_up_edits()
        try:
            return tuple(dict.fromkeys((*problems, *self.files.list_problems())))
        except WorldError as error:
            return (*problems, str(error))

    def curate(self, *, dry_run: bool = False) -> CurationReport:
        """Apply the rules of curation and write the files; only report what would change in a dry run."""
        with self.files.hold():
            for _ in range(WRITE_TRIES):
                report, lessons, curated = self._plan()
                if dry_run:
                    return report
                changed = [new for new, old in zip(curated.lessons, lessons, strict=True) if new != old]
                self.store.save_records(_drop_counts(changed))
                if self.files.write(_drop_counts(curated.lessons), curated.contradicts):
                    return replace(report, archives=self.files.archive(self.store.list_records(), self.now()))
        return replace(report, problems=(*report.problems, BUSY))

    def _plan(self) -> tuple[CurationReport, Sequence[Lesson], Curated]:
        problems = self.files.pick_up(self.now())
        counted = add_effects(self.store.list_lessons(), self.store.list_effects())
        lessons = [each for each in counted if isinstance(each, Lesson) and each.is_active]
        budgets = {each.file.name: each.file.tokens for each in self.files.read() if each.page is not None}
        rules = CurationRules(stale_commits=self.stale_commits, budgets=budgets)
        curated = curate_lessons(lessons, rules, count_changes(lessons, self.list_commits()))
        over = tuple(curated.over_budget.items())
        report = CurationReport(steps=list_steps(lessons, curated), problems=problems, over_budget=over)
        return report, lessons, curated


def _drop_counts(lessons: Iterable[Lesson]) -> list[Lesson]:
    """The store has the counts of uses apart."""
    return [replace(each, origin=replace(each.origin, used=0, helped=0)) for each in lessons]
