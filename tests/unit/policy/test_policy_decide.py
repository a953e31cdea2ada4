"""Which tools an agent may use and with what inputs; commands in a shell are judged by the same policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from blueflame.model.attempt import MERGER, PLANNER, VALIDATOR, WORKER
from blueflame.model.policy import (
    ASK_TOOL,
    BLOCKED_PATTERNS,
    CANARY,
    EVERYDAY,
    STRUCTURED_OUTPUT,
    Decision,
    Policy,
    ToolCall,
    UnparsableCommand,
)
from blueflame.model.settings.permissions import (
    BashRules,
    FileNaming,
    PermissionSettings,
    ValidationSettings,
    ValidatorDiagnostics,
)
from blueflame.model.settings.roles import RoleSettings
from blueflame.paths.locks import BadLock
from blueflame.policy.compile import READ_COMMANDS, compile_policy
from blueflame.policy.decide import decide
from blueflame.policy.tool_calls import MAX_CALL_BYTES, MalformedCall, read_calls
from blueflame.watcher.policy_file import find_shfmt
from blueflame.watcher.world import LocalWorld

DIAGNOSTICS = ValidatorDiagnostics(commands=("make test", "cd src && pytest -q | tail -5"))
VALIDATION = ValidationSettings(validator_diagnostics=DIAGNOSTICS)
EVERY_TOOL = PermissionSettings(
    allowed_tools=("Read", "Write", "Bash", "TodoWrite", "WebFetch", "Mystery", "mcp__git__push", "Grep", "MultiEdit"),
    blocked_tools=("NotebookEdit",),
)


def policy(permissions: PermissionSettings | None = None, role: str = WORKER, **changes: Any) -> Policy:  # noqa: ANN401 (any part of a policy)
    given: dict[str, Any] = {
        "permissions": permissions or PermissionSettings(),
        "validation": VALIDATION,
        "role": role,
        "role_settings": None,
        "worktree": "/дерево",
        "scope": None,
        "schema": role in (PLANNER, VALIDATOR),
    }
    return compile_policy(**given | changes)


class NoWorld:
    """Where nothing is a link and nothing is there; commands are read by the real parser."""

    def resolve(self, path: str) -> str:
        return path

    def parse(self, command: str) -> Mapping[str, Any]:
        return LocalWorld("/дерево", shfmt=find_shfmt()).parse(command)

    def read_text(self, path: str) -> str | None:
        return None


def ask(rules: Policy, tool: str, given: Mapping[str, Any], cwd: str = "/дерево") -> Decision:
    return decide(rules, ToolCall(tool=tool, input=given, cwd=cwd), NoWorld())


@pytest.mark.parametrize("role", [WORKER, VALIDATOR, PLANNER, MERGER])
def test_the_canary_is_always_refused(role: str) -> None:
    answer = decide(policy(role=role), ToolCall(tool=CANARY, input={}, cwd="/"), NoWorld())
    assert (answer.allowed, answer.rule) == (False, "canary")


def test_the_canary_is_refused_even_if_a_policy_allows_it() -> None:
    assert ask(policy(PermissionSettings(allowed_tools=(CANARY,))), CANARY, {}).rule == "canary"


@pytest.mark.parametrize(
    "path",
    [
        *("blueflame.yaml", ".worktreeinclude", ".claude/settings.json", "web/.claude/hooks/x", ".MCP.json"),
        *("a/b/.mcp.json", ".vscode/tasks.json", "web/.vscode/settings.json", ".blueflame/memory.db"),
        *(".codex/config.toml", "sub/.envrc"),
    ],
)
def test_files_that_steer_agents_are_blocked_whatever_is_configured(path: str) -> None:
    own = PermissionSettings(allowed_paths=("**",), blocked_paths=("*.pem",))
    answer = ask(policy(own), "Write", {"file_path": f"/дерево/{path}", "content": "x"})
    assert (answer.allowed, answer.rule) == (False, "blocked_path")


@pytest.mark.parametrize("tool", ["Task", "Agent"])
def test_an_agent_starts_another_only_if_the_configuration_lists_that(tool: str) -> None:
    errand = {"prompt": "x", "description": "y", "subagent_type": "general-purpose"}
    assert ask(policy(), tool, errand).rule == "tool_blocked"
    assert (
        ask(policy(PermissionSettings(allowed_tools=("Agent",))), tool, errand).rule == "tool_blocked"
    )  # Task is blocked
    listed = policy(PermissionSettings(allowed_tools=("Agent", "Read"), blocked_tools=()))
    assert ask(listed, tool, errand).allowed
    assert ask(listed, tool, {**errand, "isolation": "worktree"}).rule == "malformed_call"


@pytest.mark.parametrize(
    "tool",
    ["mcp__git__push", "Mystery", "ScheduleWakeup", "Workflow", "Monitor", "read", "READ", "Read ", "", "Bash\0"],
)
def test_an_unknown_tool_is_refused_even_where_it_is_allowed(tool: str) -> None:
    assert ask(policy(EVERY_TOOL), tool, {}).rule == "tool_not_allowed"


def test_the_refusal_of_a_tool_lists_the_allowed_ones() -> None:
    answer = ask(policy(), "Monitor", {})
    assert "Read, Write, Edit, Glob, Grep, Bash" in answer.details


def test_a_blocked_tool_is_refused() -> None:
    assert ask(policy(), "WebFetch", {"url": "https://example.org"}).rule == "tool_blocked"


def test_a_role_has_no_more_tools_than_its_own_list() -> None:
    few = policy(role_settings=RoleSettings(tools=("Read", "WebSearch")))
    assert few.allowed_tools == ("Read",)
    assert ask(few, "Read", {"file_path": "a"}).allowed
    assert ask(few, "Write", {"file_path": "src/a"}).rule == "tool_not_allowed"


def test_a_skill_is_loaded_only_by_the_roles_that_have_it() -> None:
    skilled = policy(skills=("brainstorming",))

    assert ask(skilled, "Skill", {"skill": "brainstorming", "args": "now"}).allowed
    assert ask(skilled, "Skill", {"skill": "superpowers:brainstorming"}).allowed
    for other in ("update-config", "brainstorming:update-config", "Brainstorming", "", "brainstorming "):
        answer = ask(skilled, "Skill", {"skill": other})
        assert answer.rule == "tool_not_allowed"
        assert "use brainstorming" in answer.details
    assert ask(skilled, "Skill", {}).rule == "malformed_call"
    assert ask(skilled, "Skill", {"skill": 5}).rule == "malformed_call"
    assert ask(skilled, "Skill", {"skill": "brainstorming", "run": "ls"}).rule == "malformed_call"


def test_without_skills_the_skill_tool_is_refused_even_if_allowed() -> None:
    for rules in (policy(), policy(PermissionSettings(allowed_tools=("Skill",)))):
        assert ask(rules, "Skill", {"skill": "brainstorming"}).rule == "tool_not_allowed"
    blocked = policy(PermissionSettings(blocked_tools=("Skill",)), skills=("brainstorming",))
    assert ask(blocked, "Skill", {"skill": "brainstorming"}).rule == "tool_blocked"


def test_structured_output_is_for_roles_with_a_schema() -> None:
    assert ask(policy(role=VALIDATOR), STRUCTURED_OUTPUT, {"status": "pass"}).allowed
    assert ask(policy(role=VALIDATOR), STRUCTURED_OUTPUT, {"status": "pass"}, cwd="/").allowed
    assert ask(policy(role=WORKER), STRUCTURED_OUTPUT, {"status": "pass"}).rule == "tool_not_allowed"


def test_the_tool_that_asks_a_person_is_the_only_one_of_an_mcp_server_and_can_be_blocked() -> None:
    asked = {"question": "Which store?"}
    assert ask(replace(policy(), may_ask=True), ASK_TOOL, asked).allowed
    assert ask(policy(), ASK_TOOL, asked).rule == "tool_not_allowed"
    assert ask(policy(PermissionSettings(allowed_tools=(ASK_TOOL,))), ASK_TOOL, asked).rule == "tool_not_allowed"
    assert ask(replace(policy(), may_ask=True), "mcp__blueflame__other", asked).rule == "tool_not_allowed"
    blocked = replace(policy(PermissionSettings(blocked_tools=(ASK_TOOL,))), may_ask=True)
    assert ask(blocked, ASK_TOOL, asked).rule == "tool_blocked"


def test_a_tool_that_touches_nothing_needs_no_judging() -> None:
    assert ask(policy(EVERY_TOOL), "TodoWrite", {"todos": [{"content": "/etc/passwd"}]}).allowed


@pytest.mark.parametrize("url", ["file:///etc/passwd", "", "/etc/passwd", "https:///x", "https://a\n", "ftp://x"])
def test_only_the_web_is_fetched(url: str) -> None:
    assert ask(policy(EVERY_TOOL), "WebFetch", {"url": url}).rule == "malformed_call"
    assert ask(policy(EVERY_TOOL), "WebFetch", {"url": "https://example.org/x", "prompt": "p"}).allowed


MISSHAPEN = [
    ("Read", {}),
    ("Read", {"path": "src/a"}),
    ("Read", {"file_path": None}),
    ("Read", {"file_path": 7}),
    ("Read", {"file_path": ["src/a"]}),
    ("Read", {"file_path": {"x": 1}}),
    ("Read", {"file_path": True}),
    ("Read", {"file_path": "src/a", "files": ["/etc/passwd"]}),
    ("Read", {"file_path": "src/a", "path": "/etc/passwd"}),
    ("Read", {"file_path": "src/a", "FILE_PATH": "/etc/passwd"}),
    ("Write", {"file_path": "src/a", "content": 3}),
    ("Write", {"file_path": "src/a", "output": {"path": "/etc/passwd"}}),
    ("Grep", {"path": "src"}),
    ("Grep", {"pattern": "x", "path": 1}),
    ("Grep", {"pattern": "x", "glob": ["*.py"]}),
    ("Grep", {"pattern": "x", "pre": "/bin/sh"}),
    ("Glob", {}),
    ("Bash", {}),
    ("Bash", {"command": ""}),
    ("Bash", {"command": "  \n"}),
    ("Bash", {"command": ["ls"]}),
    ("Bash", {"command": "ls", "env": {"A": "b"}}),
    ("Bash", {"command": "ls", "cwd": "/etc"}),
]


@pytest.mark.parametrize(("tool", "given"), MISSHAPEN, ids=[f"{tool} {given}" for tool, given in MISSHAPEN])
def test_inputs_that_are_not_understood_are_refused(tool: str, given: dict[str, Any]) -> None:
    permissions = PermissionSettings(allowed_tools=("Read", "Write", "Grep", "Glob", "Bash"))
    answer = ask(policy(permissions), tool, given)
    assert (answer.allowed, answer.rule) == (False, "malformed_call")


def test_new_numbers_and_switches_of_a_tool_are_accepted() -> None:
    assert ask(policy(), "Read", {"file_path": "src/a", "offset": 3, "new_switch": True, "none": None}).allowed


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=12), st.lists, max_leaves=5),
        max_size=4,
    )
)
def test_any_input_gets_a_decision(given: dict[str, Any]) -> None:
    for tool in ("Read", "Write", "Glob", "Grep", "MultiEdit"):
        assert ask(policy(EVERY_TOOL), tool, given).rule


# --- the shell ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "make test",
        "git diff --stat HEAD~1",
        "git add src && git commit -m 'feat(task-001): add ssh keys'",
        "git status > src/status.txt",
        "git log --oneline -5 2>/dev/null",
    ],
)
def test_an_allowed_command_runs(command: str) -> None:
    answer = ask(policy(), "Bash", {"command": command, "description": "d", "timeout": 1000})
    assert answer.allowed, answer


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git push", "command_blocked"),
        ("npm test", "command_not_allowed"),
        ("git status; curl x", "command_blocked"),
        ("git status > .env", "blocked_path"),
        ("git status > /etc/passwd", "outside_worktree"),
        ("git status > ../x", "outside_worktree"),
        ("git diff > README.md", "path_not_allowed"),
        ("git status\x00", "control_characters"),
        ("git status \x1b[2K", "control_characters"),
        ("git status\r", "control_characters"),
        ("git status 'x", "shell_unreadable"),
        ("git status " + "x" * 200_000, "shell_unreadable"),
        ("git status " + "$(" * 3000 + ")" * 3000, "shell_unreadable"),
        ("git status \ud800", "control_characters"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_command_that_is_not_allowed_is_refused(command: str, rule: str) -> None:
    answer = ask(policy(), "Bash", {"command": command})
    assert (answer.allowed, answer.rule) == (False, rule), answer


def test_an_option_that_disables_the_sandbox_is_refused() -> None:
    assert ask(policy(), "Bash", {"command": "git status", "dangerouslyDisableSandbox": True}).rule == "option_refused"
    assert ask(policy(), "Bash", {"command": "git status", "dangerouslyDisableSandbox": False}).allowed


def test_redirections_go_from_where_the_command_runs() -> None:
    assert ask(policy(), "Bash", {"command": "git status > x.txt"}, cwd="/дерево/src").allowed
    assert ask(policy(), "Bash", {"command": "git status > ../.env"}, cwd="/дерево/src").rule == "blocked_path"


def test_a_whole_folder_may_be_named_unless_something_in_it_is_blocked() -> None:
    rules = PermissionSettings(
        allowed_paths=("src/**",),
        blocked_paths=("src/vault/**",),
        bash_rules=BashRules(allowed_commands=("mkdir", "rm")),
    )
    assert ask(policy(rules), "Bash", {"command": "mkdir -p src"}).rule == "blocked_path"
    assert ask(policy(rules), "Bash", {"command": "rm -r src/old"}).allowed
    assert ask(policy(rules), "Bash", {"command": "mkdir -p src/new/deep"}).allowed
    assert ask(policy(rules), "Bash", {"command": "rm -r docs"}).rule == "path_not_allowed"


def test_a_new_file_made_in_the_shell_is_named_as_any_other() -> None:
    naming = ValidationSettings(file_naming=FileNaming(enforce_for=("src/**",)))
    rules = policy(PermissionSettings(bash_rules=BashRules(allowed_commands=("touch", "mkdir"))), validation=naming)
    assert ask(rules, "Bash", {"command": "touch src/BadName.py"}).rule == "file_naming"
    assert ask(rules, "Bash", {"command": "touch src/good_name.py"}).allowed
    assert ask(rules, "Bash", {"command": "mkdir src/SomeFolder"}).allowed


@pytest.mark.verification(58)
@pytest.mark.parametrize(
    "command", ["make test", "cd src && pytest -q | tail -5", "git diff HEAD~1", "ls -la src", "grep -rn x src"]
)
def test_a_validator_runs_the_diagnostics_and_reads(command: str) -> None:
    answer = ask(policy(role=VALIDATOR), "Bash", {"command": command})
    assert answer.allowed, answer


@pytest.mark.verification(58)
@pytest.mark.parametrize(
    "command",
    [
        "make",
        "make install",
        "git commit -m x",
        "git add src",
        "cd src && pytest -q",
        "cd src && pytest -q | tail -5; make",
        "ls > src/x",
        "find . -delete",
        "find . -exec rm {} +",
        r"find . -exec rm {} \;",
        "git diff --output=src/x",
        "rm -r src",
    ],
)
def test_a_validator_runs_nothing_else(command: str) -> None:
    assert not ask(policy(role=VALIDATOR), "Bash", {"command": command}).allowed


def test_a_diagnostic_that_matches_a_blocked_pattern_stays_blocked() -> None:
    blocked = PermissionSettings(bash_rules=BashRules(blocked_patterns=("pytest",)))
    assert not ask(policy(blocked, role=VALIDATOR), "Bash", {"command": DIAGNOSTICS.commands[1]}).allowed


def test_a_worker_does_not_gain_the_diagnostics_lines() -> None:
    assert not ask(policy(), "Bash", {"command": DIAGNOSTICS.commands[1]}).allowed


def test_diagnostics_that_are_switched_off_are_not_run() -> None:
    off = ValidationSettings(validator_diagnostics=ValidatorDiagnostics(enabled=False, commands=("make test",)))
    assert policy(role=VALIDATOR, validation=off).allowed_commands == READ_COMMANDS


def test_a_parser_that_fails_refuses_the_command() -> None:
    class Broken(NoWorld):
        def parse(self, command: str) -> Mapping[str, Any]:
            raise UnparsableCommand("no parser")

    answer = decide(policy(), ToolCall(tool="Bash", input={"command": "git status -s"}, cwd="/дерево"), Broken())
    assert (answer.rule, "no parser" in answer.details) == ("shell_unreadable", True)


# --- compiling ---------------------------------------------------------------------------------------------------


def test_a_policy_holds_all_that_the_walls_obey() -> None:
    compiled = policy(scope=("src/a",), scratch=("/tmp",), readable=("/usr",), agent_id="worker-12345678")
    defaults = PermissionSettings()
    assert compiled.blocked_paths.written[: len(defaults.blocked_paths)] == defaults.blocked_paths
    assert compiled.allowed_commands == defaults.bash_rules.allowed_commands[1:]
    assert compiled.blocked_patterns == defaults.bash_rules.blocked_patterns
    assert (compiled.scope, compiled.scratch, compiled.readable) == (("src/a",), ("/tmp",), ("/usr",))
    assert (compiled.agent_id, compiled.read_only, compiled.naming_style) == ("worker-12345678", False, "")
    assert compiled.commit_pattern == ValidationSettings().commit_format.pattern


def test_everyday_commands_are_allowed_only_where_a_sandbox_holds_the_agent() -> None:
    ordinary = {"command": "python -c 'print(1)' && rm -rf build && git stash"}
    assert ask(policy(sandboxed=True), "Bash", ordinary).allowed
    assert not ask(policy(sandboxed=False), "Bash", ordinary).allowed
    assert EVERYDAY not in policy(sandboxed=False).allowed_commands


def test_a_list_that_was_written_by_hand_means_the_same_in_a_sandbox() -> None:
    """Configurations from before the rule: what they list, and nothing else."""
    written = PermissionSettings(bash_rules=BashRules(allowed_commands=("make", "git")))
    compiled = policy(written, sandboxed=True)
    assert compiled.allowed_commands == ("make", "git")
    assert compiled.blocked_patterns == tuple(BLOCKED_PATTERNS)
    assert ask(compiled, "Bash", {"command": "git push"}).rule == "command_blocked"
    assert not ask(compiled, "Bash", {"command": "python x.py"}).allowed


def test_patterns_that_were_written_by_hand_hold_for_everyday_commands() -> None:
    written = PermissionSettings(bash_rules=BashRules(blocked_patterns=(r"npm\s+install",)))
    refused = ask(policy(written, sandboxed=True), "Bash", {"command": "npm install x"})
    assert refused.rule == "command_blocked"
    assert "entry 1 of bash_rules.blocked_patterns" in refused.details
    assert "\\s" not in refused.details


def test_a_rule_allows_what_everyday_commands_refuse() -> None:
    written = PermissionSettings(bash_rules=BashRules(allowed_commands=(EVERYDAY, "docker compose", "git fetch")))
    compiled = policy(written, sandboxed=True)
    assert ask(compiled, "Bash", {"command": "docker compose up -d"}).allowed
    assert ask(compiled, "Bash", {"command": "git fetch"}).allowed
    assert not ask(compiled, "Bash", {"command": "docker run x"}).allowed


def test_an_unknown_set_of_commands_is_refused() -> None:
    with pytest.raises(ValidationError, match="not a set of commands"):
        BashRules(allowed_commands=("@everything",))


@pytest.mark.parametrize("role", [PLANNER, VALIDATOR])
def test_a_role_that_only_reads_has_no_everyday_commands(role: str) -> None:
    compiled = policy(role=role, sandboxed=True)
    assert EVERYDAY not in compiled.allowed_commands
    assert not ask(compiled, "Bash", {"command": "python -c 'print(1)'"}).allowed
    assert ask(compiled, "Bash", {"command": "git grep -n x"}).allowed


@pytest.mark.parametrize("lock", ["../x", "/etc", "~/x", "a\\b", "a\nb"])
def test_a_lock_that_leads_out_is_refused(lock: str) -> None:
    with pytest.raises(BadLock):
        policy(scope=("src", lock))


# --- calls as hooks tell them ------------------------------------------------------------------------------------


def test_a_call_is_parsed_from_the_json_of_a_hook() -> None:
    said = '{"tool_name":"Read","tool_input":{"file_path":"é"},"cwd":"/x","tool_use_id":"t1","session_id":"s"}'
    assert read_calls(said.encode(), cwd="/wt") == (ToolCall(tool="Read", input={"file_path": "é"}, cwd="/x", id="t1"),)
    assert read_calls(b'{"tool_name":"Read","tool_input":{}}', cwd="/wt") == (
        ToolCall(tool="Read", input={}, cwd="/wt"),
    )


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"x",
        b"null",
        b"[]",
        b'"Read"',
        b"{}",
        b'{"tool_name":null}',
        b'{"tool_name":""}',
        b'{"tool_name":1}',
        b'{"tool_name":["Read"]}',
        b'{"tool_name":"Read","tool_input":[]}',
        b'{"tool_name":"Read","tool_input":null}',
        b'{"tool_name":"Read","tool_input":"x"}',
        b'{"tool_name":"Read"}',
        b'{"tool_name":"Read","tool_input":{},"cwd":7}',
        b'{"tool_name":"Read","tool_input":{},"cwd":null}',
        b'{"tool_name":"Read","tool_input":{},"cwd":"src"}',
        b'{"tool_name":"Read","tool_input":{},"tool_name":"Bash"}',
        b'{"tool_name":"Read","tool_input":{"file_path":"a","file_path":"/etc/passwd"}}',
        b'{"tool_name":"Read","tool_input":{}} {}',
        b'{"tool_name":"Read","tool_input":{},"n":NaN}',
        b'{"tool_name":"Read","tool_input":{},"n":' + b"9" * 5000 + b"}",
        b'{"tool_name":"\xff"}',
        b'\xef\xbb\xbf{"tool_name":"Read","tool_input":{}}',
        '{"tool_name":"Read","tool_input":{}}'.encode("utf-16"),
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=lambda said: repr(said)[:50],
)
def test_other_json_is_a_malformed_call(said: bytes) -> None:
    with pytest.raises(MalformedCall):
        read_calls(said, cwd="/wt")


def test_a_call_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(MalformedCall, match="at most"):
        read_calls(b" " * (MAX_CALL_BYTES + 1), cwd="/wt")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_call_or_malformed(said: bytes) -> None:
    try:
        read_calls(said, cwd="/wt")
    except MalformedCall as error:
        assert str(error)


def test_every_rule_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
    for rule in (
        *("tool_not_allowed", "tool_blocked", "malformed_call", "outside_worktree", "blocked_path", "path_not_allowed"),
        *("outside_file_scope", "read_only_role", "file_naming", "command_not_allowed", "command_blocked"),
        *("shell_dynamic", "shell_unreadable", "shell_construct", "wrapper_refused", "option_refused"),
        *("redirect_refused", "control_characters", "canary", "allowed"),
    ):
        assert f"| `{rule}` |" in page
