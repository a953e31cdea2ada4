"""Checks and reviewers: exit codes count, a reviewer adds to them, and a person has the last word."""

from __future__ import annotations

from typing import Any

import pytest

from blueflame.model.event import AttemptIntended, Checked, TaskMoved, VerdictGiven
from blueflame.model.gate import Answer, Gate
from blueflame.session.state import Session
from support.sessions import Stage, Told, task, writes

CHECK = "grep -q good src/*.txt || { echo 'ничего хорошего'; exit 3; }"


def checked_by(*commands: str) -> dict[str, Any]:
    return {"validator_diagnostics": {"commands": list(commands)}}


def reviews(told: Told) -> list[str]:
    return [event.attempt.subject for event in told.of(AttemptIntended) if event.attempt.role == "validator"]


@pytest.mark.verification(57)
def test_red_checks_open_a_gate_with_their_output_and_no_reviewer_is_asked(stage: Stage) -> None:
    stage.reconfigure(validation=checked_by("true", CHECK))
    stage.play(task(1), workers={1: {"1": writes("src/1.txt", "bad"), "*": writes("src/1.txt", "good")}})
    told = stage.run({"validation": ["requeue: look again"], "session": ["continue"]}, workflow="waves")
    gate = told.answers.asked[1]
    assert gate.id == "validation-task-001"
    assert "ничего хорошего" in gate.evidence["notes"]
    assert any("exited with 3" in issue for issue in gate.evidence["issues"])
    assert reviews(told) == ["task-001"], "only the second result was fit to be reviewed"
    assert "ничего хорошего" in told.prompt("task-001", n=2)
    assert "look again" in told.prompt("task-001", n=2)
    assert [check.exit_code for check in told.of(Checked)[0].checks] == [0, 3]
    assert told.session.outcome == "completed"


@pytest.mark.verification(56)
def test_a_reviewer_sees_the_diff_and_what_the_checks_showed(stage: Stage) -> None:
    stage.reconfigure(validation=checked_by(CHECK))
    stage.play(task(1), workers={1: writes("src/1.txt", "a good line")})
    told = stage.run(workflow="waves")
    prompt = told.prompt("task-001", "validator")
    assert "+a good line" in prompt
    assert "grep -q good" in prompt
    assert told.states == {"task-001": "merged"}


@pytest.mark.parametrize(("choice", "state"), [("requeue", "merged"), ("drop", "dropped")])
def test_a_failed_review_goes_to_a_person(stage: Stage, choice: str, state: str) -> None:
    fails = {"1": [{"verdict": {"status": "fail", "notes": "no tests", "issues": ["untested"]}}]}
    stage.play(task(1), task(2, after=[1]), validators={1: fails})
    told = stage.run({"validation": [choice], "session": ["continue", "stop"]}, workflow="waves")
    assert told.states["task-001"] == state
    assert "no tests" in told.answers.asked[1].evidence["notes"]
    if choice == "requeue":
        assert "no tests" in told.prompt("task-001", n=2)
        assert told.states["task-002"] == "merged"
    else:
        assert told.states["task-002"] == "blocked", "what it was built on is gone for good"


def test_a_task_edited_at_the_validation_gate_is_done_as_edited(stage: Stage) -> None:
    def edit(gate: Gate, session: Session) -> Answer:
        old = session.tasks["task-001"].task
        new = {name: getattr(old, name) for name in ("id", "title", "priority", "cohesion_group")}
        edited = {**new, "description": "Do it properly.", "file_locks": ["src/new.txt"], "dependencies": []}
        return Answer(choice="edit", payload={"tasks": [edited]}, by="test")

    stage.play(
        task(1),
        workers={1: {"1": writes("src/1.txt", "one"), "*": writes("src/new.txt", "new")}},
        validators={1: {"1": [{"verdict": "fail"}]}},
    )
    told = stage.run({"validation": [edit], "session": ["continue"]}, workflow="waves")
    assert told.session.outcome == "completed"
    assert "Do it properly." in told.prompt("task-001", n=2)
    assert stage.files()[-1] == "src/new.txt"
    assert "src/1.txt" not in stage.files()


@pytest.mark.parametrize("policy", ["requeue", "drop"])
def test_a_policy_can_answer_for_the_person(stage: Stage, policy: str) -> None:
    stage.reconfigure(gates={"on_validation_failed": policy})
    stage.play(task(1), validators={1: {"1": [{"verdict": "fail"}]}})
    told = stage.run({"session": ["continue"]}, workflow="waves")
    assert not any(gate.startswith("validation") for gate in told.gates)
    assert told.states == {"task-001": "merged" if policy == "requeue" else "dropped"}


@pytest.mark.verification(21)
@pytest.mark.parametrize(
    ("choice", "states", "workers"),
    [("accept", "merged", 1), ("retry", "merged", 2), ("skip", "failed", 1)],
)
def test_a_validator_that_fails_twice_is_escalated(stage: Stage, choice: str, states: str, workers: int) -> None:
    stage.play(task(1), validators={1: {"1": "crasher", "2": "liar"}})
    session = {"retry": ["continue"], "skip": ["stop"]}.get(choice, [])
    told = stage.run({"validator": [choice], "session": session}, workflow="waves")
    assert told.gates[1] == "validator-task-001"
    assert "2 times" in told.answers.asked[1].title
    assert told.states == {"task-001": states}
    assert told.session.tasks["task-001"].attempts == workers
    assert reviews(told).count("task-001") == (3 if choice == "retry" else 2)


def test_a_verdict_that_breaks_its_form_is_no_verdict(stage: Stage) -> None:
    answer = {"status": "maybe", "notes": "who knows"}
    stage.play(task(1), validators={1: {"1": [{"answer": answer}], "2": [{"answer": "looks good to me"}]}})
    told = stage.run({"validator": ["accept"]}, workflow="waves")
    assert [verdict.verdict.by for verdict in told.of(VerdictGiven)] == ["test"]
    assert told.states == {"task-001": "merged"}


def test_red_checks_on_the_combined_tree_evict_the_changeset(stage: Stage) -> None:
    """Each is green by itself; together they break the rule that there is one file only."""
    stage.reconfigure(validation=checked_by("test $(ls src/*.txt | wc -l) -le 1 || { echo too many; exit 1; }"))
    stage.play(task(1, cohesion_group="a"), task(2, cohesion_group="b"))
    told = stage.run({"session": ["stop"]})
    assert told.states == {"task-001": "merged", "task-002": "requeued"}
    assert "too many" in told.session.tasks["task-002"].history[-1].notes
    assert stage.read("src/1.txt")
    assert "src/2.txt" not in stage.files()


def test_a_setup_that_fails_before_the_checks_is_a_red_check(stage: Stage) -> None:
    setup = ["test ! -e src/1.txt || { echo cannot set up; exit 4; }"]
    stage.reconfigure(worktree={"setup": setup}, validation=checked_by("true"))
    stage.play(task(1))
    told = stage.run({"validation": ["drop"]})
    assert "cannot set up" in told.answers.asked[1].evidence["notes"]
    assert told.states == {"task-001": "dropped"}


def test_a_check_that_takes_too_long_is_red(stage: Stage) -> None:
    diagnostics = {"commands": ["echo waiting; sleep 60"], "timeout": "1s"}
    stage.reconfigure(validation={"validator_diagnostics": diagnostics})
    stage.play(task(1))
    told = stage.run({"validation": ["drop"]})
    assert any("ran out of time" in issue for issue in told.answers.asked[1].evidence["issues"])


def test_work_on_a_result_that_was_sent_back_is_not_landed(stage: Stage) -> None:
    stage.play(task(1), task(2, after=[1]), validators={1: {"1": [{"verdict": "fail"}]}})
    told = stage.run({"validation": ["requeue"], "session": ["continue"]}, workflow="waves")
    assert told.session.outcome == "completed"
    assert told.session.tasks["task-002"].attempts == 2, "it was built on a commit that fell"
    moves = [moved.cause.value for moved in told.of(TaskMoved) if moved.task == "task-002"]
    assert "defer" in moves
