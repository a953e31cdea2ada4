"""The claude program: where it is, what it is, and whether it can be held to what we ask of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from blueflame.model.errors import ProcessFailed
from blueflame.system.environment import clean_environment
from blueflame.system.process import run

MIN_VERSION = (2, 1, 295)
"""The first that can be told to refuse a call when its hook fails; older ones wave it through, and say nothing."""

REQUIRED_FLAGS = (
    *("--print", "--output-format", "--verbose", "--include-partial-messages", "--include-hook-events"),
    *("--setting-sources", "--strict-mcp-config", "--permission-mode", "--permission-prompts", "--settings"),
    *("--tools", "--disallowed-tools", "--append-system-prompt-file", "--model", "--json-schema", "--plugin-dir"),
    *("--max-budget-usd", "--no-session-persistence", "--session-id", "--resume"),
)
INSTALL_HINT = "install it with `pip install claude-agent-sdk` (which brings it along) or `npm install -g @anthropic-ai/claude-code`, or name it in runtimes.claude.command"  # noqa: E501
NATIVE_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
NPM_SCOPE = "@anthropic-ai"
PROBE_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`argv` starts it, `needs` are the files that must be there for that."""

    argv: tuple[str, ...]
    needs: tuple[Path, ...]

    @property
    def path(self) -> Path:
        return self.needs[0]


def find_claude(command: str | None, *, root: Path, environ: Mapping[str, str]) -> Program | None:
    """The one that was named, else the one on the PATH, else the one that comes with the Python package."""
    try:
        name, *words = shlex.split(command or "claude")
    except ValueError:  # a quote that is not closed, or nothing at all
        return None
    if "/" in name:
        found: str | None = str(root / Path(name).expanduser())
    else:
        found = shutil.which(name, path=environ.get("PATH")) or (None if command else find_bundled())
    if found is None or not os.access(found, os.X_OK) or not Path(found).is_file():
        return None
    real = find_native(Path(os.path.realpath(found)))
    return Program(argv=(str(real), *words), needs=(real,))


def find_bundled() -> str | None:
    """Looked for and not imported: the package brings much along that nobody needs here."""
    spec = find_spec("claude_agent_sdk")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder, "_bundled", "claude")
        if program.is_file():
            return str(program)
    return None


def find_native(program: Path) -> Path:
    """npm puts a script before the native program when it could not link it; the box is to have the program itself."""
    if is_native(program):
        return program
    for folder in program.parents:
        if folder.parent.name == NPM_SCOPE and folder.name.startswith("claude-code"):
            near = (folder.parent, folder / "node_modules" / NPM_SCOPE)
            found = [each for place in near for each in sorted(place.glob("claude-code-*/claude*"))]
            return next((each for each in found if os.access(each, os.X_OK) and is_native(each)), program)
    return program


def is_native(program: Path) -> bool:
    try:
        with program.open("rb") as file:
            return file.read(4) in NATIVE_MAGIC
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class ProbeResult:
    version: str
    problems: tuple[str, ...]


def probe_program(program: Program) -> ProbeResult:
    """Asked once for each program file: it is not cheap, and the answer changes only when the file does."""
    try:
        stat = program.path.stat()
    except OSError as e:
        return ProbeResult("", (f"{program.path} cannot be looked at: {e.strerror}",))
    return _probe_cached(program.argv, str(program.path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _probe_cached(argv: tuple[str, ...], path: str, _mtime: int, _size: int) -> ProbeResult:
    try:
        said, offered = (_run_with_flag(argv, flag) for flag in ("--version", "--help"))
    except ProcessFailed as e:
        return ProbeResult("", (f"{path} cannot be used: {e}",))
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", said)
    if not found:
        return ProbeResult("", (f"{path} is not Claude Code: asked for its version it says {said.strip()[:80]!r}",))
    version = found[0]
    return ProbeResult(version, tuple(_find_shortcomings(path, version, offered)))


def _run_with_flag(argv: Sequence[str], flag: str) -> str:
    """In a home of its own: a look must leave nothing behind, and find nothing that steers it."""
    with tempfile.TemporaryDirectory(prefix="blueflame-") as home:
        quiet = {"HOME": home, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
        return run(*argv, flag, cwd=Path(home), env=clean_environment(os.environ) | quiet, timeout=PROBE_TIMEOUT).out


def _find_shortcomings(path: str, version: str, offered: str) -> Iterator[str]:
    if tuple(map(int, version.split("."))) < MIN_VERSION:
        oldest = ".".join(map(str, MIN_VERSION))
        yield (
            f"claude {version} at {path} is too old: {oldest} or newer is needed, because older ones let a call "
            f"through when their hook fails; {INSTALL_HINT}"
        )
    lacking = [flag for flag in REQUIRED_FLAGS if not _has_flag(offered, flag)]
    if lacking:
        yield f"claude {version} at {path} does not know {', '.join(lacking)}; {INSTALL_HINT}"


def _has_flag(offered: str, flag: str) -> bool:
    """As its help writes it: some flags have a second form in brackets, `--name[-file]`."""
    base = flag.removesuffix("-file")
    words = [flag] if base == flag else [flag, f"{base}[-file]"]
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", offered) for word in words)
