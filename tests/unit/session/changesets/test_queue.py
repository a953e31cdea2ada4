"""Whose turn it is in the merge queue, and what becomes of a changeset that cannot land as it is."""

from __future__ import annotations

from dataclasses import replace

from blueflame.model.attempt import MERGER, Attempt, Duty, Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import ChangesetConflicted, ChangesetEvicted, ChangesetTrimmed, Landed
from blueflame.model.limits import Limits
from blueflame.model.task import Task
from blueflame.model.workflow import Workflow
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import Simulation, simulate_session

FLOW = Workflow(stages=("plan", "work", "check", "merge"))


def tasks(*groups: str) -> tuple[Task, ...]:
    return tuple(
        Task(id=f"task-{n:03d}", title=f"thing {n}", description="", cohesion_group=group, file_locks=(f"src/{n}",))
        for n, group in enumerate(groups, start=1)
    )


class Clash(SimulatedOutcomes):
    """One task never merges by itself; a merger may or may not bring it in."""

    def __init__(
        self, plan: tuple[Task, ...], odd: str, *, resolves: bool = True, ending: Ending = Ending.PASSED
    ) -> None:
        super().__init__(plan)
        self.odd, self.resolves, self.last = odd, resolves, ending

    def find_conflict(self, _changeset: str, _base: str, among: tuple[str, ...], resolved: int) -> str:
        return self.odd if self.odd in among and not resolved else ""

    def pick_ending(self, attempt: Attempt) -> Ending:
        return self.last if attempt.role == MERGER else Ending.PASSED

    def approves(self, attempt: Attempt) -> bool:
        return self.resolves or attempt.role != MERGER

    def pick_minutes(self, attempt: Attempt) -> float:
        return 10.0 if attempt.role == MERGER else 1.0


def landings(world: Simulation) -> list[str]:
    return [each.event.changeset for each in world.journal if isinstance(each.event, Landed)]


def test_a_changeset_that_waits_for_a_merger_lets_others_land_first() -> None:
    world = simulate_session(Clash(tasks("a", "b", "c"), "task-001"), workflow=FLOW)
    assert landings(world) == ["cs-002", "cs-003", "cs-001"]
    assert world.session.outcome == "completed"


def test_who_builds_on_one_in_conflict_waits_with_it() -> None:
    first, second, third = tasks("a", "b", "c")
    leaning = replace(second, dependencies=(first.id,))
    world = simulate_session(Clash((first, leaning, third), first.id), workflow=FLOW)
    assert landings(world) == ["cs-003", "cs-001", "cs-002"]
    assert world.session.outcome == "completed"


def test_a_merger_that_refuses_or_fails_sends_the_task_back_once_and_costs_no_other_anything() -> None:
    for ending in (Ending.PASSED, Ending.FAILED, Ending.POSTCHECK, Ending.SETUP):
        outcomes = Clash(tasks("a", "a"), "task-002", resolves=False, ending=ending)
        world = simulate_session(outcomes, workflow=FLOW, limits=Limits(max_cycles=1))
        trimmed = [each.event for each in world.journal if isinstance(each.event, ChangesetTrimmed)]
        assert [event.tasks for event in trimmed] == [("task-002",)]
        assert landings(world) == ["cs-001"]
        assert world.session.changesets["cs-001"].changeset.tasks == ("task-001",)


def test_a_merger_that_vanishes_is_sent_again() -> None:
    class Vanishing(Clash):
        def pick_ending(self, attempt: Attempt) -> Ending:
            return Ending.LOST if attempt.role == MERGER and attempt.n == 1 else Ending.PASSED

    world = simulate_session(Vanishing(tasks("a"), "task-001"), workflow=FLOW)
    assert world.session.attempts_on["cs-001", MERGER] == 2
    assert landings(world) == ["cs-001"]


def test_a_merger_that_vanished_is_no_try_when_the_base_moves_under_the_next_one() -> None:
    class Moving(Clash):
        def find_conflict(self, _changeset: str, _base: str, among: tuple[str, ...], resolved: int) -> str:
            return self.odd if self.odd in among and resolved < 2 else ""

        def pick_ending(self, attempt: Attempt) -> Ending:
            return Ending.LOST if attempt.role == MERGER and attempt.n == 1 else Ending.PASSED

    world = simulate_session(Moving(tasks("a"), "task-001"), workflow=FLOW)
    assert landings(world) == ["cs-001"]


def test_mergers_are_not_asked_for_ever() -> None:
    class Never(Clash):
        def find_conflict(self, _changeset: str, _base: str, among: tuple[str, ...], _resolved: int) -> str:
            return self.odd if self.odd in among else ""

    world = simulate_session(Never(tasks("a"), "task-001"), workflow=FLOW, limits=Limits(max_cycles=1))
    asked = [each.event for each in world.journal if isinstance(each.event, ChangesetConflicted)]
    evicted = [each.event for each in world.journal if isinstance(each.event, ChangesetEvicted)]
    assert (len(asked), len(evicted)) == (2, 1)
    assert world.session.changesets["cs-001"].state is ChangesetState.EVICTED


def test_without_a_merger_in_the_configuration_the_task_goes_back_at_once() -> None:
    limits = Limits(on_conflict="requeue", max_cycles=1)
    world = simulate_session(Clash(tasks("a", "a", "a"), "task-002"), workflow=FLOW, limits=limits)
    assert world.session.count_running(Duty.MERGE) == 0
    assert world.session.changesets["cs-001"].changeset.tasks == ("task-001", "task-003")
    assert landings(world) == ["cs-001"]
