"""User hooks at their four points: their input, and what their result does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.event import AttemptIntended, EnvironmentFailed, HookRan
from support.sessions import Stage, task, writes

ALL = ("post_plan", "pre_validation", "post_merge", "on_failure")


def telling(stage: Stage) -> dict[str, str]:
    """Each hook keeps what it was given on stdin, one line each."""
    folder = stage.root.parent / "said"
    folder.mkdir()
    return {name: f"cat >> '{folder}/{name}'; echo \"$BLUEFLAME_HOOK\" >> '{folder}/order'" for name in ALL}


def said(stage: Stage, name: str) -> list[dict[str, Any]]:
    lines = (stage.root.parent / "said" / name).read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_all_four_hooks_are_called_at_their_moments(stage: Stage) -> None:
    stage.reconfigure(hooks=telling(stage), limits={"max_retries": 0})
    stage.play(task(1), task(2), workers={1: writes("src/1.txt", "one"), 2: "crasher"})
    result = stage.run({"session": ["stop"]})
    (plan,), (ready,), (landed,), (failed,) = (said(stage, name) for name in ALL)
    assert [each["id"] for each in plan["tasks"]] == ["task-001", "task-002"]
    assert [each["id"] for each in ready["tasks"]] == ["task-001"]
    assert landed["changeset"]["after"] == stage.head()
    assert "task-002" in json.dumps(failed)
    assert {payload["session"] for payload in (plan, ready, landed, failed)} == {result.session.id}
    assert sorted({ran.hook for ran in result.of(HookRan)}) == sorted(ALL)
    assert all(ran.exit_code == 0 for ran in result.of(HookRan))


def test_pre_validation_may_veto(stage: Stage) -> None:
    stage.reconfigure(hooks={"pre_validation": "echo 'лицензия не та'; exit 3"})
    stage.play(task(1))
    result = stage.run({"validation": ["drop"]}, workflow="waves")
    assert "лицензия не та" in result.answers.asked[1].evidence["notes"]
    assert not [e for e in result.of(AttemptIntended) if e.attempt.role == "validator"]
    assert result.states == {"task-001": "dropped"}


def test_a_hook_that_hangs_is_ended_and_counts_as_a_veto(stage: Stage) -> None:
    stage.reconfigure(hooks={"pre_validation": "sleep 60", "timeout": "1s"})
    stage.play(task(1))
    result = stage.run({"validation": ["drop"]})
    assert "timed out" in result.answers.asked[1].evidence["notes"]


@pytest.mark.parametrize("fault", [lambda hook: hook.chmod(0o644), Path.unlink], ids=["not executable", "missing"])
def test_a_hook_that_cannot_be_run_vetoes_nothing(stage: Stage, fault: Callable[[Path], None]) -> None:
    hook = stage.root.parent / "hook.sh"

    def put_back(*_: object) -> str:
        hook.write_text("#!/bin/sh\nexit 0\n")
        hook.chmod(0o755)
        return "retry"

    put_back()
    fault(hook)
    stage.reconfigure(hooks={"pre_validation": str(hook)}, limits={"max_retries": 0})
    stage.play(task(1))

    result = stage.run({"environment": [put_back]})

    assert result.states == {"task-001": "merged"}
    assert {event.act for event in result.of(EnvironmentFailed)} == {"hook pre_validation:1"}
    assert [event.exit_code for event in result.of(HookRan)] == [0]
