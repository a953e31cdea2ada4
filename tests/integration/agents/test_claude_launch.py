"""How claude is started: what is in its arguments, files and variables, and what never is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blueflame.agents import registry
from blueflame.agents.claude import build_runtime
from blueflame.agents.claude.conversation import name_session
from blueflame.agents.claude.program import check_plugin
from blueflame.agents.hook import find_hook
from blueflame.agents.runtime import AgentBrief, AgentLaunch
from blueflame.model.errors import Refused
from blueflame.model.spend import Budget, Unit

PROMPT = "A secret: ПРИВЕТ"
BRIEF = AgentBrief(
    attempt="ses-1.task-001.worker.1",
    agent_id="worker-0a1b2c3d",
    role="worker",
    subject="task-001",
    n=1,
    session="ses-1",
    worktree="/дерево",
    prompt=PROMPT,
    model="sonnet",
    tools=("Read", "Write", "Bash"),
    system="You are careful.",
    home="/home/agent",
    gateway="http://127.0.0.1:61128",
    token="bf-0123456789abcdef0123456789",
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "claude"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins" / "superpowers"
    (folder / ".claude-plugin").mkdir(parents=True)
    (folder / ".claude-plugin" / "plugin.json").write_text('{"name": "superpowers"}')
    for skill in ("brainstorming", "test-driven-development"):
        (folder / "skills" / skill).mkdir(parents=True)
        (folder / "skills" / skill / "SKILL.md").write_text("---\n---\n")
    return folder


def launched(program: Path, brief: AgentBrief = BRIEF, **options: Any) -> AgentLaunch:  # noqa: ANN401 (as a configuration has them)
    made = registry.build_runtime("claude", {"command": str(program), **options}, program.parent)
    return made.prepare_launch(brief, directory=program.parent.parent / "attempt")


def flag(launch: AgentLaunch, name: str) -> str:
    return launch.argv[launch.argv.index(name) + 1]


@pytest.mark.verification(55)
def test_it_is_started_as_the_walls_need_it(program: Path) -> None:
    launch = launched(program)

    assert launch.argv[0] == str(program)
    assert flag(launch, "--setting-sources") == ""
    assert flag(launch, "--permission-mode") == "dontAsk"
    assert flag(launch, "--permission-prompts") == "none"
    assert flag(launch, "--tools") == "Read,Write,Bash"
    assert flag(launch, "--disallowed-tools") == "Task,Agent"
    assert flag(launch, "--model") == "sonnet"
    assert {"-p", "--strict-mcp-config", "--include-hook-events"} <= set(launch.argv)
    assert flag(launch, "--session-id") == name_session(BRIEF.attempt)
    assert launch.apis == ("anthropic",)
    assert launch.dialect == "claude"
    assert not launch.terminal


def test_the_prompt_is_on_stdin_and_in_no_argument(program: Path) -> None:
    launch = launched(program)

    assert launch.stdin == PROMPT
    assert not any("ПРИВЕТ" in word or "careful" in word for word in launch.argv)
    assert Path(flag(launch, "--append-system-prompt-file")).read_text() == "You are careful."


def test_its_settings_have_one_hook_that_blocks_when_it_fails(program: Path) -> None:
    settings = json.loads(Path(flag(launched(program), "--settings")).read_text())

    assert settings["disableAllHooks"] is False
    ((entry,),) = [each["hooks"] for each in settings["hooks"]["PreToolUse"]]
    assert settings["hooks"]["PreToolUse"][0]["matcher"] == "*"
    assert str(find_hook()) in entry["command"]
    assert (entry["type"], entry["timeout"], entry["onFailure"]) == ("command", 5, "block")


def test_all_that_it_needs_is_shown_in_its_sandbox(program: Path) -> None:
    launch = launched(program)

    assert {program, find_hook()} <= set(launch.needs)
    assert {Path(flag(launch, name)) for name in ("--settings", "--append-system-prompt-file")} <= set(launch.needs)
    assert all(path.exists() for path in launch.needs)


def test_it_gets_the_gateways_token_and_no_key(program: Path) -> None:
    env = launched(program, env={"MAX_THINKING_TOKENS": "0"}).env

    assert env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:61128/anthropic"
    assert env["ANTHROPIC_API_KEY"] == BRIEF.token
    assert env["CLAUDE_CODE_DISABLE_FILE_MENTIONS"] == "1"
    assert env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"
    assert env["GIT_AUTHOR_NAME"] == env["GIT_COMMITTER_NAME"] == "worker-0a1b2c3d"
    assert env["MAX_THINKING_TOKENS"] == "0"


def test_a_persons_variables_do_not_go_before_what_governs(program: Path) -> None:
    env = launched(program, env={"ANTHROPIC_BASE_URL": "https://example.org", "GIT_AUTHOR_NAME": "Ann"}).env

    assert env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:61128/anthropic"
    assert env["GIT_AUTHOR_NAME"] == "Ann"


def test_a_schema_is_asked_for_and_one_that_is_too_long_is_refused(program: Path) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}

    assert json.loads(flag(launched(program, replace(BRIEF, schema=schema)), "--json-schema")) == schema
    assert "--json-schema" not in launched(program).argv
    with pytest.raises(Refused, match="bytes"):
        launched(program, replace(BRIEF, schema={"description": "x" * 200_000}))


@pytest.mark.parametrize(
    ("budget", "reported"),
    [
        (Budget(Unit.USD, 1_500_000), "1.50"),
        (Budget(Unit.USD, 1), "0.01"),
        (Budget(Unit.USD, 1_000_001), "1.01"),
        (Budget(Unit.USD, 0), None),
        (Budget(Unit.TOKENS, 500_000), None),
    ],
)
def test_a_budget_in_dollars_is_passed_in_whole_cents_rounded_up(
    program: Path, budget: Budget, reported: str | None
) -> None:
    launch = launched(program, replace(BRIEF, budget=budget))

    assert (flag(launch, "--max-budget-usd") if "--max-budget-usd" in launch.argv else None) == reported


def test_helpers_are_offered_only_where_they_are_allowed(program: Path) -> None:
    launch = launched(program, replace(BRIEF, tools=("Read", "Agent")))

    assert flag(launch, "--tools") == "Read,Agent"
    assert "--disallowed-tools" not in launch.argv


def test_no_plugin_and_no_skill_unless_configured(program: Path) -> None:
    launch = launched(program, replace(BRIEF, tools=("Read", "Skill"), skills=("brainstorming",)))

    assert "--plugin-dir" not in launch.argv
    assert flag(launch, "--tools") == "Read"


def test_the_plugin_with_the_skills_is_loaded_for_roles_with_a_skill_of_it(program: Path, plugin: Path) -> None:
    skilled = launched(program, replace(BRIEF, skills=("brainstorming",)), superpowers=str(plugin))
    other = launched(program, replace(BRIEF, skills=("requesting-code-review",)), superpowers=str(plugin))

    assert flag(skilled, "--plugin-dir") == str(plugin)
    assert flag(skilled, "--tools") == "Read,Write,Bash,Skill"
    assert plugin in skilled.needs
    assert "--plugin-dir" not in other.argv
    assert flag(other, "--tools") == "Read,Write,Bash"


def test_a_plugin_of_the_runtime_is_loaded_for_every_role(program: Path, plugin: Path) -> None:
    launch = launched(program, plugins=("../plugins/superpowers",))

    assert flag(launch, "--plugin-dir") == str(plugin)
    assert flag(launch, "--tools") == "Read,Write,Bash"


def test_a_plugin_in_the_repository_is_refused(program: Path, plugin: Path) -> None:
    link = program.parent / "link"
    link.symlink_to(plugin)
    for named in (str(plugin), str(link)):
        made = build_runtime({"command": str(program), "plugins": (named,), "repo": str(plugin.parent)}, program.parent)
        assert "inside the repository" in "\n".join(made.find_problems())
    assert check_plugin(plugin, program.parent) == ""
    assert "is not a plugin" in check_plugin(plugin.parent, None)


def test_without_a_program_nothing_is_started(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="was not found"):
        build_runtime({"command": "no-such-claude"}, tmp_path).prepare_launch(BRIEF, directory=tmp_path)


def test_launching_again_after_a_crash_gives_the_same(program: Path) -> None:
    for brief in (BRIEF, replace(BRIEF, interactive=True)):
        assert launched(program, brief) == launched(program, brief)
