from __future__ import annotations

import json
from typing import Any

import pytest

from blueflame.model.attempt import Attempt, AttemptOutcome, AttemptRecord, Ending
from blueflame.model.changeset import Build, Changeset, ChangesetRecord, FileChange
from blueflame.model.limits import Hook
from blueflame.model.spend import Spend
from blueflame.model.task import Result, Task, TaskRecord, TaskState
from blueflame.model.verdict import Violation
from blueflame.session.replay import open_session
from blueflame.session.state import HookDue, Session
from blueflame.session.user_hooks import build_payload, has_vetoed
from blueflame.testing.simulation import build_opening

TASK = Task(id="task-001", title="Вход", description="d", dependencies=("task-000",), file_locks=("src/",))
CHANGESET = Changeset(
    id="cs-1", cycle=2, group="auth", title="Вход", tasks=("task-001", "task-002"), missing=("task-003",)
)
BUILD = Build(base="b", commit="c", files=(FileChange(path="src/вход.py", added=3, deleted=1),))


def build_session(record: TaskRecord) -> Session:
    session = open_session(build_opening(request='add "login"'))
    session.cycle, session.tasks = 2, {record.task.id: record}
    session.changesets = {"cs-1": ChangesetRecord(changeset=CHANGESET, build=BUILD)}
    return session


def build_hook_payload(hook: Hook, record: TaskRecord, subject: str = "task-001") -> dict[str, Any]:
    return build_payload(build_session(record), HookDue(hook.value, f"{hook.value}:1", subject))


def test_every_payload_tells_the_occasion_and_survives_json() -> None:
    for hook in Hook:
        subject = "cs-1" if hook is Hook.POST_MERGE else "task-001"
        payload = build_hook_payload(hook, TaskRecord(task=TASK), subject)
        assert payload["hook"] == hook.value
        common = {"schema_version": 1, "session": "ses-20261115-120000", "cycle": 2, "project": "simulated"}
        assert (
            common | {"request": 'add "login"', "base_branch": "main", "base_sha": "base"}
        ).items() <= payload.items()
        assert json.loads(json.dumps(payload)) == payload


def test_post_plan_tells_each_task_as_planned() -> None:
    (reported,) = build_hook_payload(Hook.POST_PLAN, TaskRecord(task=TASK))["tasks"]
    assert reported == {
        "id": "task-001",
        "title": "Вход",
        "description": "d",
        "priority": 3,
        "cohesion_group": "main",
        "dependencies": ["task-000"],
        "file_locks": ["src/"],
        "workflow": None,
        "model": None,
        "validator_model": None,
    }


def test_pre_validation_names_the_commits_that_will_be_judged() -> None:
    record = TaskRecord(task=TASK, state=TaskState.DONE, result=Result(sha="c" * 40, base="b" * 40), attempts=2)
    (reported,) = build_hook_payload(Hook.PRE_VALIDATION, record)["tasks"]
    assert (reported["state"], reported["sha"], reported["base"], reported["attempts"]) == (
        "done",
        "c" * 40,
        "b" * 40,
        2,
    )


def test_post_merge_tells_what_landed() -> None:
    landed = build_hook_payload(Hook.POST_MERGE, TaskRecord(task=TASK), "cs-1")["changeset"]
    assert landed == {
        "id": "cs-1",
        "group": "auth",
        "title": "Вход",
        "tasks": ["task-001", "task-002"],
        "missing": ["task-003"],
        "before": "b",
        "after": "c",
        "files": [{"path": "src/вход.py", "added": 3, "deleted": 1}],
    }


def test_on_failure_tells_why() -> None:
    ended = AttemptOutcome(
        ending=Ending.POSTCHECK,
        exit_code=0,
        violations=(Violation(rule="blocked_path_modified", path=".env", detail="added"),),
        spend=Spend(micro_usd=1_500_000, input_tokens=10, output_tokens=5),
    )
    record = TaskRecord(task=TASK, state=TaskState.FAILED, reason="retries are used up")
    session = build_session(record)
    attempt = Attempt(id="a.1", session=session.id, subject="task-001", role="worker", n=1, agent_id="worker-1")
    session.attempts[attempt.id] = AttemptRecord(attempt=attempt, intended_at=0.0, ended=ended)
    session.last_work["task-001"] = attempt.id
    reported = build_payload(session, HookDue("on_failure", "on_failure:task-001", "task-001"))
    assert (reported["task"]["state"], reported["task"]["reason"]) == ("failed", "retries are used up")
    assert reported["attempt"]["ending"] == "postcheck"
    assert reported["attempt"]["violations"] == [
        {"rule": "blocked_path_modified", "path": ".env", "detail": "added", "line": None}
    ]
    assert (reported["attempt"]["cost_usd"], reported["attempt"]["tokens"]) == (1.5, 15)


@pytest.mark.parametrize("hook", Hook)
def test_only_pre_validation_can_veto_and_silence_is_a_veto(hook: Hook) -> None:
    may = hook is Hook.PRE_VALIDATION
    assert has_vetoed(hook, exit_code=0, timed_out=False) is False
    assert has_vetoed(hook, exit_code=1, timed_out=False) is may
    assert has_vetoed(hook, exit_code=0, timed_out=True) is may
