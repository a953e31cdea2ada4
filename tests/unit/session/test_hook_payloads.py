from __future__ import annotations

import json

import pytest

from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.changeset import Changeset, FileChange
from blueflame.model.spend import Spend
from blueflame.model.task import Result, Task, TaskRecord, TaskState
from blueflame.model.verdict import Violation
from blueflame.session.user_hooks import (
    Hook,
    HookContext,
    build_on_failure_payload,
    build_post_merge_payload,
    build_post_plan_payload,
    build_pre_validation_payload,
    has_vetoed,
)

OCCASION = HookContext(
    session="ses-20260101-000000",
    cycle=2,
    project="пример",
    request='add "login"',
    base_branch="main",
    base_sha="a" * 40,
)
TASK = Task(id="task-001", title="Вход", description="d", dependencies=("task-000",), file_locks=("src/",))
COMMON = {"schema_version": 1, "session": "ses-20260101-000000", "cycle": 2, "project": "пример"}


def test_every_payload_tells_the_occasion_and_survives_json() -> None:
    changeset = Changeset(id="cs-1", cycle=2, group="main", title="t", tasks=("task-001",))
    payloads = {
        Hook.POST_PLAN: build_post_plan_payload(OCCASION, [TASK]),
        Hook.PRE_VALIDATION: build_pre_validation_payload(OCCASION, [TaskRecord(task=TASK)]),
        Hook.POST_MERGE: build_post_merge_payload(OCCASION, changeset, before="b", after="c"),
        Hook.ON_FAILURE: build_on_failure_payload(OCCASION, TaskRecord(task=TASK), None),
    }
    assert set(payloads) == set(Hook)
    for hook, payload in payloads.items():
        assert payload["hook"] == hook.value
        assert COMMON.items() <= payload.items()
        assert json.loads(json.dumps(payload)) == payload


def test_post_plan_tells_each_task_as_planned() -> None:
    (reported,) = build_post_plan_payload(OCCASION, [TASK])["tasks"]
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
    (reported,) = build_pre_validation_payload(OCCASION, [record])["tasks"]
    assert (reported["state"], reported["sha"], reported["base"], reported["attempts"]) == (
        "done",
        "c" * 40,
        "b" * 40,
        2,
    )


def test_post_merge_tells_what_landed() -> None:
    changeset = Changeset(
        id="cs-1", cycle=2, group="auth", title="Вход", tasks=("task-001", "task-002"), missing=("task-003",)
    )
    files = [FileChange(path="src/вход.py", added=3, deleted=1)]
    landed = build_post_merge_payload(OCCASION, changeset, before="b", after="c", files=files)["changeset"]
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
    reported = build_on_failure_payload(OCCASION, record, ended)
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
