"""Checks and reviewers: exit codes count, a reviewer adds to them, and a person has the last word."""

from __future__ import annotations

from typing import Any

import pytest

from blueflame.model.event import AttemptIntended, Checked, TaskMoved, VerdictGiven
from blueflame.model.gate import Answer, Gate
from blueflame.session.state import Session
from support.sessions import SessionRun, Stage, task, writes

CHECK = "grep -q good src/*.txt || { echo 'ничего хорошего'; exit 3; }"


def checked_by(*commands: str) -> dict[str, Any]:
    return {"validator_diagnostics": {"commands": list(commands)}}


def reviews(reported: SessionRun) -> list[str]:
    return [event.attempt.subject for event in reported.of(AttemptIntended) if event.attempt.role == "validator"]


@pytest.mark.verification(57)
def test_red_checks_open_a_gate_with_their_output_and_no_reviewer_is_asked(stage: Stage) -> None:
    green_on_base = "! grep -q bad src/*.txt || { echo 'ничего хорошего'; exit 3; }"
    stage.reconfigure(validation=checked_by("true", green_on_base))
    redone = [{"write": {"path": "src/1.txt", "text": "good\n"}}, {"commit": "feat({task}): good"}]
    stage.play(task(1), workers={1: {"1": writes("src/1.txt", "bad"), "*": redone}})
    reported = stage.run({"validation": ["requeue: look again"], "session": ["continue"]}, workflow="waves")
    gate = reported.answers.asked[1]
    assert gate.id == "validation-task-001"
    assert "ничего хорошего" in gate.evidence["notes"]
    assert any("exited with 3" in issue for issue in gate.evidence["issues"])
    assert reviews(reported) == ["task-001"], "only the second result was fit to be reviewed"
    assert "ничего хорошего" in reported.prompt("task-001", n=2)
    assert "look again" in reported.prompt("task-001", n=2)
    assert [check.exit_code for check in reported.of(Checked)[0].checks] == [0, 3]
    assert reported.session.outcome == "completed"


@pytest.mark.verification(56)
def test_a_reviewer_sees_the_diff_and_what_the_checks_showed(stage: Stage) -> None:
    stage.reconfigure(validation=checked_by(CHECK))
    stage.play(task(1), workers={1: writes("src/1.txt", "a good line")})
    reported = stage.run(workflow="waves")
    prompt = reported.prompt("task-001", "validator")
    assert "+a good line" in prompt
    assert "grep -q good" in prompt
    assert reported.states == {"task-001": "merged"}


def test_a_failed_review_goes_to_a_person_and_work_built_on_it_is_done_again(stage: Stage) -> None:
    fails = {"1": [{"verdict": {"status": "fail", "notes": "no tests", "issues": ["untested"]}}]}
    stage.reconfigure(schedule={"dependents": "passed"})
    stage.play(task(1), task(2, after=[1]), validators={1: fails})
    reported = stage.run({"validation": ["requeue"], "session": ["continue"]}, workflow="waves")
    assert "no tests" in reported.answers.asked[1].evidence["notes"]
    assert "no tests" in reported.prompt("task-001", n=2)
    assert reported.states == {"task-001": "merged", "task-002": "merged"}
    assert reported.session.tasks["task-002"].attempts == 2, "it was built on a commit that fell"
    moves = [moved.cause.value for moved in reported.of(TaskMoved) if moved.task == "task-002"]
    assert "defer" in moves


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
    reported = stage.run({"validation": [edit], "session": ["continue"]}, workflow="waves")
    assert reported.session.outcome == "completed"
    assert "Do it properly." in reported.prompt("task-001", n=2)
    assert stage.files()[-1] == "src/new.txt"
    assert "src/1.txt" not in stage.files()


@pytest.mark.verification(21)
def test_a_validator_without_a_valid_verdict_is_asked_twice_and_then_a_person_decides(stage: Stage) -> None:
    answer = {"status": "maybe", "notes": "who knows"}
    stage.play(task(1), validators={1: {"1": [{"answer": answer}], "2": [{"answer": "looks good to me"}]}})
    reported = stage.run({"validator": ["accept"]}, workflow="waves")
    assert reported.gates[1] == "validator-task-001"
    assert "2 times" in reported.answers.asked[1].title
    assert [verdict.verdict.by for verdict in reported.of(VerdictGiven)] == ["test"]
    assert reported.states == {"task-001": "merged"}
    assert reported.session.tasks["task-001"].attempts == 1
    assert reviews(reported) == ["task-001", "task-001"]


def test_red_checks_on_the_combined_tree_evict_the_changeset(stage: Stage) -> None:
    """Each is green by itself; together they break the rule that there is one file only."""
    stage.reconfigure(validation=checked_by("test $(ls src/*.txt | wc -l) -le 1 || { echo too many; exit 1; }"))
    stage.play(task(1, cohesion_group="a"), task(2, cohesion_group="b"))
    reported = stage.run({"session": ["stop"]})
    assert reported.states == {"task-001": "merged", "task-002": "requeued"}
    assert "too many" in reported.session.tasks["task-002"].history[-1].notes
    assert stage.read("src/1.txt")
    assert "src/2.txt" not in stage.files()


def test_a_setup_that_fails_before_the_checks_is_a_red_check(stage: Stage) -> None:
    setup = ["test ! -e src/1.txt || { echo cannot set up; exit 4; }"]
    stage.reconfigure(worktree={"setup": setup}, validation=checked_by("true"))
    stage.play(task(1))
    reported = stage.run({"validation": ["drop"]})
    assert "cannot set up" in reported.answers.asked[1].evidence["notes"]
    assert reported.states == {"task-001": "dropped"}


def test_a_check_that_takes_too_long_is_red(stage: Stage) -> None:
    diagnostics = {"commands": ["echo waiting; test ! -e src/1.txt || sleep 60"], "timeout": "1s"}
    stage.reconfigure(validation={"validator_diagnostics": diagnostics})
    stage.play(task(1))
    reported = stage.run({"validation": ["drop"]})
    assert any("timed out" in issue for issue in reported.answers.asked[1].evidence["issues"])
