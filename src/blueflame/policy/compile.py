"""Compile the configuration, a role and a task's locks into the one policy that all three walls obey."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from blueflame.model.policy import BLOCKED_PATTERNS, CONTROL_FILES, EVERYDAY, Policy
from blueflame.paths.locks import parse_locks
from blueflame.policy.path_patterns import compile_patterns

if TYPE_CHECKING:
    from blueflame.model.settings.permissions import PermissionSettings, ValidationSettings
    from blueflame.model.settings.roles import RoleSettings

READ_COMMANDS = (
    *("git diff", "git log", "git show", "git status", "git blame", "git ls-files", "git grep", "git shortlog"),
    *("git ls-tree", "git cat-file", "git rev-list", "git describe", "git branch --show-current", "git branch --list"),
)
"""What a read-only role may run besides the diagnostics.

`ls`, `grep` and `find` need no rule as long as they only read; a rule would let `find -exec` run anything.
"""


_CONTROL_FILES = tuple(f"**/{pattern}" for pattern in CONTROL_FILES)


def compile_policy(
    *,
    permissions: PermissionSettings,
    validation: ValidationSettings,
    role: str,
    role_settings: RoleSettings | None,
    worktree: str,
    scope: Iterable[str] | None,
    agent_id: str = "",
    schema: bool = False,
    answers: bool = False,
    scratch: Iterable[str] = (),
    readable: Iterable[str] = (),
    also_blocked: Iterable[str] = (),
    skills: Iterable[str] = (),
    sandboxed: bool = False,
    may_ask: bool = False,
) -> Policy:
    """Build the policy. Raises BadPattern or BadLock for what cannot be a rule.

    `schema`: the role answers in structured output and only reads. `answers`: it answers so and commits as well.
    `scope` holds the task's locks: () is the whole repository, None enforces no scope. `sandboxed`: a sandbox holds
    the agent, so the rule EVERYDAY holds; without one, only the commands that are listed by their words.
    """
    locks = None if scope is None or not validation.file_scope.enforce else tuple(scope)
    parse_locks(locks or ())  # raises BadLock
    naming = validation.file_naming
    tests = validation.require_tests
    commands = list_commands(permissions, validation, read_only=schema, sandboxed=sandboxed)
    return Policy(
        role=role,
        worktree=worktree,
        agent_id=agent_id,
        allowed_tools=_filter_tools(permissions.allowed_tools, role_settings),
        blocked_tools=permissions.blocked_tools,
        structured_output=schema or answers,
        read_only=schema,
        allowed_paths=compile_patterns(permissions.allowed_paths),
        blocked_paths=compile_patterns((*permissions.blocked_paths, *_CONTROL_FILES, *also_blocked), caseless=True),
        scope=locks,
        scratch=tuple(scratch),
        readable=tuple(readable),
        allowed_commands=commands,
        blocked_patterns=_list_blocked_patterns(permissions, everyday=EVERYDAY in commands),
        naming_style=naming.style if naming.enforce_for else "",
        naming_globs=compile_patterns(naming.enforce_for),
        commit_pattern=validation.commit_format.pattern,
        commit_example=validation.commit_format.example,
        require_tests=tests.enabled,
        source_patterns=compile_patterns(tests.source_patterns),
        test_patterns=compile_patterns(tests.test_patterns),
        expected_binaries=compile_patterns(validation.binaries.expected),
        skills=tuple(skills),
        may_ask=may_ask,
    )


def list_tools(permissions: PermissionSettings, role: RoleSettings | None) -> tuple[str, ...]:
    """Return the tools to offer to an agent of the role: others would be refused."""
    return tuple(
        tool for tool in _filter_tools(permissions.allowed_tools, role) if tool not in permissions.blocked_tools
    )


def _filter_tools(allowed: tuple[str, ...], role: RoleSettings | None) -> tuple[str, ...]:
    own = None if role is None else role.offered_tools
    return allowed if own is None else tuple(tool for tool in allowed if tool in own)


def list_commands(
    permissions: PermissionSettings, validation: ValidationSettings, *, read_only: bool, sandboxed: bool
) -> tuple[str, ...]:
    """Return the commands that a role may run, by their first words."""
    if not read_only:
        listed = permissions.bash_rules.allowed_commands
        return listed if sandboxed else tuple(command for command in listed if command != EVERYDAY)
    diagnostics = validation.validator_diagnostics
    return (*(diagnostics.commands if diagnostics.enabled else ()), *READ_COMMANDS)


def describe_commands(commands: tuple[str, ...]) -> tuple[str, ...]:
    """Say in short lines which commands may run."""
    from blueflame.policy.shell.programs.everyday import EVERYDAY_REFUSED, EVERYDAY_SUMMARY  # late: its tables are long

    listed = tuple(command for command in commands if command != EVERYDAY)
    if EVERYDAY in commands:
        return (*EVERYDAY_SUMMARY, *(f"also {command}" for command in listed), f"not: {EVERYDAY_REFUSED}")
    return (*listed, "ls, cat, grep, find, sed and other programs that only read")


def _list_blocked_patterns(permissions: PermissionSettings, *, everyday: bool) -> tuple[str, ...]:
    """The default patterns belong to a list of commands; EVERYDAY refuses what leaves by itself, and says why."""
    patterns = permissions.bash_rules.blocked_patterns
    return () if everyday and patterns == tuple(BLOCKED_PATTERNS) else patterns
