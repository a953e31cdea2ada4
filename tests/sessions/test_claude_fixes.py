"""A fix of landed work with the real Claude Code: the hand-off of its author reaches the model of the fix."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.testing import LoopbackModel
from support.command_line import YES, here, trust, write
from support.model_scripts import (
    KEY,
    build_model_script,
    build_reviewer_scenario,
    build_worker_scenario,
    build_write_turns,
)
from support.real_agents import needs_claude
from support.sessions import make_stage, task

pytestmark = [
    needs_claude,
    pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox"),
]
LEFT = {"summary": ["Added the discount"], "learnings": ["Prices are floats here"], "confidence": 0.7}


@pytest.fixture(autouse=True)
def only_our_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@pytest.mark.real_claude
def test_a_fix_of_landed_work_gets_its_history_and_lands(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = make_stage(
        repo,
        sandbox={"level": "standard"},
        roles={name: {"runtime": "claude", "model": "sonnet"} for name in ("planner", "worker", "validator")},
        limits={"kill_grace": "2s", "agent_timeout": "120s", "max_retries": 0},
        planning={"workflow": "waves", "interactive": False},
    )
    stage.tasks = [task(1)]
    *turns, _last = build_write_turns("src/1.txt", "x * 1.1\n")
    made = build_worker_scenario("task-001", *turns, {"text": json.dumps(LEFT)})
    with LoopbackModel(build_model_script(made, build_reviewer_scenario())) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        first = stage.run()
    assert first.session.outcome == "completed"
    assert "Prices are floats here" in first.prompt("task-001", "validator")
    repaired = build_worker_scenario("task-001", *build_write_turns("src/1.txt", "x * 0.9\n"))
    yes = write(repo.parent / "yes.json", {"changeset": YES["changeset"]})
    with LoopbackModel(build_model_script(repaired, build_reviewer_scenario())) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        given = ("--decisions-file", yes, "--json", "--config", trust(stage.config))
        said = here(capsys, "fix", "cs-001", "The discount raises the price", *given)
    assert said.code == 0, said.err
    assert stage.read("src/1.txt") == "x * 0.9\n"
    asked = json.dumps([request.body for request in model.requests if request.body])
    for words in (
        "The discount raises the price",
        "Do number 1.",
        "Prices are floats here",
        "- verdict of validator on ",
    ):
        assert words in asked
