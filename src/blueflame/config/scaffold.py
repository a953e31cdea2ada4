"""Builds the first blueflame.yaml for a repository: commented, and validated before it is returned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from blueflame.config.detect.choose_commands import CommandChoice
from blueflame.config.detect.commands import Commands
from blueflame.config.detect.repository import Survey
from blueflame.config.load import parse_config
from blueflame.documents.yaml import quote_text
from blueflame.model.errors import InternalError
from blueflame.model.policy import EVERYDAY
from blueflame.model.settings.fields import CONTROL_CHARACTER
from blueflame.paths.file_kinds import TEST_FOLDERS
from blueflame.paths.globs import BadPattern, Globs

ALWAYS_BLOCKED = (
    ".env*",
    "*.secret",
    "*.key",
    "*.pem",
    "blueflame.yaml",
    ".claude/**",
    ".blueflame/**",
    ".git/**",
    ".gitlab-ci.yml",
)
GIT_COMMANDS = ("git diff", "git status", "git log", "git add", "git commit")
FALLBACK_PATHS = ("src/**", "tests/**", "docs/**")


def build_config_text(survey: Survey, *, repo: str = ".", choice: CommandChoice | None = None) -> str:
    """`repo` is the repository as seen from the file's folder; `choice` is what was tried and kept."""
    text = "\n".join(_iter_lines(survey, repo, choice or CommandChoice(commands=survey.commands))) + "\n"
    permissions = parse_config(text, path=Path("blueflame.yaml")).settings.permissions
    allowed, blocked = Globs(permissions.allowed_paths), Globs(permissions.blocked_paths)
    shut = [file for file in survey.sources if blocked.matches(file) or not allowed.matches(file)]
    odd = tuple(list_unwritable_paths(survey))
    if any(not file.startswith(odd) for file in shut):
        raise InternalError(f"the configuration for {survey.repo} does not allow its source {shut[0]!r}")
    return text


def build_allowed_paths(survey: Survey) -> tuple[str, ...]:
    """Globs that reach every source file, places for tests and documents, and manifests: their changes are reviewed."""
    folders = [f"{escape_glob(folder)}/**" for folder in survey.folders if _is_writable(folder)]
    beside = [f"/*{escape_glob(suffix)}" for suffix in survey.root_suffixes if _is_writable(suffix)]
    files = [f"/{escape_glob(name)}" for name in survey.root_names if _is_writable(name)]
    manifests = [escape_glob(name) for name in survey.manifests if _is_writable(name)]
    usual = FALLBACK_PATHS if not folders else FALLBACK_PATHS[1:]
    return tuple(dict.fromkeys([*folders, *beside, *files, *usual, *manifests]))


def build_blocked_paths(survey: Survey) -> tuple[str, ...]:
    """Secrets and Blue Flame's own files; no pattern that matches a source file."""
    found = [f"/{escape_glob(file)}" for file in survey.secret_files if _is_writable(file)]
    wanted = dict.fromkeys([*ALWAYS_BLOCKED, *found])
    return tuple(pattern for pattern in wanted if not _blocks_sources(pattern, survey))


def list_unwritable_paths(survey: Survey) -> Iterator[str]:
    """Folders whose names cannot be a glob: with a line break, or not UTF-8."""
    yield from (f"{folder}/" for folder in (*survey.folders, *survey.other_folders) if not _is_writable(folder))
    yield from (file for file in survey.sources if "/" not in file and not _is_writable(PurePosixPath(file).suffix))


def escape_glob(name: str) -> str:
    """The glob that matches only this name."""
    plain = re.sub(r"([\\*?\[\]{}])", r"\\\1", name)
    return re.sub(r"^[#!~ ]| $", r"\\\g<0>", plain)


def _is_writable(name: str) -> bool:
    return (
        name.isprintable() and not CONTROL_CHARACTER.search(name) and not any("\ud800" <= c <= "\udfff" for c in name)
    )


def _blocks_sources(pattern: str, survey: Survey) -> bool:
    try:
        globs = Globs((pattern,))
    except BadPattern:
        return True
    return any(globs.matches(file) for file in survey.sources)


def _iter_lines(survey: Survey, repo: str, choice: CommandChoice) -> Iterator[str]:
    yield from HEAD
    yield f"  name: {quote_text(survey.name)}"
    if repo != ".":
        yield f"  repo: {quote_text(repo)}                  # relative to this file"
    yield f"  base_branch: {quote_text(survey.base_branch)}"
    yield from MIDDLE
    yield from _format_permissions(survey, choice.commands)
    yield from _format_validation(survey, choice)
    yield from _format_worktree(choice)


def _format_permissions(survey: Survey, commands: Commands) -> Iterator[str]:
    yield from ("", "permissions:", "  allowed_paths:                # what agents may write; globs as in .gitignore")
    yield from _format_items(build_allowed_paths(survey))
    for folder in survey.other_folders:
        pattern = f"{escape_glob(folder)}/**"
        if _is_writable(folder) and pattern not in build_allowed_paths(survey):
            yield f"    # - {quote_text(pattern)}"
    yield "  blocked_paths:                # what they never touch"
    yield from _format_items(build_blocked_paths(survey))
    yield from EVERYDAY_COMMANDS
    yield from _format_items((*_list_allowed_commands(commands), *GIT_COMMANDS), indent=6)


def _list_allowed_commands(commands: Commands) -> tuple[str, ...]:
    parts = [part.strip() for command in commands.checks for part in command.split("&&")]
    return tuple(dict.fromkeys(parts))


def _format_validation(survey: Survey, choice: CommandChoice) -> Iterator[str]:
    yield from ("", "validation:")
    yield from _format_tests(survey)
    commands = choice.commands.checks
    yield "  validator_diagnostics:        # run on every result; none may fail that passed before"
    if not commands:
        yield "    commands: []                # name the command that runs your tests"
    else:
        yield "    commands:"
    if left := choice.describe_left_behind():
        yield f"      # {left}"
    for command in commands:
        if red := choice.describe_red(command):
            yield f"      # red on {survey.base_branch}, {red}"
        yield from _format_items((command,), indent=6)
    yield from _format_left_out(choice, setup=False, indent=6)
    yield "    timeout: 15m                # for each command"


def _format_tests(survey: Survey) -> Iterator[str]:
    sources = _build_patterns(file for file in survey.sources if file not in set(survey.test_files))
    tests = tuple(_build_test_patterns(survey.test_files, frozenset(sources)))
    if tests and sources:
        yield "  require_tests:"
        yield "    enabled: false              # true: a change to sources needs a change to tests"
        yield from ("    source_patterns:", *_format_items(sources, indent=6))
        yield from ("    test_patterns:", *_format_items(tests, indent=6))


def _build_patterns(files: Iterable[str]) -> tuple[str, ...]:
    """`src/**/*.py` for each top-level folder and suffix."""
    pairs = {(file.split("/", 1)[0] if "/" in file else "", PurePosixPath(file).suffix) for file in files}
    usable = sorted(pair for pair in pairs if all(_is_writable(part) for part in pair))
    return tuple(
        f"{escape_glob(top)}/**/*{escape_glob(end)}" if top else f"/*{escape_glob(end)}" for top, end in usable
    )


def _build_test_patterns(files: Iterable[str], sources: frozenset[str]) -> Iterator[str]:
    """As those of sources, but by name where both are in one folder: else each source would count as a test."""
    kinds: dict[str, list[str]] = {}
    for file in filter(_is_writable, files):
        for pattern in _build_patterns((file,)):
            kinds.setdefault(pattern, []).append(file)
    for pattern, found in sorted(kinds.items()):
        top = pattern.rpartition("/")[0]
        yield from sorted({f"{top}/{_word_test_name(file)}" for file in found}) if pattern in sources else (pattern,)


def _word_test_name(file: str) -> str:
    """`*_test.go`, `test_*.py`, `__tests__/**/*.ts`; the whole name where nothing else marks a test."""
    stem, suffix = PurePosixPath(file).stem, escape_glob(PurePosixPath(file).suffix)
    if folder := next((part for part in PurePosixPath(file).parts[1:-1] if part in TEST_FOLDERS), ""):
        return f"{folder}/**/*{suffix}"
    if mark := re.search(r"([._-](?:tests?|spec)|Tests?)$", stem):
        return f"*{mark[0]}{suffix}"
    return f"test_*{suffix}" if stem.startswith("test_") else f"{escape_glob(stem)}{suffix}"


def _format_worktree(choice: CommandChoice) -> Iterator[str]:
    commands = choice.commands
    lost = [left for left in choice.left_out if left.setup]
    if not commands.setup and not lost:
        return
    if not commands.setup:
        yield from ("", "worktree:", "  setup: []                     # makes each agent's fresh checkout ready")
        yield from _format_left_out(choice, setup=True, indent=4)
        return
    yield from (
        "",
        "worktree:",
        "  setup:                        # makes each agent's fresh checkout ready before it starts",
    )
    yield from _format_items(commands.setup)
    yield from _format_left_out(choice, setup=True, indent=4)
    if commands.registries:
        yield "  registries:                   # what setup may download from; agents may not"
        yield from _format_items(commands.registries)


def _format_left_out(choice: CommandChoice, *, setup: bool, indent: int) -> Iterator[str]:
    """What did not work when it was tried, as comments."""
    for left in choice.left_out:
        if left.setup is setup:
            yield f"{' ' * indent}# - {quote_text(left.command)}" + (f"  # {left.reason}" if left.reason else "")


def _format_items(values: Iterable[str], *, indent: int = 4) -> Iterator[str]:
    yield from (f"{' ' * indent}- {quote_text(value)}" for value in values)


EVERYDAY_COMMANDS = f"""\
  bash_rules:
    allowed_commands:           # by their first words
      - "{EVERYDAY}"             # in the sandbox: toolchains, file commands in scope, git on its own checkout
                                # (`blueflame policy explain` lists it); without a sandbox only these:""".splitlines()

HEAD = """\
# Blue Flame's configuration, written by `blueflame init` for this repository.
# Review it: agents may do what it allows. Keys that are left out have defaults: `blueflame config show` lists all of
# them, `blueflame config check` reports problems, and Blue Flame's docs/reference/config.md explains each.

schema_version: 2

project:""".splitlines()

MIDDLE = """\

concurrency:
  development: 4                # workers at once, 1 to 8
  validation: 2                 # validators at once

limits:
  agent_timeout: 30m            # for one attempt; roles.<role>.timeout sets another for one role
  max_retries: 2                # of a task whose attempt failed
  max_wave_cycles: 5
  max_session_cost_usd: 30.00   # 0 = unlimited; or max_session_tokens instead

roles:                          # runtime: claude by default; with --script, agents that play a script
  planner: { model: sonnet, budget_usd: 2.00 }
  worker: { model: sonnet, budget_usd: 5.00 }
  validator: { model: sonnet, timeout: 10m, budget_usd: 1.00 }
  merger: { model: sonnet, budget_usd: 2.00 }

planning:
  triage: auto                  # small requests run without a plan; code: ask no agent; suggest: only say the size; off
  workflow: waves               # of the others. waves: in step; flow: each task as soon as it may""".splitlines()
