"""A policy in words: what a role may read, write, run and use; and what to change when it should be more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from blueflame.cli.console import Heading, build_columns, make_console, print_view
from blueflame.model.policy import Decision, Policy
from blueflame.text.marks import BAD, OK
from blueflame.text.sanitize import clean_line, clean_text

SETTINGS: Mapping[str, str] = {
    "tool_not_allowed": "Add the tool to permissions.allowed_tools, and to the role's tools if it lists any.",
    "tool_blocked": "Take the tool out of permissions.blocked_tools and put it into permissions.allowed_tools.",
    "outside_worktree": "To be read, its folder must be in sandbox.read_only; to be written, in sandbox.writable.",
    "blocked_path": "Take the pattern out of permissions.blocked_paths.",
    "path_not_allowed": "Add a pattern for it to permissions.allowed_paths.",
    "outside_file_scope": "Add it to the task's file_locks; validation.file_scope.enforce switches the rule off.",
    "read_only_role": "Nothing does: this role only reads. Let a worker make the change.",
    "file_naming": "Change validation.file_naming.style, or what its enforce_for lists.",
    "command_not_allowed": "Add its first words to permissions.bash_rules.allowed_commands; for roles that only read, "
    "the whole command to validation.validator_diagnostics.commands.",
    "command_blocked": "Take the pattern out of permissions.bash_rules.blocked_patterns.",
}
"""How a person lifts a rule in blueflame.yaml."""

NOT_BY_CONFIG = "Nothing in the configuration does: write the call as the details say."


def suggest_setting(decision: Decision) -> str:
    return "" if decision.allowed else SETTINGS.get(decision.rule, NOT_BY_CONFIG)


def build_decision_json(decision: Decision) -> dict[str, str]:
    word = "allow" if decision.allowed else "deny"
    return {
        "decision": word,
        "rule": decision.rule,
        "details": decision.details,
        "how_to_allow": suggest_setting(decision),
    }


def print_decision(tool: str, argument: str, decision: Decision) -> None:
    mark = Text(OK, "good") if decision.allowed else Text(BAD, "bad")
    verdict = "is allowed" if decision.allowed else f"is refused by the rule {decision.rule}"
    rows: list[tuple[str | Text, ...]] = [(mark, clean_line(f"{tool} {argument}".strip()) + f" {verdict}")]
    if decision.details:
        rows.append(("", clean_text(decision.details)))
    if not decision.allowed:
        rows.append(("", f"To allow it: {suggest_setting(decision)}"))
    print_view(make_console(), build_columns(rows, indent=0))


def build_policy_json(policy: Policy) -> dict[str, Any]:
    """What counts, in the words of the configuration; the compiled patterns are nobody's business."""
    return {
        "role": policy.role,
        "worktree": policy.worktree,
        "tools": list(policy.allowed_tools),
        "blocked_tools": list(policy.blocked_tools),
        "structured_output": policy.structured_output,
        "read_only": policy.read_only,
        "allowed_paths": list(policy.allowed_paths.written),
        "blocked_paths": list(policy.blocked_paths.written),
        "scope": None if policy.scope is None else list(policy.scope),
        "scratch": list(policy.scratch),
        "readable": list(policy.readable),
        "allowed_commands": list(policy.allowed_commands),
        "blocked_patterns": list(policy.blocked_patterns),
    }


def print_policy(policy: Policy) -> None:
    rows = [(Text(head, "key"), clean_text(words)) for head, words in _list_rules(policy) if words]
    console = make_console()
    print_view(console, Heading(f"What a {policy.role} may do", policy.worktree))
    print_view(console, build_columns(rows, indent=0))


def _list_subagent_tools(policy: Policy) -> tuple[str, ...]:
    """One tool with two names; it is for nobody unless the person lists it."""
    names = ("Task", "Agent")
    return () if any(name in policy.allowed_tools for name in names) else names


def _list_rules(policy: Policy) -> tuple[tuple[str, str], ...]:
    naming = f"new files in {_join_names(policy.naming_globs.written)} are named in {policy.naming_style}"
    return (
        ("use", _join_names((*policy.allowed_tools, *(("StructuredOutput",) if policy.structured_output else ())))),
        ("never use", _join_names((*policy.blocked_tools, *_list_subagent_tools(policy), "mcp__*"))),
        ("read", f"the worktree, {_join_names((*policy.scratch, *policy.readable))}"),
        ("write", "nothing: this role only reads" if policy.read_only else _describe_writable(policy)),
        ("never touch", _join_names(policy.blocked_paths.written)),
        ("run", _join_names(policy.allowed_commands)),
        ("never run", _join_names(policy.blocked_patterns)),
        ("names", naming if policy.naming_style and not policy.read_only else ""),
        ("commits", "" if policy.read_only else f"match {policy.commit_pattern}"),
    )


def _describe_writable(policy: Policy) -> str:
    paths = _join_names(policy.allowed_paths.written)
    scope = "" if policy.scope is None else f", of these only {_join_names(policy.scope or ('.',))}"
    return f"{paths}{scope}" + (f"; and freely {_join_names(policy.scratch)}" if policy.scratch else "")


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "nothing"
