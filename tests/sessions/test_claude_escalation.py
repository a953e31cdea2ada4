"""A session in which the real Claude Code fails with one model, and lands the work with the next of its ladder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import AttemptEnded, AttemptIntended
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.testing import LoopbackModel
from support.model_scripts import KEY, build_model_script, build_worker_scenario, build_write_turns
from support.real_agents import needs_claude
from support.sessions import LEAN, make_stage, task

pytestmark = [
    needs_claude,
    pytest.mark.real_claude,
    pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox"),
]


@pytest.fixture
def fast_wardens() -> None:
    """Wardens as they are for users."""


def test_the_next_model_of_the_ladder_lands_what_the_first_could_not(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    lean = {**LEAN["lean"], "max_retries": 0, "retry_backoff_base_ms": 50, "escalate": [{"model": "opus"}]}
    stage = make_stage(
        repo,
        sandbox={"level": "standard"},
        roles={name: {"runtime": "claude", "model": "sonnet"} for name in ("planner", "worker", "validator")},
        limits={"kill_grace": "2s", "agent_timeout": "120s"},
        workflows={**LEAN, "lean": lean},
        planning={"workflow": "lean", "interactive": False},
    )
    stage.tasks = [task(1)]
    lands = build_worker_scenario("task-001", *build_write_turns("src/1.txt", "one\n"))
    lands["when"]["model"] = "*opus*"
    gives_up = build_worker_scenario("task-001", {"text": "I cannot do it."})
    with LoopbackModel(build_model_script(lands, gives_up)) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        reported = stage.run()
    endings = [event.ended.ending for event in reported.of(AttemptEnded)]
    assert endings == [Ending.NO_COMMITS, Ending.PASSED]
    tried = [event.attempt for event in reported.of(AttemptIntended)]
    assert [(attempt.model, attempt.rung) for attempt in tried] == [("sonnet", 0), ("opus", 1)]
    assert reported.session.outcome == "completed"
    assert stage.read("src/1.txt") == "one\n"
