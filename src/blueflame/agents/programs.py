"""Programs of agents that come from npm: the native one behind its wrapper, or a script with all that it needs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from blueflame.agents.claude.program import is_native
from blueflame.model.errors import ProcessFailed, Refused
from blueflame.system.environment import clean_environment
from blueflame.system.process import run

VERSION_TIMEOUT = 60.0
VERSION_PATTERN = re.compile(r"(\d+)\.(\d+)\.(\d+)")
CLAUDE_MODELS = ("sonnet", "haiku", "opus", "fable")
"""Short names of Claude's models: no other program knows what is meant by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`argv` starts it, `needs` are the files and folders that must be there for that; the first is the program."""

    argv: tuple[str, ...]
    needs: tuple[Path, ...]

    @property
    def path(self) -> Path:
        return self.needs[0]


def find_program(command: str, *, root: Path, native: str = "") -> Program | None:
    """The program that a command line names, on the PATH or as a path from `root`, and its own words after it.

    `native` is where npm keeps the program itself, seen from the folder of packages: a script in its place only
    starts it, and needs a node that nobody else does.
    """
    try:
        name, *words = shlex.split(command)
    except ValueError:  # a quote that is not closed, or nothing at all
        return None
    found = str(root / Path(name).expanduser()) if "/" in name else shutil.which(name)
    if found is None or not Path(found).is_file() or not os.access(found, os.X_OK):
        return None
    real = Path(os.path.realpath(found))
    program = _find_native(real, native) or real
    if is_native(program):
        return Program(argv=(str(program), *words), needs=(program,))
    return _build_script_program(program, words)


def _find_native(script: Path, native: str) -> Path | None:
    packages = _find_node_modules(script)
    if is_native(script) or not native or packages is None:
        return None
    return next((each for each in sorted(packages.glob(native)) if is_native(each)), None)


def _build_script_program(script: Path, words: Sequence[str]) -> Program | None:
    """Started by its interpreter's real path: inside a box there is no PATH of the person's."""
    interpreter = _find_interpreter(script)
    if interpreter is None:
        return None
    around = _find_node_modules(script) or script.parent
    return Program(argv=(interpreter, str(script), *words), needs=(script, around, Path(interpreter)))


def _find_interpreter(script: Path) -> str | None:
    try:
        with script.open("rb") as file:
            first = file.readline(200).decode("utf-8", "replace")
    except OSError:
        return None
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    names = [word for word in words if not word.startswith("-") and Path(word).name != "env"]
    found = shutil.which(names[0]) if names else None
    return os.path.realpath(found) if found else None


def _find_node_modules(program: Path) -> Path | None:
    """The outermost folder of packages above it: one package finds another there."""
    above = [folder for folder in program.parents if folder.name == "node_modules"]
    return above[-1] if above else None


def read_version(program: Program) -> str:
    """Asked once for each program file. Raises ProcessFailed."""
    stat = program.path.stat()
    return _read_version_cached(program.argv, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _read_version_cached(argv: tuple[str, ...], _mtime: int, _size: int) -> str:
    """In a home of its own: a look must leave nothing behind."""
    with tempfile.TemporaryDirectory(prefix="blueflame-") as home:
        env = clean_environment(os.environ) | {"HOME": home}
        said = run(*argv, "--version", cwd=Path(home), env=env, timeout=VERSION_TIMEOUT).out
    found = VERSION_PATTERN.search(said)
    return found[0] if found else ""


def check_version(program: Program, name: str, oldest: str, how: str) -> str:
    """Why it is not new enough to be trusted; empty when it is."""
    try:
        version = read_version(program)
    except (ProcessFailed, OSError) as e:
        return f"{program.path} cannot be used: {e}"
    if not version:
        return f"{program.path} is not {name}: it does not say its version"
    if _parse_version(version) < _parse_version(oldest):
        return f"{name} {version} at {program.path} is too old: {oldest} or newer is needed; {how}"
    return ""


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def check_model(model: str, role: str, kind: str) -> str:
    """The model's name, once it is one that this program can know. Raises Refused: nobody guesses what was meant."""
    if model and model not in CLAUDE_MODELS:
        return model
    named = f"is {model!r}, a name that only Claude's program knows" if model else "is empty"
    raise Refused(f"roles.{role}.model {named}; set it to a model that {kind} can use")


def check_variables(name: str, env: Mapping[str, str], theirs: str) -> tuple[str, ...]:
    """Variables that could lead an agent around its hook or its gateway; `theirs` matches its program's own."""
    ours = r"HOME|BLUEFLAME_.*|LD_.*|DYLD_.*|NODE_.*|BUN_.*|BASH_ENV|ENV|XDG_.*|PATH"
    doors = re.compile(f"{ours}|{theirs}", re.IGNORECASE)
    return tuple(
        f"runtimes.{name}.env: {each} can lead the agent around its hook or its gateway; take it out"
        for each in sorted(env)
        if doors.fullmatch(each)
    )
