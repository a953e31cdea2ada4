from __future__ import annotations

import pytest

from blueflame.model.changeset import ChangesetState
from blueflame.model.event import ChangesetsFormed, GateOpened, Landed
from blueflame.model.gate import GateKind
from blueflame.model.limits import Limits
from blueflame.model.task import TaskState
from blueflame.testing.simulation import Simulation, request_proceed
from support.session_examples import BARRIER, FLOW, Outcomes, begun, events, reported, states, task


def formed(world: Simulation) -> list[tuple[str, tuple[str, ...]]]:
    return [(cs.group, cs.tasks) for event in events(world, ChangesetsFormed) for cs in event.changesets]


def shown(world: Simulation) -> list[str]:
    return [event.gate.group for event in events(world, GateOpened) if event.gate.kind is GateKind.CHANGESET]


@pytest.mark.verification(25)
def test_a_group_that_builds_on_another_is_shown_after_it() -> None:
    """T25, MERGE-05, MERGE-07."""
    world = reported(Outcomes(task(1, 2, group="b", priority=1), task(2, group="a")))
    assert shown(world) == ["a", "b"]
    assert [event.changeset for event in events(world, Landed)] == ["cs-001", "cs-002"]


@pytest.mark.verification(25)
def test_groups_in_a_ring_land_as_one() -> None:
    """T25 with D-31: the tasks have no cycle, but the groups do."""
    world = reported(Outcomes(task(1, group="a"), task(2, 1, group="b"), task(3, 2, group="a")))
    assert formed(world) == [("a + b", ("task-001", "task-002", "task-003"))]


def test_overlapping_locks_order_groups_as_dependencies_do() -> None:
    world = reported(Outcomes(task(1, group="b", locks=("src/",)), task(2, group="a", locks=("src/x.py",))))
    assert shown(world) == ["b", "a"]


def test_the_missing_tasks_of_a_group_are_listed() -> None:
    """VAL-10: only what passed goes to merge, and the person is warned."""
    outcomes = Outcomes(task(1), task(2), refused={"task-002.validator.1"}, answers={"changeset": None})
    world = reported(outcomes)
    (gate,) = world.session.open_gates.values()
    assert gate.evidence["tasks"] == ["task-001"]
    assert gate.evidence["missing"] == ["task-002"]


def test_a_changeset_that_was_skipped_goes_before_others_of_its_priority() -> None:
    outcomes = Outcomes(
        task(1, group="a"), task(2, group="b"), answers={"changeset-cs-001": "reject", "changeset-cs-002": "skip"}
    )
    world = reported(outcomes)
    assert [group for group, _tasks in formed(world)] == ["a", "b", "b", "a"]
    assert world.session.outcome == "completed"


def test_a_dropped_member_is_not_missing() -> None:
    outcomes = Outcomes(
        task(1), task(2), refused={"task-002.validator.1"}, answers={"validation": "drop", "changeset": None}
    )
    (gate,) = reported(outcomes).session.open_gates.values()
    assert gate.evidence["missing"] == []


def test_in_flow_a_group_lands_while_another_is_worked_on() -> None:
    world = reported(Outcomes(task(1, group="a"), task(2, group="b"), minutes={"task-002.worker.1": 90}), FLOW)
    landed = [each.at for each in world.journal if isinstance(each.event, Landed)]
    assert landed == [3.0, 92.0]


def test_in_flow_a_group_waits_for_its_own() -> None:
    world = reported(Outcomes(task(1), task(2), minutes={"task-002.worker.1": 90}), FLOW)
    assert formed(world) == [("main", ("task-001", "task-002"))]


def test_in_flow_nothing_lands_before_what_it_was_built_on_is_judged() -> None:
    """The review of 1 takes long; 2 in another group is built on its commit and passes quickly."""
    outcomes = Outcomes(task(1, group="a"), task(2, 1, group="b"), minutes={"task-001.validator.1": 90})
    world = reported(outcomes, FLOW)
    assert formed(world) == [("a", ("task-001",)), ("b", ("task-002",))]
    assert [each.at for each in world.journal if isinstance(each.event, Landed)] == [92.0, 92.0]


def test_in_flow_nothing_lands_that_was_built_on_work_refused_later() -> None:
    outcomes = Outcomes(
        task(1, group="a"),
        task(2, 1, group="b"),
        minutes={"task-001.validator.1": 90},
        refused={"task-001.validator.1"},
        answers={"session": "stop"},
    )
    world = reported(outcomes, FLOW)
    assert states(world) == {"task-001": TaskState.REQUEUED, "task-002": TaskState.DEFERRED}
    assert not events(world, ChangesetsFormed)


def test_proceeding_early_does_not_land_work_built_on_unreviewed_work() -> None:
    """With a barrier: 1 is still reviewed when a person says go on; 2, built on it, has passed."""
    outcomes = Outcomes(task(1), task(2, 1), task(3), minutes={"task-001.validator.1": 90}, answers={"session": "stop"})
    world = begun(outcomes, BARRIER, Limits(validators=3))
    world.send(request_proceed, at=5.0)
    world.run()
    assert formed(world) == [("main", ("task-003",)), ("main", ("task-001", "task-002"))]
    assert world.session.outcome == "completed"


def test_changesets_are_counted_through_all_cycles() -> None:
    world = reported(Outcomes(task(1), answers={"changeset-cs-001": "reject"}))
    assert [(name, record.state) for name, record in world.session.changesets.items()] == [
        ("cs-001", ChangesetState.REJECTED),
        ("cs-002", ChangesetState.LANDED),
    ]
