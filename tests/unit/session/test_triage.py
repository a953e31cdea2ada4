"""The size of a request in a session: recorded, remembered, and overridden at the gate."""

from __future__ import annotations

from blueflame.memory.records import build_records
from blueflame.model.event import GateOpened, JournalEntry, PlanApproved, RequestSized
from blueflame.model.memory import SessionSummary
from blueflame.model.sizing import ChosenBy, Sizing, Tier, Triage
from blueflame.model.task import TaskState
from blueflame.session.replay import replay
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import Simulation, build_opening
from support.session_examples import BARRIER, SINGLE, Outcomes, events, states, task

SIZED = RequestSized(
    triage=Triage(
        tier=Tier.PLANNED,
        workflow="waves",
        chosen_by=ChosenBy.UNSURE,
        sizing=Sizing(tier=Tier.PLANNED, confidence=0.4, reasons=("it names no file",), parts=3),
    ),
    one_agent=SINGLE,
)


def play(outcomes: SimulatedOutcomes) -> Simulation:
    history = [build_opening(workflow=BARRIER), JournalEntry(2, 0.0, SIZED)]
    return Simulation(outcomes, history).run()


def list_plan_options(world: Simulation) -> list[str]:
    return [option.name for option in events(world, GateOpened)[0].gate.options]


def test_a_sized_request_can_be_given_to_one_agent_at_the_gate() -> None:
    world = play(Outcomes(task(1), task(2), answers={"plan": "single"}))
    chosen = events(world, RequestSized)[-1]
    assert (chosen.triage.tier, chosen.triage.workflow, chosen.triage.chosen_by) == (2, SINGLE.name, ChosenBy.PERSON)
    (approved,) = events(world, PlanApproved)
    assert [each.description for each in approved.tasks] == ["make it so"]
    assert set(states(world).values()) == {TaskState.MERGED}
    assert {record.attempt.role for record in world.session.attempts.values()} == {"planner", "worker"}


def test_without_a_size_as_in_older_journals_one_agent_is_not_offered() -> None:
    old = Simulation(Outcomes(task(1)), [build_opening(workflow=BARRIER)]).run()
    assert old.session.triage is None
    assert list_plan_options(old) == ["approve", "edit", "replan", "quit"]
    assert "single" in list_plan_options(play(Outcomes(task(1))))


def test_what_was_chosen_is_remembered_for_the_next_request() -> None:
    world = play(Outcomes(task(1), answers={"plan": "single"}))
    summary = next(record for record in build_records(world.session) if isinstance(record, SessionSummary))
    assert (summary.tier, summary.chosen_by) == (Tier.SINGLE, ChosenBy.PERSON)


def test_the_size_is_the_same_after_a_replay() -> None:
    opening = [build_opening(workflow=BARRIER), JournalEntry(2, 0.0, SIZED)]
    assert replay(opening).triage == SIZED.triage
