"""The claude program: where it is, whether it can be governed, and which arguments, variables and plugins may be added.

All three are lists of what is known to be harmless: a new version brings new ways to switch the hook off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from blueflame.agents.programs import VERSION_PATTERN, Program, is_native, locate_command, parse_version, run_with_flag
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ProcessFailed

MIN_VERSION = "2.1.295"
"""The first that can be set to refuse a call when its hook fails; older ones allow it silently."""

REQUIRED_FLAGS = (
    *("--print", "--output-format", "--verbose", "--include-partial-messages", "--include-hook-events"),
    *("--setting-sources", "--strict-mcp-config", "--permission-mode", "--permission-prompts", "--settings"),
    *("--tools", "--disallowed-tools", "--append-system-prompt-file", "--model", "--json-schema", "--plugin-dir"),
    *("--max-budget-usd", "--no-session-persistence", "--session-id", "--resume"),
)
INSTALL_HINT = (
    "install it with `pip install claude-agent-sdk` (which includes it) or `npm install -g @anthropic-ai/claude-code`, "
    "or name it in runtimes.claude.command"
)
NPM_SCOPE = "@anthropic-ai"
PROBE_ENVIRONMENT = (("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1"))

ALLOWED_FLAGS = (
    *("--effort", "--fallback-model", "--betas", "--autocompact", "--max-turns", "--verbose"),
    *("--exclude-dynamic-system-prompt-sections", "--system-prompt-snapshot", "--ax-screen-reader"),
)
CLAUDE_VARIABLE = re.compile(r"(CLAUDE|ANTHROPIC).*", re.IGNORECASE)
ALLOWED_VARIABLE = re.compile(
    r"ANTHROPIC_(DEFAULT_\w+_)?MODEL|ANTHROPIC_SMALL_FAST_MODEL|CLAUDE_CODE_SUBAGENT_MODEL|CLAUDE_CODE_EFFORT_LEVEL"
    r"|CLAUDE_CODE_(MAX_OUTPUT_TOKENS|FILE_READ_MAX_OUTPUT_TOKENS)|CLAUDE_CODE_DISABLE_(THINKING|ADAPTIVE_THINKING)"
)
FORBIDDEN_VARIABLE = re.compile(
    r"HOME|IS_SANDBOX|BLUEFLAME_.*|LD_.*|DYLD_.*|BUN_.*|NODE_OPTIONS|BASH_ENV|ENV|API_TIMEOUT_MS", re.IGNORECASE
)
MANIFEST = ".claude-plugin/plugin.json"


def find_claude(command: str | None, *, root: Path) -> Program | None:
    """Find the named program, else the one on the PATH, else the one in the Python package."""
    located = locate_command(command or "claude", root=root, fallback=(lambda: None) if command else find_bundled)
    if located is None:
        return None
    path, words = located
    real = find_native(path)
    return Program(argv=(str(real), *words), needs=(real,))


def find_bundled() -> str | None:
    """Find the one in the Python package without importing it: that would load much that is not needed."""
    spec = find_spec("claude_agent_sdk")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder, "_bundled", "claude")
        if program.is_file():
            return str(program)
    return None


def find_native(program: Path) -> Path:
    """Find the program behind the script that npm installs when it cannot link it: the sandbox shows only that."""
    if is_native(program):
        return program
    for folder in program.parents:
        if folder.parent.name == NPM_SCOPE and folder.name.startswith("claude-code"):
            near = (folder.parent, folder / "node_modules" / NPM_SCOPE)
            found = [each for place in near for each in sorted(place.glob("claude-code-*/claude*"))]
            return next((each for each in found if os.access(each, os.X_OK) and is_native(each)), program)
    return program


@dataclass(frozen=True, slots=True)
class ProbeResult:
    version: str
    problems: tuple[str, ...]


def probe_program(program: Program) -> ProbeResult:
    path = str(program.path)
    try:
        printed, offered = (run_with_flag(program, flag, PROBE_ENVIRONMENT) for flag in ("--version", "--help"))
    except OSError as e:
        return ProbeResult("", (f"{path} cannot be read: {e.strerror}",))
    except ProcessFailed as e:
        return ProbeResult("", (f"{path} cannot be used: {e}",))
    found = VERSION_PATTERN.match(printed)
    if not found:
        return ProbeResult("", (f"{path} is not Claude Code: --version prints {printed.strip()[:80]!r}",))
    return ProbeResult(found[0], tuple(_find_shortcomings(path, found[0], offered)))


def _find_shortcomings(path: str, version: str, offered: str) -> Iterator[str]:
    if parse_version(version) < parse_version(MIN_VERSION):
        yield (
            f"claude {version} at {path} is too old: {MIN_VERSION} or newer is needed, because older ones allow a call "
            f"when their hook fails; {INSTALL_HINT}"
        )
    lacking = [flag for flag in REQUIRED_FLAGS if not _has_flag(offered, flag)]
    if lacking:
        yield f"claude {version} at {path} does not know {', '.join(lacking)}; {INSTALL_HINT}"


def _has_flag(offered: str, flag: str) -> bool:
    """Whether the help lists the flag; some have a second form in brackets, `--name[-file]`."""
    base = flag.removesuffix("-file")
    words = [flag] if base == flag else [flag, f"{base}[-file]"]
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", offered) for word in words)


def check_arguments(args: Sequence[str]) -> Iterator[str]:
    for arg in args:
        flag = arg.split("=")[0]
        if arg.startswith("-") and flag not in ALLOWED_FLAGS:
            known = ", ".join(ALLOWED_FLAGS)
            yield f"runtimes.claude.args: {flag} is not known to be harmless; remove it (allowed: {known})"
    if args and not args[0].startswith("-"):
        yield f"runtimes.claude.args: {args[0]!r} is not a flag: claude would take it for a prompt; remove it"


def check_variables(env: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(env):
        own = CLAUDE_VARIABLE.fullmatch(name) and not ALLOWED_VARIABLE.fullmatch(name)
        if own or FORBIDDEN_VARIABLE.fullmatch(name):
            yield f"runtimes.claude.env: {name} could bypass claude's hook or gateway; remove it"


def resolve_plugins(given: Iterable[str], root: Path) -> tuple[Path, ...]:
    """Resolve the folders; relative ones start from the configuration's folder."""
    found = (Path(os.path.realpath(root / Path(each).expanduser())) for each in given)
    return tuple(dict.fromkeys(found))


def check_plugin(folder: Path, repo: Path | None) -> str:
    """Return why the plugin cannot be loaded; "" when it can."""
    if repo is not None and folder.is_relative_to(os.path.realpath(repo)):
        return f"the plugin {folder} is inside the repository, where agents could change it; move it out of there"
    if not (folder / MANIFEST).is_file():
        return f"{folder} is not a plugin: it has no {MANIFEST}; name a folder that has one, or remove the entry"
    return ""


def list_skills(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(each.parent.name for each in (folder / "skills").glob("*/SKILL.md")))
