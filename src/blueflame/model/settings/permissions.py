"""What agents may touch and run, and what a result must keep: permissions, sandbox and validation."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from blueflame.model.policy import BLOCKED_PATTERNS, EVERYDAY
from blueflame.model.settings.fields import (
    Command,
    Duration,
    Glob,
    HostName,
    InvalidValue,
    Regex,
    RegexOrEmpty,
    Section,
    Text,
    VariableName,
    build_tuple_field,
)

COMMIT_EXAMPLE = "feat(task-001): add JWT middleware"


def _is_match(pattern: object, example: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful pattern is refused where it is checked
            return isinstance(pattern, str) and re.search(pattern, example) is not None
    except (re.error, OverflowError, RecursionError):
        return False


class SandboxSettings(Section):
    level: Literal["strict", "standard", "off"] = "standard"
    """The minimum level; without it a session does not start. strict: memory and processes held by the kernel, too;
    off: no sandbox at all, agents run as you."""
    max_cpu_seconds: int = Field(default=7200, ge=1, le=10**7)
    """CPU time of one agent."""
    max_memory_mb: int | None = Field(default=None, ge=64, le=10**8)
    """Memory of one agent with all its processes; left out: its share of what is free on the machine, 2048 at least."""
    max_file_size_mb: int = Field(default=1024, ge=1, le=10**7)
    """The largest file an agent may write."""
    max_open_files: int = Field(default=8192, ge=64, le=10**6)
    """File descriptors of one agent."""
    max_processes: int = Field(default=2048, ge=16, le=10**6)
    """Processes and threads of one agent at the same time."""
    min_free_disk_mb: int = Field(default=500, ge=0, le=10**8)
    """An agent is ended when less than this is left on the disk it writes to; 0 = never."""
    allow_network: bool = False
    """Whether agents may reach the whole network as you can. Leave it false and name hosts instead."""
    allowed_hosts: tuple[HostName, ...] = build_tuple_field()
    """Hosts that agents and setup commands may reach through the gateway, such as example.org or *.example.net:443."""
    model_features: tuple[Text, ...] = build_tuple_field()
    """What agents may have their model's provider do besides answering, such as web_fetch_*, url or mcp_servers: tools,
    fields and betas by name. Each can reach other hosts, run code or change the price."""
    read_only: tuple[Text, ...] = build_tuple_field()
    """More folders or files to show inside, read-only: toolchains and caches that are not found by themselves."""
    writable: tuple[Text, ...] = build_tuple_field()
    """Folders outside of the checkout that agents may write to. Each is a hole in the wall."""
    environment: tuple[VariableName, ...] = build_tuple_field()
    """More environment variables of yours to pass on. No secrets: the agent can read them."""

    @model_validator(mode="after")
    def _strict_has_no_open_network(self) -> SandboxSettings:
        if self.level == "strict" and self.allow_network:
            raise InvalidValue(
                "an open network contradicts level strict",
                "name hosts in allowed_hosts, or use level standard",
                at=("allow_network",),
                got="true",
            )
        return self


class BashRules(Section):
    allowed_commands: tuple[Command, ...] = build_tuple_field(
        (EVERYDAY, "make", "git diff", "git status", "git log", "git add", "git commit")
    )
    """Commands an agent may run, by their first words. "@everyday", in the sandbox: toolchains with any arguments, file
    commands within the scope, git on its own checkout, programs of the repository; with level off it allows nothing."""
    blocked_patterns: tuple[Regex, ...] = build_tuple_field(tuple(BLOCKED_PATTERNS))
    """Regular expressions (Python's re, searched anywhere) that refuse a command even if it is allowed. Where @everyday
    holds, the default ones do not apply: it refuses by itself what leaves the checkout or the machine."""

    @model_validator(mode="after")
    def _only_known_sets(self) -> BashRules:
        unknown = next((each for each in self.allowed_commands if each.startswith("@") and each != EVERYDAY), None)
        if unknown is not None:
            raise InvalidValue(
                "is not a set of commands",
                f'write "{EVERYDAY}", or the first words of a command',
                at=("allowed_commands",),
                got=unknown,
            )
        return self


class PermissionSettings(Section):
    allowed_paths: tuple[Glob, ...] = build_tuple_field(("src/**", "tests/**", "docs/**"))
    """Globs of what agents may write, as in .gitignore: without / they match at any depth. [] = nothing."""
    blocked_paths: tuple[Glob, ...] = build_tuple_field(
        (
            ".env*",
            "*.secret",
            "*.key",
            "blueflame.yaml",
            ".claude/**",
            ".blueflame/**",
            "go.mod",
            "go.sum",
            "package-lock.json",
        )
    )
    """Globs of what agents never touch, whatever is allowed. Files that steer Blue Flame, agents and editors
    (blueflame.yaml, .claude, .mcp.json, .vscode/tasks.json and the like) are always blocked, as .git is."""
    allowed_tools: tuple[Text, ...] = build_tuple_field(("Read", "Write", "Edit", "Glob", "Grep", "Bash"))
    """Tools agents may use; any other is refused."""
    blocked_tools: tuple[Text, ...] = build_tuple_field(("WebFetch", "WebSearch", "NotebookEdit", "Task"))
    """Tools agents never use. A worker must not start agents."""
    bash_rules: BashRules = Field(default_factory=BashRules)
    """What agents may run in a shell."""

    @model_validator(mode="after")
    def _no_tool_on_both_lists(self) -> PermissionSettings:
        both = [tool for tool in self.allowed_tools if tool in self.blocked_tools]
        if both:
            raise InvalidValue(f"{both[0]} is both allowed and blocked", "keep it on one of the two lists", got=both[0])
        return self


class CommitFormat(Section):
    pattern: RegexOrEmpty = ""
    """What the first line of a commit message must match (Python's re); others are reworded. Empty: the style of the
    last commits counts."""
    example: str = ""
    """Shown to agents; must match the pattern. Empty = none."""

    @model_validator(mode="before")
    @classmethod
    def _own_pattern_needs_own_example(cls, data: object) -> object:
        """The default example goes with the default pattern; another pattern has none unless one is written."""
        if isinstance(data, dict) and "pattern" in data and "example" not in data:
            return {**data, "example": COMMIT_EXAMPLE if _is_match(data["pattern"], COMMIT_EXAMPLE) else ""}
        return data

    @model_validator(mode="after")
    def _example_matches(self) -> CommitFormat:
        if self.example and not _is_match(self.pattern, self.example):
            raise InvalidValue(
                "does not match commit_format.pattern",
                "write an example that the pattern accepts",
                at=("example",),
                got=self.example,
            )
        return self


class FileNaming(Section):
    style: Literal["snake_case", "camelCase", "PascalCase", "kebab-case"] = "snake_case"
    """How new files are named: snake_case, camelCase, PascalCase or kebab-case."""
    enforce_for: tuple[Glob, ...] = build_tuple_field()
    """Globs of the files that this holds for; none = not enforced."""


class RequireTests(Section):
    enabled: bool = True
    """Whether a change to source files needs a change to tests. Without source_patterns it has no effect."""
    source_patterns: tuple[Glob, ...] = build_tuple_field()
    """Globs of source files."""
    test_patterns: tuple[Glob, ...] = build_tuple_field()
    """Globs of test files."""


class FileScope(Section):
    enforce: bool = True
    """Whether a result may only change what its task's file_locks cover."""


class ValidatorDiagnostics(Section):
    enabled: bool = True
    """Whether the commands are run on every result before it is reviewed, and may be run by validators."""
    commands: tuple[Command, ...] = build_tuple_field()
    """Run one after the other on every result, in a fresh checkout. Each must end with exit code 0, or fail on the
    base, too, with no new failures."""
    timeout: Duration = 900.0
    """Limit for each command."""


class BinarySettings(Section):
    expected: tuple[Glob, ...] = build_tuple_field()
    """Globs of binary files that a result may add or change; any other is a violation."""


class SecretSettings(Section):
    enabled: bool = True
    """Whether added lines are searched for keys, tokens and passwords."""
    allow_file: Text = ".blueflame-secrets"
    """Lists findings that are not secrets, one pattern or fingerprint per line; relative to the repository."""
    scanner: Literal["auto", "kingfisher", "builtin"] = "auto"
    """What scans a changeset before it lands: kingfisher where it is installed, else the built-in rules."""
    timeout: Duration = 300.0
    """For kingfisher: how long a scan may take. Then it is tried again later, as all that fails outside of us."""


class ValidationSettings(Section):
    commit_format: CommitFormat = Field(default_factory=CommitFormat)
    """What commit messages look like."""
    file_naming: FileNaming = Field(default_factory=FileNaming)
    """What new files are called."""
    require_tests: RequireTests = Field(default_factory=RequireTests)
    """Whether source changes need tests."""
    file_scope: FileScope = Field(default_factory=FileScope)
    """Whether a result stays within its task's locks."""
    binaries: BinarySettings = Field(default_factory=BinarySettings)
    """Which binary files are expected."""
    secrets: SecretSettings = Field(default_factory=SecretSettings)
    """Whether results are searched for secrets."""
    validator_diagnostics: ValidatorDiagnostics = Field(default_factory=ValidatorDiagnostics)
    """The commands whose exit codes count."""
    validator_models: Mapping[Text, Text] = Field(default_factory=dict)
    """Another validator model for a cohesion group: `payments: opus`."""
