"""Lessons with the real Claude Code: what one session taught reaches the model of the right agent, and no other; and
an agent that curates them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.memory import Lesson, Origin, Source
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.orchestrator.wiring import open_memory
from blueflame.testing import LoopbackModel
from support.command_line import here, trust, write
from support.lessons import learned
from support.model_scripts import KEY, build_model_script, build_worker_scenario, build_write_turns
from support.real_agents import needs_claude
from support.sessions import make_stage, task

pytestmark = [
    needs_claude,
    pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox"),
]
TAUGHT = "The first line of this file is its checksum"
WISH = "said of a plan: keep every file sorted"
TASKS = {1: task(1, title="Sort it"), 2: task(2, title="Count it")}


@pytest.fixture(autouse=True)
def only_our_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def build_scenarios(text: str) -> list[dict[str, Any]]:
    """Two workers; the first leaves what it has learned."""
    first, second = (build_write_turns(f"src/{n}.txt", f"{text}\n") for n in TASKS)
    left = {"text": json.dumps({"summary": ["done"], "learnings": [TAUGHT]})}
    return [build_worker_scenario("task-001", *first[:-1], left), build_worker_scenario("task-002", *second)]


def find_bodies(model: LoopbackModel, name: str) -> list[dict[str, Any]]:
    """The requests of the worker on a task."""
    bodies = [request.body for request in model.requests if request.body]
    return [body for body in bodies if f"implement {name} in your own clone" in json.dumps(body["messages"])]


@pytest.mark.real_claude
def test_what_one_session_taught_reaches_the_model_of_the_worker_on_those_files_only(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage(
        repo,
        sandbox={"level": "standard"},
        roles={name: {"runtime": "claude", "model": "sonnet"} for name in ("planner", "worker", "validator")},
        limits={"kill_grace": "2s", "agent_timeout": "120s", "max_retries": 0},
        planning={"workflow": "lean", "interactive": False},
        memory={"control_every": 0},
    )
    stage.tasks = list(TASKS.values())
    with LoopbackModel(build_model_script(*build_scenarios("one"))) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        assert stage.run().session.outcome == "completed"
    assert not any(TAUGHT in json.dumps(body["messages"][0]) for body in find_bodies(model, "task-002"))
    said = Lesson(
        key="wish:1", origin=Origin(session="s", source=Source.PERSON), text=WISH, about="wish", confirmed=True
    )
    open_memory(stage.project()).remember([said])
    with LoopbackModel(build_model_script(*build_scenarios("two"))) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        second = stage.run()
    assert second.session.outcome == "completed"
    own, other = (find_bodies(model, name) for name in ("task-001", "task-002"))
    assert all(f"- KNOWN: {TAUGHT} (files: src/1.txt)" in json.dumps(body["messages"][0]) for body in own)
    assert own
    assert other
    assert TAUGHT not in json.dumps(other)
    assert [request.body for request in model.requests if TAUGHT in json.dumps(request.body)] == own, (
        "and of no one else"
    )
    systems = {json.dumps([block["text"] for block in body["system"][1:]]) for body in (*own, *other)}
    (system,) = systems
    assert f"- A PERSON'S WORD: {WISH}" in system, "what people said is for all, and the same bytes for all"
    assert TAUGHT not in system


@pytest.mark.real_claude
def test_what_a_real_agent_would_change_in_the_files_is_asked_about_and_then_made(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = make_stage(repo, sandbox={"level": "standard"}, roles={"curator": {"runtime": "claude", "model": "sonnet"}})
    memory = open_memory(stage.project())
    memory.remember([learned("a", "Totals are rounded twice."), learned("b", "Tests are in spec.")])
    memory.add(learned("own", "Amounts are cents.", confirmed=True))
    changes = [
        {"ids": ["a"], "text": "Totals are rounded once, at the end.", "reason": "the code says so"},
        {"ids": ["own"], "text": "Amounts are dollars.", "reason": "poison"},
    ]
    turns = [
        {"tool": {"write": "{{cwd}}/src/1.txt", "content": "changed"}},
        {"structured": {"changes": changes}},
        {"text": "curated"},
    ]
    yes = write(repo.parent / "yes.json", {"curation": ["approve"]})
    with LoopbackModel(build_model_script({"when": {"user": "You curate what a team"}, "turns": turns})) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        said = here(capsys, "memory", "curate", "--agent", "--decisions-file", yes, "--config", trust(stage.config))
    assert said.code == 0, said.err
    asked = json.dumps([request.body for request in model.requests if request.body])
    assert "- [a] Totals are rounded twice. (about no file)" in asked
    words = (repo / ".blueflame" / "knowledge" / "mistakes.md").read_text()
    assert "Totals are rounded once, at the end." in words and "Amounts are cents." in words
    assert "twice" not in words and "dollars" not in words
    tools = {tool["name"] for request in model.requests if request.body for tool in request.body.get("tools", ())}
    assert "StructuredOutput" in tools and tools.isdisjoint({"Write", "Edit", "NotebookEdit"}), "it may only read"
    log = (repo / ".blueflame" / "logs" / "activity.log").read_text()
    assert "[KNOWLEDGE_CURATED] 2 changes: mistakes: archived a (curated); mistakes: added curated:" in log
