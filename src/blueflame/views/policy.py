"""What an agent may do: its policy in words, one call judged, and the sandbox around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from blueflame.model.policy import EVERYDAY, Decision, Policy
from blueflame.policy.shell.programs.everyday import EVERYDAY_PROGRAMS, EVERYDAY_REFUSED, EVERYDAY_SUMMARY
from blueflame.views.parts import pick

if TYPE_CHECKING:
    from blueflame.model.sandbox import SandboxLevel, SandboxSpec
    from blueflame.sandbox.probe import SandboxProblem

SETTINGS: Mapping[str, str] = {
    "tool_not_allowed": "Add the tool to permissions.allowed_tools, and to the role's tools if it lists any.",
    "tool_blocked": "Move the tool from permissions.blocked_tools to permissions.allowed_tools.",
    "outside_worktree": "To read it, add its folder to sandbox.read_only; to write it, to sandbox.writable.",
    "blocked_path": "Remove the pattern from permissions.blocked_paths.",
    "path_not_allowed": "Add a pattern for it to permissions.allowed_paths.",
    "outside_file_scope": "Add it to the task's file_locks; validation.file_scope.enforce switches the rule off.",
    "read_only_role": "Not possible: this role only reads. Let a worker make the change.",
    "file_naming": "Change validation.file_naming.style, or what its enforce_for lists.",
    "command_not_allowed": "Add its first words to permissions.bash_rules.allowed_commands; for roles that only read, "
    "the whole command to validation.validator_diagnostics.commands.",
    "command_blocked": "Remove the pattern from permissions.bash_rules.blocked_patterns.",
}
"""How to allow what a rule refuses, in blueflame.yaml."""

NO_SETTING = "No setting allows it: write the call as the details say."


def suggest_setting(decision: Decision) -> str:
    return "" if decision.allowed else SETTINGS.get(decision.rule, NO_SETTING)


def list_rules(policy: Policy) -> tuple[tuple[str, str], ...]:
    """A heading and its words, such as ("never run", "git push")."""
    naming = f"new files in {_join_names(policy.naming_globs.written)} are named in {policy.naming_style}"
    output = ("StructuredOutput",) if policy.structured_output else ()
    rules = (
        ("use", _join_names((*policy.allowed_tools, *output))),
        ("never use", _join_names((*policy.blocked_tools, *_list_subagent_tools(policy), "mcp__*"))),
        ("read", f"the worktree, {_join_names((*policy.scratch, *policy.readable))}"),
        ("write", "nothing: this role only reads" if policy.read_only else _describe_writable(policy)),
        ("never touch", _join_names(policy.blocked_paths.written)),
        *_list_command_rules(policy),
        ("names", naming if policy.naming_style and not policy.read_only else ""),
        ("commits", f"match {policy.commit_pattern}" if policy.commit_pattern and not policy.read_only else ""),
    )
    return tuple((heading, words) for heading, words in rules if words)


def _list_command_rules(policy: Policy) -> tuple[tuple[str, str], ...]:
    listed = _join_names([command for command in policy.allowed_commands if command != EVERYDAY])
    if EVERYDAY not in policy.allowed_commands:
        return ("run", listed), ("never run", _join_names(policy.blocked_patterns))
    return (
        ("run", "\n".join((f"{EVERYDAY}, in the sandbox:", *(f"- {line}" for line in EVERYDAY_SUMMARY)))),
        ("also run", listed),
        ("never run", _join_names((EVERYDAY_REFUSED, *policy.blocked_patterns))),
    )


def _list_subagent_tools(policy: Policy) -> tuple[str, ...]:
    """One tool with two names; refused unless the configuration lists it."""
    names = ("Task", "Agent")
    return () if any(name in policy.allowed_tools for name in names) else names


def _describe_writable(policy: Policy) -> str:
    paths = _join_names(policy.allowed_paths.written)
    scope = "" if policy.scope is None else f", of these only {_join_names(policy.scope or ('.',))}"
    return f"{paths}{scope}" + (f"; and freely {_join_names(policy.scratch)}" if policy.scratch else "")


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "nothing"


def build_decision_json(decision: Decision) -> dict[str, str]:
    word = "allow" if decision.allowed else "deny"
    return {"decision": word, "rule": decision.rule, "details": decision.details}


def build_policy_json(policy: Policy) -> dict[str, Any]:
    """Build the policy as the configuration has it, without the compiled patterns."""
    return {
        "role": policy.role,
        "worktree": policy.worktree,
        "tools": list(policy.allowed_tools),
        **pick(policy, "blocked_tools structured_output read_only"),
        "allowed_paths": list(policy.allowed_paths.written),
        "blocked_paths": list(policy.blocked_paths.written),
        "scope": None if policy.scope is None else list(policy.scope),
        **pick(policy, "scratch readable allowed_commands blocked_patterns"),
        "everyday_programs": _list_everyday_programs(policy),
    }


def _list_everyday_programs(policy: Policy) -> dict[str, list[str]]:
    if EVERYDAY not in policy.allowed_commands:
        return {}
    return {topic: names.split() for topic, names in EVERYDAY_PROGRAMS.items()}


def build_sandbox_json(box: SandboxSpec, held: SandboxLevel, problems: Sequence[SandboxProblem]) -> dict[str, Any]:
    return {
        "level": box.level.value,
        "level_held": held.value,
        "problems": [{"guard": problem.guard, "details": problem.words} for problem in problems],
        **pick(box, "cwd user uid home"),
        "mounts": [asdict(mount) for mount in box.mounts],
        "network": box.network.value,
        "hosts": list(box.hosts),
        "limits": asdict(box.bounds),
        "environment": [name for name, _ in box.environment],
        "path": list(box.path),
        "notes": list(box.notes),
    }
