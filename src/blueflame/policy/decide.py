"""Decide whether an agent may make a tool call. What is not explicitly allowed is refused.

Needs only Python's re, and what `PolicyEnvironment` knows of links, small files and shell syntax.
"""

from __future__ import annotations

import re

from blueflame.model.policy import (
    ASK_TOOL,
    CANARY,
    SKILL,
    STRUCTURED_OUTPUT,
    Decision,
    Policy,
    PolicyEnvironment,
    ToolCall,
    UnparsableCommand,
)
from blueflame.policy.access import ALLOWED, PathAccess, prepare_policy
from blueflame.policy.decision_cache import QuestionRecorder
from blueflame.policy.path_names import CONTROL_CHARACTERS, format_list, sanitize_text
from blueflame.policy.search_patterns import judge_filter, judge_glob
from blueflame.policy.tool_inputs import HARMLESS_TOOLS, INPUT_SHAPES, InputShape, InputUse, find_input_problem

SUBAGENTS = frozenset({"Task", "Agent"})
SIMPLE_WORDS = re.compile(r"[\w@%+=:,./ -]*")


def decide(policy: Policy, call: ToolCall, world: PolicyEnvironment) -> Decision:
    """Decide about one call: deterministic for the same policy, call and environment."""
    refusal = _refuse_tool(policy, call.tool)
    if refusal is not None:
        return refusal
    if call.tool in HARMLESS_TOOLS or call.tool in (STRUCTURED_OUTPUT, ASK_TOOL):
        return ALLOWED
    shape = INPUT_SHAPES[call.tool]
    wrong = find_input_problem(call.tool, shape, call.input)
    if wrong:
        return Decision(False, "malformed_call", wrong)
    if call.tool == "WebFetch":
        url = call.input["url"]
        if CONTROL_CHARACTERS.search(url) or not re.match(r"https?://[^/\s]", url, re.IGNORECASE):
            return Decision(False, "malformed_call", f"{sanitize_text(url)!r} is not a URL that begins with https://")
        return ALLOWED
    if call.tool == SKILL:
        return _decide_skill(policy, call)
    access = PathAccess(rules=prepare_policy(policy), world=world, cwd=call.cwd, shell=call.tool == "Bash")
    cwd_decision = access.check_cwd()
    if not cwd_decision.allowed:
        return cwd_decision
    if call.tool == "Bash":
        return _decide_command(policy, call, world, access)
    return _decide_file_tool(shape, call, access)


def _refuse_tool(policy: Policy, tool: str) -> Decision | None:
    if tool == CANARY:
        return Decision(False, "canary", "the watcher works")
    name = sanitize_text(tool, 60)
    if tool in SUBAGENTS and SUBAGENTS.isdisjoint(policy.allowed_tools):  # one tool by its old and its new name
        return Decision(False, "tool_blocked", f"{name} starts another agent, which is not allowed; do it yourself")
    if tool in policy.blocked_tools or (tool in SUBAGENTS and not SUBAGENTS.isdisjoint(policy.blocked_tools)):
        return Decision(False, "tool_blocked", f"{name} is in blocked_tools; {_suggest_tools(policy)}")
    if tool == STRUCTURED_OUTPUT:
        if policy.structured_output:
            return None
        return Decision(False, "tool_not_allowed", f"a {policy.role} has no answer schema; {_suggest_tools(policy)}")
    if tool == ASK_TOOL and policy.may_ask:
        return None
    if tool.startswith("mcp__"):
        return Decision(False, "tool_not_allowed", f"tools of MCP servers are never allowed; {_suggest_tools(policy)}")
    if tool == SKILL:
        if policy.skills:
            return None
        return Decision(False, "tool_not_allowed", f"no skills are configured; {_suggest_tools(policy)}")
    if tool not in policy.allowed_tools and tool not in SUBAGENTS:
        return Decision(False, "tool_not_allowed", f"{name} is not in allowed_tools; {_suggest_tools(policy)}")
    if tool not in INPUT_SHAPES and tool not in HARMLESS_TOOLS:
        return Decision(False, "tool_not_allowed", f"{name} is not a known tool; {_suggest_tools(policy)}")
    return None


def _suggest_tools(policy: Policy) -> str:
    known = tuple(tool for tool in policy.allowed_tools if tool in INPUT_SHAPES or tool in HARMLESS_TOOLS)
    return f"use {format_list((*known, *((STRUCTURED_OUTPUT,) if policy.structured_output else ())), 12)}"


def _decide_skill(policy: Policy, call: ToolCall) -> Decision:
    """Accept the bare name of the skill, or the name after that of its plugin."""
    if call.input["skill"].rpartition(":")[2] in policy.skills:
        return ALLOWED
    wanted = sanitize_text(call.input["skill"], 60)
    return Decision(
        False, "tool_not_allowed", f"the skill {wanted} is not allowed; use {format_list(policy.skills, 12)}"
    )


def _decide_file_tool(shape: InputShape, call: ToolCall, access: PathAccess) -> Decision:
    given = {name: value for name, value in call.input.items() if value is not None}
    for name, use in shape.uses.items():
        if name in given and use in (InputUse.READ, InputUse.WRITE):
            answer = access.check_read(given[name]) if use is InputUse.READ else access.check_write(given[name])
            if not answer.allowed:
                return answer
    if call.tool == "Glob":
        return judge_glob(access, given["pattern"], given.get("path", "."))
    if call.tool == "Grep" and "glob" in given:
        return judge_filter(access, given["glob"], given.get("path", "."))
    return ALLOWED


def _decide_command(policy: Policy, call: ToolCall, world: PolicyEnvironment, access: PathAccess) -> Decision:
    # late: an agent that runs no command does not wait for it
    from blueflame.policy.shell.judge import judge_command_line, refuse_text

    command: str = call.input["command"]
    if call.input.get("dangerouslyDisableSandbox"):
        return Decision(False, "option_refused", "the sandbox cannot be disabled; run the command without this option")
    if not command.strip():
        return Decision(False, "malformed_call", "the command is empty")
    if refused := refuse_text(command):
        return refused
    if _is_diagnostic(policy, command):
        return ALLOWED
    cache = access.rules.cache
    recorder = QuestionRecorder(access)
    try:
        known = cache.find(command, access.cwd, access)
        if known is not None:
            return known
        decision = judge_command_line(command, world.parse(command), policy, recorder, world.parse)
    except UnparsableCommand as error:
        return Decision(
            False, "shell_unreadable", f"the command cannot be read: {sanitize_text(str(error))}; simplify it"
        )
    except RecursionError:
        return Decision(False, "shell_unreadable", "the command is nested too deeply; run it in smaller steps")
    cache.store(command, access.cwd, decision, recorder)
    return decision


def _is_diagnostic(policy: Policy, command: str) -> bool:
    """Return whether a read-only role runs a configured diagnostic, character by character, pipes included.

    A line of plain words needs no exception: it is compared word by word like any other command.
    """
    line = command.strip()
    if not policy.read_only or line not in policy.allowed_commands or SIMPLE_WORDS.fullmatch(line) or line == "*":
        return False
    return not any(re.search(pattern, line) for pattern in policy.blocked_patterns)
