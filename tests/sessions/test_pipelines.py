"""Workflows of roles: each stage starts from what the one before made, and people see who did what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blueflame.model.attempt import Ending
from blueflame.model.event import VerdictGiven
from blueflame.model.task import TaskState
from support.sessions import SessionRun, Stage, task, writes

PIPELINE = ["plan", "backend", "review-git", "frontend", "review-git", "a11y"]
ROLES = {
    **{name: {"runtime": "scripted"} for name in ("backend", "frontend", "review-git")},
    "a11y": {"runtime": "scripted", "duty": "judge", "persona": "You are $role of $project: use only the keyboard."},
}
FRONTEND = [{"expect": {"path": "src/1.txt", "contains": "server"}}, *writes("src/1.txt", "page")]
SURE, UNSURE = ({"verdict": {"status": "pass", "notes": "fine", "confidence": n}} for n in (0.9, 0.1))


def prepare(stage: Stage, reviews: Any, **workflow: object) -> None:  # noqa: ANN401 (a part of a script)
    stage.reconfigure(roles=ROLES, workflows={"mine": {"stages": PIPELINE, **workflow}})
    stage.play(task(1))
    parts = {"backend": writes("src/1.txt", "server"), "frontend": FRONTEND, "review-git": reviews, "a11y": [SURE]}
    stage.script.write_text(json.dumps({"schema_version": 1, "tasks": {"task-001": parts}}))


def attempts(reported: SessionRun) -> list[str]:
    return [name.partition(".")[2] for name in reported.session.attempts]


def test_a_task_lands_after_all_stages_and_each_starts_from_the_one_before(stage: Stage) -> None:
    prepare(stage, [SURE], review_threshold=0.8)
    reported = stage.run(workflow="mine")
    assert reported.session.outcome == "completed"
    assert stage.read("src/1.txt").splitlines()[-2:] == ["server", "page"]
    stages = ["backend", "review-git", "frontend", "review-git-2", "a11y"]
    assert attempts(reported) == [f"task-001.{name}.1" for name in stages]
    refs = stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame/attempts").split()
    place = f"refs/blueflame/attempts/{reported.session.id}/task-001"
    assert refs == [f"{place}/backend/1", f"{place}/frontend/1"]
    assert "one after the other: backend, frontend. You are frontend" in reported.prompt("task-001", "frontend")
    assert "+server" in reported.prompt("task-001", "frontend")
    assert "one after the other" in reported.prompt("task-001", "backend")
    second = reported.prompt("task-001", "review-git-2")
    assert "+server" in second, "the whole change of the task is judged"
    assert "+page" in second


def test_a_role_of_the_users_own_needs_only_settings(stage: Stage) -> None:
    prepare(stage, [SURE])
    reported = stage.run(workflow="mine")
    policy = json.loads((reported.folder("task-001", "a11y") / "policy.json").read_text())
    assert (policy["role"], policy["read_only"]) == ("a11y", True)


def test_an_unsure_reviewer_does_not_let_a_task_pass(stage: Stage) -> None:
    prepare(stage, {"1": [UNSURE], "*": [SURE]})
    stage.reconfigure(roles=ROLES, workflows={"mine": {"stages": PIPELINE[:3], "review_threshold": 0.5}})
    reported = stage.run({"validation": ["requeue"], "session": ["continue"]}, workflow="mine")
    assert "the workflow asks for at least 0.5" in reported.answers.asked[1].evidence["notes"]
    assert [event.verdict.status.value for event in reported.of(VerdictGiven)] == ["fail", "pass"]
    assert reported.states == {"task-001": "merged"}


def test_a_session_that_stops_between_two_stages_continues_there(stage: Stage) -> None:
    prepare(stage, [SURE])
    first = stage.run(workflow="mine", until=lambda session: bool(session.states[TaskState.PARTIAL]))
    assert first.states == {"task-001": "partial"}
    reported = stage.resume()
    assert reported.session.outcome == "completed"
    assert [name for name in attempts(reported) if "backend" in name] == ["task-001.backend.1"]


def test_the_settings_of_lead_hold_in_direct(stage: Stage) -> None:
    stage.reconfigure(roles={"lead": {"runtime": "scripted", "tools": ["Read", "Write", "Bash"], "skills": ["calm"]}})
    stage.play(planner="good")
    reported = stage.run(workflow="direct")
    policy = json.loads((reported.folder("task-001", "lead") / "policy.json").read_text())
    assert policy["allowed_tools"] == ["Read", "Write", "Bash"]
    assert policy["skills"] == ["calm"]


def test_full_stack_runs_with_no_configuration_of_its_own(stage: Stage) -> None:
    """The database has nothing to do, the others have; every judge is sure enough for the threshold."""
    names = ("database", "backend", "frontend", "review-git", "qa")
    stage.reconfigure(roles={name: {"runtime": "scripted"} for name in names})
    parts = {
        "database": [{"say": "there is nothing to do"}],
        "backend": writes("src/1.txt", "server"),
        "frontend": FRONTEND,
        "review-git": [SURE],
        "qa": [SURE],
    }
    stage.script.write_text(json.dumps({"schema_version": 1, "tasks": {"task-001": parts}}))
    reported = stage.run(workflow="full_stack")
    assert reported.session.outcome == "completed"
    assert stage.read("src/1.txt").splitlines()[-2:] == ["server", "page"]
    stages = ["database", "backend", "review-git", "frontend", "review-git-2", "qa"]
    assert attempts(reported) == [f"task-001.{name}.1" for name in stages]
    assert reported.session.limits.review_threshold == 0.8
    (idle,) = [each for each in reported.session.attempts.values() if each.attempt.role == "database"]
    assert idle.ended is not None
    assert idle.ended.ending is Ending.NOTHING_TO_DO
    assert idle.worktree is not None
    assert not Path(idle.worktree).exists(), "there is nothing to look at"
    assert [each.stage for each in reported.session.tasks["task-001"].verdicts] == ["review-git", "review-git-2", "qa"]


def test_a_plan_chooses_a_workflow_for_one_task_and_people_see_it(stage: Stage) -> None:
    flow = {"stages": ["plan", "work", "check", "merge"]}
    planning = {"workflow": "mine", "workflows": ["single_verified"], "models": ["opus"]}
    roles = {"build-validator": {"runtime": "scripted"}}
    stage.reconfigure(roles=roles, workflows={"mine": flow}, planning=planning)
    stage.play({**task(1), "workflow": "single_verified", "model": "opus"}, task(2))
    reported = stage.run()
    assert reported.session.outcome == "completed"
    made = [record.attempt for record in reported.session.attempts.values() if record.attempt.subject != "plan"]
    found = sorted((each.subject, each.role, each.model) for each in made)
    assert found == [
        ("task-001", "build-validator", "haiku"),
        ("task-001", "worker", "opus"),
        ("task-002", "worker", "sonnet"),
    ]
