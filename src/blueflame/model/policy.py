"""What one agent may touch, run and reach: one policy for all three walls, and the decisions they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from blueflame.lazy_dataclass import dataclass

CANARY = "BlueflameCanary"
"""A tool that is never allowed: its refusal proves that the watcher works."""

EVERYDAY = "@everyday"
"""The rule for what developers run all day. It holds only where a sandbox does: see `policy/compile`."""

BLOCKED_PATTERNS: Mapping[str, str] = {
    r"rm\s+-rf": "remove files by name, without -r or -f",
    r"git\s+push": "your commits are collected and landed for you; commit and continue",
    r"git\s+checkout\s+main": "stay on your branch; git show main:FILE reads a file of another one",
    r"git\s+merge": "results are merged for you; commit on your branch",
    r"curl|wget": "there is no network; work with what is in the checkout",
    r"sudo": "there are no other rights here; do it without, in your checkout",
    r"chmod": "leave permissions as they are; git add --chmod=+x makes a script executable",
    r"docker": "there are no containers here; run the program itself",
    r"nc\s|netcat|ncat": "there is no network; work with what is in the checkout",
    r"ssh|scp|sftp": "there is no network; work with what is in the checkout",
    r"pip\s+install|npm\s+install|go\s+get": "dependencies are installed before you start; use those that are there",
}
"""The patterns that a list of commands blocks unless others are written, and what to do instead of each."""

CONTROL_FILES = (
    *("blueflame.yaml", "blueflame.yml", ".worktreeinclude", ".blueflame/**"),
    *(".claude/**", ".codex/**", ".gemini/**", ".opencode/**", "opencode.json", "opencode.jsonc", ".cursor/**"),
    *(".cursorrules", ".windsurf/**", ".aider.conf.yml", ".mcp.json", ".vscode/mcp.json", ".vscode/tasks.json"),
    *(".vscode/settings.json", ".vscode/launch.json", ".idea/**", ".zed/**", ".devcontainer/**", ".envrc"),
)
"""Files that steer Blue Flame, the next agent or a person's editor, at any depth. Always blocked, as .git is."""

STRUCTURED_OUTPUT = "StructuredOutput"

SKILL = "Skill"
"""Loads instructions chosen by a person; the calls that follow from them are judged as any other."""


ASK_TOOL = "mcp__blueflame__ask"
"""Asks the person; the warden serves it (watcher/ask_tool). No other tool of an MCP server is ever allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """Path patterns as in .gitignore: as written, and as regular expressions.

    Compiled once, where pathspec is installed; deciding needs only Python's re.
    """

    written: tuple[str, ...] = ()
    regexes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Compiled from the configuration, a task and a role. As JSON it is policy.json in the attempt's folder."""

    role: str
    worktree: str  # absolute and real; paths in rules are relative to it
    agent_id: str = ""
    allowed_tools: tuple[str, ...] = ()
    blocked_tools: tuple[str, ...] = ()
    structured_output: bool = False  # the role has a schema to answer in
    read_only: bool = False  # validators, planners: nothing is written outside of `scratch`
    allowed_paths: Patterns = Patterns()
    blocked_paths: Patterns = Patterns()  # letter case does not count
    scope: tuple[str, ...] | None = None  # the task's locks; None: not enforced
    scratch: tuple[str, ...] = ()  # absolute; private to the sandbox, free to read and write: its /tmp and HOME
    readable: tuple[str, ...] = ()  # absolute; outside of the worktree, and may be read: /usr, toolchains
    allowed_commands: tuple[str, ...] = ()  # by their words; EVERYDAY; "*" alone: any command at all
    blocked_patterns: tuple[str, ...] = ()  # Python's re, searched in each simple command that would run
    naming_style: str = ""
    naming_globs: Patterns = Patterns()
    commit_pattern: str = ""
    commit_example: str = ""
    require_tests: bool = False
    source_patterns: Patterns = Patterns()
    test_patterns: Patterns = Patterns()
    expected_binaries: Patterns = Patterns()
    skills: tuple[str, ...] = ()  # that it may load, without the name of their plugin
    may_ask: bool = False  # the person, with ASK_TOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One use of a tool that an agent asks for."""

    tool: str
    input: Mapping[str, Any]
    cwd: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """`rule` names what decided, for machines; `details` tell the agent what, why, and what to do instead."""

    allowed: bool
    rule: str
    details: str = ""


class PathRules(Protocol):
    """How a path in a command is judged: given as the agent wrote it, relative to where the command runs."""

    def check_read(self, path: str) -> Decision: ...

    def check_write(self, path: str) -> Decision: ...


class PolicyEnvironment(Protocol):
    """What a decision needs to know about files and shell syntax; everything else is pure."""

    def resolve(self, path: str) -> str:
        """The real path of an absolute one as the agent sees it, links followed, also above what does not exist."""

    def parse(self, command: str) -> Mapping[str, Any]:
        """The syntax tree of a shell command, as shfmt's JSON. Raises Unreadable."""

    def read_text(self, path: str) -> str | None:
        """A small text file in the worktree (package.json, Makefile, .git/config); None when it does not exist."""


class UnparsableCommand(Exception):
    """A command that cannot be parsed, so it is unknown what it would do."""
