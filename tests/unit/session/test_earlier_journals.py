"""Journals that earlier versions wrote: they are replayed to the same end, and their sessions can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blueflame.journal.codec import decode_event
from blueflame.model.attempt import Attempt, Duty, Ending
from blueflame.model.event import BaseAdopted, BaseLost, JournalEntry, PlanProposed
from blueflame.model.task import Task, TaskState
from blueflame.session.effects import DiagnoseTask
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import Simulation

FILES = sorted((Path(__file__).parent / "journals").glob("before-*.jsonl"))
ENDINGS = {
    "task-001.backend.1": Ending.FAILED,
    "task-001.frontend.1": Ending.CRASHED,
    "task-003.frontend.1": Ending.FAILED,
    "task-003.frontend.2": Ending.TIMEOUT,
    **{f"task-003.lead.{n}": Ending.FAILED for n in range(1, 6)},
    "task-002.worker.1": Ending.FAILED,
    "task-003.validator.1": Ending.TIMEOUT,
    "task-004.worker.1": Ending.LOST,
}


class SameOutcomes(SimulatedOutcomes):
    """What happened in the recorded sessions: failures, a refused review, red checks, a conflict."""

    def __init__(self, plan: tuple[Task, ...], endings: Mapping[str, Ending]) -> None:
        super().__init__(plan)
        self.endings = endings

    def pick_ending(self, attempt: Attempt) -> Ending:
        return self.endings.get(attempt.id.partition(".")[2], Ending.PASSED)

    def approves(self, attempt: Attempt) -> bool:
        return not attempt.id.endswith("task-001.validator.1")

    def is_green(self, effect: DiagnoseTask) -> bool:
        return effect.sha != "task-004@2"

    def find_conflict(self, changeset: str, _base: str, tasks: tuple[str, ...], resolved: int) -> str:
        return tasks[0] if changeset == "cs-002" and not resolved else ""


def load(path: Path) -> tuple[dict[str, Any], list[JournalEntry]]:
    first, *rest = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return first, [JournalEntry(seq, at, decode_event(kind, json.dumps(body))) for seq, at, kind, body in rest]


def summarize(session: Session) -> dict[str, Any]:
    return {
        "outcome": session.outcome,
        "cycle": session.cycle,
        "tasks": {name: [r.state.value, r.attempts, r.retries] for name, r in sorted(session.tasks.items())},
        "landings": list(session.landings),
        "attempts": sorted(session.attempts),
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_journal_of_an_earlier_version_is_replayed_to_the_same_end(path: Path) -> None:
    known, journal = load(path)
    assert summarize(replay(journal)) == known["end"]


def build_outcomes(known: dict[str, Any], journal: list[JournalEntry]) -> SameOutcomes:
    """`endings` of the file, where it has some of its own."""
    plan = next((entry.event.tasks for entry in journal if isinstance(entry.event, PlanProposed)), ())
    own = known.get("endings")
    return SameOutcomes(plan, ENDINGS if own is None else {name: Ending(ending) for name, ending in own.items()})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_session_that_an_earlier_version_left_at_any_point_comes_to_the_same_end(path: Path) -> None:
    known, journal = load(path)
    for length in known["transactions"]:
        resumed = Simulation(build_outcomes(known, journal), journal[:length], agents=4).run()
        assert summarize(resumed.session) == known["end"], f"resumed after event {length}"


def test_attempts_of_earlier_versions_have_the_duty_of_their_role() -> None:
    session = replay(load(next(path for path in FILES if path.stem == "before-stages-waves"))[1])
    duties = {record.attempt.role: record.attempt.duty for record in session.attempts.values()}
    assert duties == {
        "planner": Duty.PLAN,
        "worker": Duty.MAKE,
        "validator": Duty.JUDGE,
        "merger": Duty.MERGE,
    }


def test_attempts_of_earlier_versions_have_no_seat_and_those_of_a_resumed_session_do() -> None:
    known, journal = load(next(path for path in FILES if path.stem == "before-stages-flow"))
    assert not replay(journal).seats
    half = known["transactions"][len(known["transactions"]) // 2]
    resumed = Simulation(build_outcomes(known, journal), journal[:half], agents=4)
    before = set(resumed.session.attempts)
    seats = {name: record.attempt.seat for name, record in resumed.run().session.attempts.items()}
    assert all(bool(seat) == (name not in before) for name, seat in seats.items() if ".task-" in name)


def test_a_model_that_a_plan_chose_before_there_was_a_list_is_kept() -> None:
    known, journal = load(next(path for path in FILES if path.stem == "before-choices-pipeline"))
    for length in known["transactions"]:
        resumed = Simulation(build_outcomes(known, journal), journal[:length], agents=4).run()
        made = [each.attempt for each in resumed.session.attempts.values() if each.attempt.duty is Duty.MAKE]
        assert {each.subject for each in made if each.model == "opus"} == {"task-001"}, f"resumed after event {length}"


def test_a_stage_without_commits_that_an_earlier_version_handed_over_is_shown_as_it_was_recorded() -> None:
    session = replay(load(next(path for path in FILES if path.stem == "before-idle-pipeline"))[1])
    endings = {name.partition(".")[2]: each.ended.ending for name, each in session.attempts.items() if each.ended}
    assert endings["task-001.backend.1"] is Ending.NO_COMMITS
    assert session.tasks["task-001"].state is TaskState.MERGED


def test_a_base_that_was_replaced_before_took_nothing_off() -> None:
    assert decode_event("BaseAdopted", '{"sha": "a"}') == BaseAdopted(sha="a", without=())
    assert decode_event("BaseLost", '{"branch": "main", "expected": "a"}') == BaseLost(branch="main", expected="a")
