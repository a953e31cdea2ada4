"""What the doctor says of the programs that drive agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.agents.claude import ClaudeRuntime, build_runtime
from blueflame.agents.claude.program import REQUIRED_FLAGS
from blueflame.agents.scripted import ScriptedRuntime
from blueflame.doctor.environment import FindingState, examine_runtimes
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.wiring import build_runtime_set
from support.command_line import configure

PLUGIN = ".claude-plugin/plugin.json"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "claude"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --help ] && echo "{" ".join(REQUIRED_FLAGS)}" || echo "2.1.300 (Claude Code)"\n'
    )
    path.chmod(0o755)
    return path


def test_a_program_is_reported_with_version_and_place(program: Path, tmp_path: Path) -> None:
    (finding,) = examine_runtimes({"claude": build_runtime({"command": str(program)}, tmp_path)})

    assert finding.state is FindingState.OK
    assert finding.words == f"claude 2.1.300 at {program}"


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    wrong = build_runtime(
        {"command": "no-such-claude", "env": {"CLAUDE_CODE_SIMPLE": "1"}, "args": ["--bare"]}, tmp_path
    )

    findings = tuple(examine_runtimes({"mine": wrong}))

    assert {finding.state for finding in findings} == {FindingState.BAD}
    assert {finding.name for finding in findings} == {"runtime mine"}
    assert len(findings) == 3


def test_a_runtime_without_a_program_is_ready_and_an_unknown_one_is_bad() -> None:
    ready, lacking = examine_runtimes({"scripted": ScriptedRuntime(), "telepathy": None})

    assert (ready.state, ready.words) == (FindingState.OK, "ready")
    assert lacking.state is FindingState.BAD
    assert "claude" in lacking.words


def test_only_runtimes_that_the_workflow_uses_are_looked_at(repo: Path) -> None:
    roles = {"worker": {"runtime": "scripted"}, "planner": {"runtime": "claude"}, "validator": {"runtime": "mine"}}
    changes = {"roles": roles, "runtimes": {"mine": {"kind": "tmux"}}, "planning": {"workflow": "single"}}
    assert list(build_runtime_set(open_project(configure(repo, changes))).build_default()) == ["scripted"]

    ground = open_project(configure(repo, {**changes, "planning": {"workflow": "waves"}}))
    assert list(build_runtime_set(ground).build_default()) == ["claude", "mine", "scripted"]


def test_the_plugin_of_the_skills_reaches_the_runtime_and_must_be_outside(repo: Path, program: Path) -> None:
    for folder in (program.parent / "plugin", repo / "plugin"):
        (folder / PLUGIN).parent.mkdir(parents=True)
        (folder / PLUGIN).write_text("{}")

    def planner(plugin: str, *, enabled: bool = True) -> ClaudeRuntime:
        changes = {
            "runtimes": {"claude": {"command": str(program)}},
            "roles": {role: {"runtime": "claude"} for role in ("planner", "worker", "validator")},
            "superpowers": {"plugin": plugin, "enabled": enabled},
        }
        made = build_runtime_set(open_project(configure(repo, changes))).build_default()["claude"]
        assert isinstance(made, ClaudeRuntime)
        return made

    outside = planner(str(program.parent / "plugin"))
    assert outside.superpowers == (program.parent / "plugin").resolve()
    assert outside.find_problems() == ()
    assert "inside the repository" in planner("plugin").find_problems()[0]
    assert planner("plugin", enabled=False).superpowers is None
