"""The size of a request in a session: recorded, remembered, and overridden at the gate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.memory.records import build_records
from blueflame.model.attempt import PLAN_SUBJECT, SIZE_SUBJECT, Attempt, Ending
from blueflame.model.event import GateOpened, JournalEntry, PlanApproved, RequestSized
from blueflame.model.limits import Limits
from blueflame.model.memory import SessionSummary
from blueflame.model.sizing import ChosenBy, SizeAnswer, Sizing, Tier, Triage
from blueflame.model.task import TaskState
from blueflame.model.workflow import Workflow, build_stages
from blueflame.session.clarifications import count_questions_left
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


DIRECT = Workflow(name="direct", stages=SINGLE.stages, steps=build_stages(SINGLE.stages, maker="lead"))
ASKING = replace(SIZED, workflow=BARRIER.add_sizing("triager"), direct=DIRECT)


class Sized(Outcomes):
    def __init__(self, size: Tier, **more: object) -> None:
        super().__init__(task(1), task(2), **more)  # type: ignore[arg-type]
        self.size = size

    def pick_size(self, _attempt: Attempt) -> SizeAnswer:
        return SizeAnswer(tier=self.size, reason="one function")


def ask(outcomes: Outcomes, sized: RequestSized = ASKING) -> Simulation:
    return Simulation(outcomes, [build_opening(workflow=BARRIER), JournalEntry(2, 0.0, sized)]).run()


def list_roles(world: Simulation) -> list[str]:
    return list(dict.fromkeys(record.attempt.role for record in world.session.attempts.values()))


@pytest.mark.parametrize(
    ("size", "workflow", "roles"),
    [
        (Tier.DIRECT, "direct", ["triager", "lead"]),
        (Tier.SINGLE, "single", ["triager", "worker"]),
        (Tier.PLANNED, BARRIER.name, ["triager", "planner", "worker", "validator"]),
    ],
)
def test_an_agent_that_sizes_chooses_how_to_continue(size: Tier, workflow: str, roles: list[str]) -> None:
    world = ask(Sized(size))
    chosen = events(world, RequestSized)[-1].triage
    assert (chosen.tier, chosen.workflow, chosen.chosen_by) == (size, workflow, ChosenBy.AGENT)
    assert chosen.sizing.reasons == ("one function", "it names no file")
    assert list_roles(world) == roles
    assert set(states(world).values()) == {TaskState.MERGED}
    assert ("single" in [each.name for gate in events(world, GateOpened) for each in gate.gate.options]) == (size == 3)


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.TIMEOUT, Ending.BUDGET, Ending.BAD_OUTPUT, Ending.OUTAGE])
def test_a_request_is_planned_when_its_sizing_fails(ending: Ending) -> None:
    world = ask(Sized(Tier.DIRECT, endings={"size.triager.1": ending}))
    chosen = events(world, RequestSized)[-1].triage
    assert (chosen.tier, chosen.chosen_by) == (Tier.PLANNED, ChosenBy.UNSURE)
    assert chosen.sizing.reasons == ("it names no file", ending.value)
    assert [name for name in list_roles(world) if name == "triager"] == ["triager"]
    assert set(states(world).values()) == {TaskState.MERGED}


def test_an_agent_that_sizes_may_not_ask() -> None:
    opening = build_opening(workflow=BARRIER, limits=Limits(max_questions=3))
    session = replay([opening, JournalEntry(2, 0.0, ASKING)])
    assert count_questions_left(session, SIZE_SUBJECT) == 0
    assert count_questions_left(session, PLAN_SUBJECT) == 3


def test_an_agent_that_was_lost_while_it_sized_is_asked_again() -> None:
    world = ask(Sized(Tier.SINGLE, endings={"size.triager.1": Ending.LOST}))
    assert len([record for record in world.session.attempts.values() if record.attempt.role == "triager"]) == 2
    assert events(world, RequestSized)[-1].triage.workflow == "single"


def test_a_workflow_that_cannot_run_here_is_not_chosen() -> None:
    assert events(ask(Sized(Tier.DIRECT), replace(ASKING, direct=None)), RequestSized)[-1].triage.workflow == "single"
    planned = ask(Sized(Tier.SINGLE), replace(ASKING, one_agent=None))
    assert events(planned, RequestSized)[-1].triage.workflow == BARRIER.name
