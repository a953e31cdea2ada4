"""Plans: what planners make of a request, what is wrong with it, and what a person does about that."""

from __future__ import annotations

import json

import pytest

from blueflame.documents.plans import read_plan
from blueflame.model.errors import PlanError
from blueflame.model.event import AttemptIntended, CycleStarted, PlanApproved
from blueflame.model.gate import Gate
from blueflame.model.hand_off import HandOffStatus
from blueflame.orchestrator.sessions import open_journal
from blueflame.session.accounts import forecast_cost
from blueflame.session.estimate import estimate_cost
from blueflame.session.hand_offs import list_hand_offs
from blueflame.session.state import Session
from support.sessions import Reply, Stage, plan_of, task, writes


@pytest.mark.parametrize(
    ("planner", "says"),
    [
        ([{"answer": {"steps": ["one"]}}], "tasks"),
        (plan_of(task(1, id="../../etc/passwd")), "../../etc/passwd"),
    ],
)
def test_a_planner_that_fails_twice_leaves_the_plan_to_the_person(stage: Stage, planner: object, says: str) -> None:
    stage.play(planner=planner)
    before = stage.head()
    result = stage.run({"plan": ["quit: not now"]})
    (gate,) = result.answers.asked
    assert "approve" not in [option.name for option in gate.options]
    assert says in " ".join(gate.evidence["problems"])
    assert len(result.of(AttemptIntended)) == 2
    assert (result.session.outcome, result.session.outcome_reason) == ("plan_rejected", "not now")
    assert stage.head() == before
    assert stage.git("status", "--porcelain") == ""
    assert not (stage.root.parent / "etc").exists()


@pytest.mark.verification(9)
def test_a_plan_with_problems_cannot_be_approved(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1, after=[2]), task(2, after=[1]), task(3, locks=["secrets/"])))
    result = stage.run({"plan": ["approve", "quit"]})
    problems = " ".join(result.answers.asked[0].evidence["problems"])
    assert "task-001" in problems
    assert "secrets" in problems
    assert "does not offer" in result.answers.objections[0]
    assert result.session.outcome == "plan_rejected"
    assert result.session.tasks == {}


def test_a_planner_asked_again_is_given_the_notes_and_the_plan_that_was_rejected(stage: Stage) -> None:
    first, second = plan_of(task(1, title="Rewrite everything")), plan_of(task(2), task(3))
    stage.play(planner={"1": first, "*": second})
    result = stage.run({"plan": ["replan: smaller steps, прошу", "approve"]})
    prompt = result.prompt("plan", "planner", 2)
    assert "smaller steps, прошу" in prompt
    assert "Rewrite everything" in prompt
    assert sorted(result.states) == ["task-002", "task-003"]
    assert result.session.outcome == "completed"


@pytest.mark.verification(31)
def test_the_rest_is_planned_again_at_the_end_of_a_cycle(stage: Stage) -> None:
    stage.reconfigure(limits={"max_retries": 0})
    stage.play(
        planner={"1": plan_of(task(1), task(2)), "2": plan_of(task(1), task(3, after=[1]))},
        workers={2: "crasher", 3: writes("src/3.txt", "three")},
    )
    result = stage.run({"session": ["replan: leave two out"]})
    assert result.states == {"task-001": "merged", "task-002": "dropped", "task-003": "merged"}
    assert "leave two out" in result.prompt("plan", "planner", 2)
    assert "task-002" in result.prompt("plan", "planner", 2), "the planner gets the states of the tasks"
    assert result.gates.count("plan") == 1
    assert "plan-2" in result.gates, "a new plan needs approval again"
    assert [event.cycle for event in result.of(CycleStarted)] == [1, 2]
    assert [[task.id for task in event.tasks] for event in result.of(PlanApproved)] == [
        ["task-001", "task-002"],
        ["task-003"],
    ], "what has landed is not done twice"
    assert result.session.tasks["task-001"].attempts == 1
    assert result.session.outcome == "completed"


def test_a_plan_of_ten_thousand_tasks_is_proposed_and_shown(stage: Stage) -> None:
    tasks = [task(n, locks=[f"src/{n % 100}/{n}.txt"], after=[n - 1] if n % 50 != 1 else []) for n in range(1, 10_001)]
    stage.play()
    file = stage.root.parent / "plan.json"
    file.write_text(json.dumps({"tasks": tasks}))
    seen: list[int] = []

    def count(gate: Gate, session: Session) -> str:
        assert session.plan is not None
        seen.append(len(session.plan.tasks))
        return "quit"

    result = stage.run({"plan": [count]}, tasks=read_plan(file))
    assert seen == [10_000]
    assert result.answers.asked[0].evidence["problems"] == []
    assert result.session.outcome == "plan_rejected"


def test_tasks_from_a_file_are_judged_by_the_same_rules(stage: Stage) -> None:
    file = stage.root.parent / "plan.json"
    file.write_text(json.dumps({"tasks": [task(1, id="task-1x")]}))
    with pytest.raises(PlanError, match="task-1x"):
        read_plan(file)
    stage.play(task(1, locks=["elsewhere/"]))
    result = stage.run({"plan": ["quit"]})
    assert "elsewhere" in " ".join(result.answers.asked[0].evidence["problems"])


def test_only_the_plan_is_made_when_no_more_is_asked_for(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)))
    result = stage.run({"plan": ["wait"]}, until=lambda session: session.plan is not None)
    assert not result.session.ended
    assert result.session.plan is not None
    again = stage.resume()
    assert again.session.outcome == "completed"
    assert len([e for e in again.of(AttemptIntended) if e.attempt.role == "planner"]) == 1
    with open_journal(stage.project()) as journal:
        assert journal.find_unfinished() is None


def test_what_was_done_before_a_new_plan_still_counts(stage: Stage) -> None:
    """Its reviews have passed, and what the session costs is compared with an estimate of all its tasks."""
    planned = [task(1, cohesion_group="one"), task(2, cohesion_group="two")]
    stage.play(planner=plan_of(*planned), validators={1: "good", 2: "good"})
    changesets: list[Reply] = ["approve", "reject: it is too long", "approve"]

    result = stage.run({"changeset": changesets, "session": ["replan: once more"]}, workflow="waves")

    assert result.session.outcome == "completed"
    reviews = [each for each in list_hand_offs(result.session, "task-001", "task-002") if each.is_verdict]
    assert [each.status for each in reviews] == [HandOffStatus.COMPLETE] * 3
    tasks = [record.task for record in result.session.tasks.values()]
    assert len(tasks) == 2
    assert forecast_cost(result.events) == estimate_cost(tasks, result.session.limits, result.session.workflow)
