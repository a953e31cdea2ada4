"""How far the confidence of reviewers can be trusted: each one beside what became of the work that it passed.

A verdict that fails a result says nothing about its chance to be right that can be checked later: only those that pass
count. Work is right when it landed and stayed; it was wrong when a later reviewer or a person refused it, when checks
were red after the merge, or when it was undone. Work that is still under way is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from itertools import pairwise

from blueflame.lazy_dataclass import dataclass
from blueflame.model import event as happened
from blueflame.model.event import JournalEntry

BOUNDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of the steps of the curve; each takes its lower bound, the last one also its upper."""
MAX_SESSIONS = 500
"""The newest ones count: models change."""
ENOUGH = 20
"""Fewer outcomes than this say little."""


KINDS: tuple[type[happened.Event], ...] = (
    happened.AttemptIntended,
    happened.VerdictGiven,
    happened.ChangesetsFormed,
    happened.ChangesetTrimmed,
    happened.ChangesetJudged,
    happened.Landed,
    happened.LandingUndone,
)
"""The events that are looked at."""


class Fate(StrEnum):
    """What became of a result that a reviewer passed."""

    LANDED = "landed"
    REFUSED = "refused by another reviewer"
    REJECTED = "rejected by a person"
    RED = "red after the merge"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    role: str
    model: str
    confidence: float
    fate: Fate

    @property
    def right(self) -> bool:
        return self.fate is Fate.LANDED


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveStep:
    """Judgements of nearly the same confidence."""

    low: float
    high: float
    count: int
    confidence: float  # mean
    right: float  # share

    @property
    def is_enough(self) -> bool:
        return self.count >= ENOUGH


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRow:
    role: str
    model: str
    fates: Mapping[Fate, int]
    confidence: float  # mean
    right: float  # share
    brier: float  # mean square of the difference; 0 is perfect, 0.25 is what a constant 0.5 gets
    curve: tuple[CurveStep, ...]

    @property
    def count(self) -> int:
        return sum(self.fates.values())

    @property
    def gap(self) -> float:
        """Above 0: surer than it should be."""
        return self.confidence - self.right

    @property
    def is_enough(self) -> bool:
        return self.count >= ENOUGH


def build_calibration(sessions: Iterable[Sequence[JournalEntry]]) -> tuple[CalibrationRow, ...]:
    """Build a row for each role and model, those with the most judgements first."""
    by_agent: dict[tuple[str, str], list[Judgement]] = {}
    for events in sessions:
        for each in list_judgements(events):
            by_agent.setdefault((each.role, each.model), []).append(each)
    rows = (_build_row(role, model, judged) for (role, model), judged in by_agent.items())
    return tuple(sorted(rows, key=lambda row: (-row.count, row.role, row.model)))


def list_judgements(events: Sequence[JournalEntry]) -> Iterator[Judgement]:
    """The confident passes of one session whose work came to an end."""
    scan = _SessionScan()
    for recorded in events:
        scan.add(recorded.event)
    for given in scan.passes:
        if given.fate is not None:
            role, model = given.agent
            yield Judgement(role=role, model=model, confidence=given.confidence, fate=given.fate)


def _build_row(role: str, model: str, judged: Sequence[Judgement]) -> CalibrationRow:
    return CalibrationRow(
        role=role,
        model=model,
        fates={fate: found for fate in Fate if (found := sum(each.fate is fate for each in judged))},
        confidence=_mean([each.confidence for each in judged]),
        right=_mean([each.right for each in judged]),
        brier=_mean([(each.confidence - each.right) ** 2 for each in judged]),
        curve=tuple(_build_curve(judged)),
    )


def _build_curve(judged: Sequence[Judgement]) -> Iterator[CurveStep]:
    for low, high in pairwise(BOUNDS):
        inside = [each for each in judged if low <= each.confidence < high or each.confidence == high == BOUNDS[-1]]
        if inside:
            yield CurveStep(
                low=low,
                high=high,
                count=len(inside),
                confidence=_mean([each.confidence for each in inside]),
                right=_mean([each.right for each in inside]),
            )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@dataclass(slots=True)
class _Pass:
    agent: tuple[str, str]
    sha: str
    confidence: float
    fate: Fate | None = None  # None while the work is under way


@dataclass(slots=True)
class _SessionScan:
    """Follows each confident pass to the end of the result it judged."""

    agents: dict[str, tuple[str, str]] = field(default_factory=dict)
    current: dict[str, list[_Pass]] = field(default_factory=dict)  # by task: passes whose work may still land
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    passes: list[_Pass] = field(default_factory=list)

    def add(self, event: happened.Event) -> None:
        match event:
            case happened.AttemptIntended(attempt=attempt):
                self.agents[attempt.agent_id] = (attempt.role, attempt.model)
            case happened.VerdictGiven():
                self._add_verdict(event)
            case happened.ChangesetsFormed(changesets=formed):
                self.members |= {each.id: each.tasks for each in formed}
            case happened.ChangesetTrimmed(tasks=tasks):
                self._settle(tasks, Fate.RED)
            case happened.ChangesetJudged(changeset=changeset, choice="reject"):
                self._settle(self.members.get(changeset, ()), Fate.REJECTED)
            case happened.Landed(changeset=changeset):
                self._settle(self.members.get(changeset, ()), Fate.LANDED)
            case happened.LandingUndone(changeset=changeset):
                self._settle(self.members.get(changeset, ()), Fate.UNDONE)

    def _add_verdict(self, event: happened.VerdictGiven) -> None:
        verdict = event.verdict
        open_passes = self.current.setdefault(event.task, [])
        if not verdict.passed:
            for refused in (each for each in open_passes if each.sha == event.sha):
                refused.fate = Fate.REFUSED
            open_passes[:] = [each for each in open_passes if each.sha != event.sha]
        elif verdict.confidence is not None and (agent := self.agents.get(verdict.by)):
            given = _Pass(agent, event.sha, verdict.confidence)
            open_passes.append(given)
            self.passes.append(given)

    def _settle(self, tasks: Iterable[str], fate: Fate) -> None:
        for task in tasks:
            for given in self.current.get(task, ()):
                given.fate = fate
            if fate in (Fate.RED, Fate.REJECTED):  # what is passed next is another result
                self.current.pop(task, None)
