"""Programs of agents: where they are, which version, and what the runtimes that start one have in common."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

from blueflame.agents import fence
from blueflame.agents.hook import find_hook
from blueflame.agents.runtime import MAX_DETAIL_CHARS, AgentBrief
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Duty
from blueflame.model.errors import ProcessFailed, Refused
from blueflame.model.runtime_support import CLAUDE_MODELS
from blueflame.system.environment import clean_environment
from blueflame.system.files import write_atomically
from blueflame.system.process import run

PROBE_TIMEOUT = 60.0  # seconds
VERSION_PATTERN = re.compile(r"(\d+)\.(\d+)\.(\d+)")
NATIVE_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
PLACEHOLDER = re.compile(r"\{(gateway|token|model)\}")
FORBIDDEN_VARIABLES = r"HOME|BLUEFLAME_.*|LD_.*|DYLD_.*|NODE_.*|BUN_.*|BASH_ENV|ENV|XDG_.*|PATH"

GATEWAY_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "anthropic": {
        "ANTHROPIC_BASE_URL": "{gateway}/anthropic",
        "ANTHROPIC_API_KEY": "{token}",
        "ANTHROPIC_MODEL": "{model}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
        "DISABLE_AUTOUPDATER": "1",
    },
    "openai": {"OPENAI_BASE_URL": "{gateway}/openai", "OPENAI_API_KEY": "{token}"},
    "gemini": {"GOOGLE_GEMINI_BASE_URL": "{gateway}/gemini", "GEMINI_API_KEY": "{token}"},
}
"""Environment variables that point the agents of each API to the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`argv` starts it; `needs` are the files and folders that its sandbox must show, the program itself first."""

    argv: tuple[str, ...]
    needs: tuple[Path, ...]

    @property
    def path(self) -> Path:
        return self.needs[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmPackage:
    """A program from npm that can be governed from `min_version` on."""

    program: str
    package: str
    min_version: str
    own_variables: str  # matches environment variables by which the program could bypass its hook
    native: str = ""  # glob of the native program below node_modules; a script in its place only starts it

    def build_install_hint(self) -> str:
        return (
            f"install it with `npm install -g {self.package}@{self.min_version}`, "
            f"or name it in runtimes.{self.program}.command"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRuntime:
    """The settings of a runtime that starts a command. Subclasses say what can be wrong with them."""

    wanted: ClassVar[str] = "the program"
    root: Path  # relative paths in the settings start here
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    repo: Path | None = None
    reports_end: bool = True

    @classmethod
    def from_options(cls, options: Mapping[str, Any], root: Path) -> Self:
        makers: Mapping[str, Callable[[Any], Any]] = {
            "command": str,
            "args": tuple,
            "env": dict,
            "name": str,
            "repo": Path,
        }
        return cls(root=root, **{name: make(options[name]) for name, make in makers.items() if options.get(name)})

    def find_problems(self) -> tuple[str, ...]:
        """Nothing of the repository is run to find out: its files are a stranger's until they are in a sandbox."""
        misplaced = find_misplaced(self.command, self.find_program(), self.repo)
        if misplaced is not None:
            where = f"runtimes.{self.name}.command: {misplaced} is inside the repository"
            return (f"{where}, where agents could change it; name a program outside of it",)
        return tuple(self.iter_problems())

    def iter_problems(self) -> Iterator[str]:
        raise NotImplementedError

    def find_program(self) -> Program | None:
        return find_program(self.command, root=self.root) if self.command else None

    def require_program(self) -> Program:
        """Find the program. Raises Refused when it is not installed."""
        program = self.find_program()
        if program is None:
            raise Refused(self.describe_missing())
        return program

    def describe_missing(self) -> str:
        if not self.command:
            return f"runtimes.{self.name}.command is missing: name {self.wanted}"
        name = f"the program {self.command!r} (runtimes.{self.name}.command)"
        return f"{name} was not found, or cannot be run; install it or fix its name"


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmRuntime(CommandRuntime):
    """A runtime that drives a program from npm. Subclasses set `package` and the defaults of `command` and `name`."""

    package: ClassVar[NpmPackage]

    def describe_program(self) -> str:
        program = self.find_program()
        return f"{self.package.program} at {program.path}" if program else ""

    def find_program(self) -> Program | None:
        return find_program(self.command, root=self.root, native=self.package.native)

    def describe_missing(self) -> str:
        what = f"the program {self.command!r}" if self.package.native else f"the program {self.command!r}, or its node,"
        return f"{what} was not found, or cannot be run; {self.package.build_install_hint()}"

    def iter_problems(self) -> Iterator[str]:
        program = self.find_program()
        if program is None:
            yield self.describe_missing()
            return
        yield from check_version(program, self.package)
        if self.args:
            yield f"runtimes.{self.name}.args: not supported by {self.package.program}; remove them"
        yield from check_variables(self.name, self.env, self.package.own_variables)


def find_program(command: str, *, root: Path, native: str = "") -> Program | None:
    """Find the program that a command line names: a native program, or a script with its interpreter."""
    located = locate_command(command, root=root)
    if located is None:
        return None
    path, words = located
    program = _find_native(path, native) or path
    if is_native(program):
        return Program(argv=(str(program), *words), needs=(program,))
    return _build_script_program(program, words)


def locate_command(
    command: str, *, root: Path, fallback: Callable[[], str | None] = lambda: None
) -> tuple[Path, list[str]] | None:
    """Find the executable file that a command line names, on the PATH or relative to `root`, and the words after it."""
    try:
        name, *words = shlex.split(command)
    except ValueError:  # an open quote, or no word at all
        return None
    found = str(root / Path(name).expanduser()) if "/" in name else _find_on_path(name) or fallback()
    if found is None or not Path(found).is_file() or not os.access(found, os.X_OK):
        return None
    return Path(os.path.realpath(found)), words


def _find_on_path(name: str) -> str | None:
    """A relative folder on the PATH would be one of the repository."""
    folders = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(each).is_absolute()]
    return shutil.which(name, path=os.pathsep.join(folders))


def find_misplaced(command: str | None, program: Program | None, repo: Path | None) -> Path | None:
    """Find the part of the program that is inside the repository; one that the PATH names is the person's own."""
    if program is None or repo is None or "/" not in (command or ""):
        return None
    root = os.path.realpath(repo)
    places = (*program.needs, *(Path(os.path.realpath(word)) for word in program.argv if Path(word).is_absolute()))
    return next((place for place in places if place.is_relative_to(root)), None)


def is_native(program: Path) -> bool:
    try:
        with program.open("rb") as file:
            return file.read(4) in NATIVE_MAGIC
    except OSError:
        return False


def _find_native(script: Path, native: str) -> Path | None:
    packages = _find_node_modules(script)
    if is_native(script) or not native or packages is None:
        return None
    return next((each for each in sorted(packages.glob(native)) if is_native(each)), None)


def _build_script_program(script: Path, words: Sequence[str]) -> Program | None:
    """Start it by its interpreter's real path: the sandbox does not have the person's PATH."""
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
    """Find the outermost node_modules above it: packages find each other there."""
    above = [folder for folder in program.parents if folder.name == "node_modules"]
    return above[-1] if above else None


def check_version(program: Program, package: NpmPackage) -> Iterator[str]:
    try:
        found = VERSION_PATTERN.search(run_with_flag(program, "--version"))
    except (ProcessFailed, OSError) as e:
        yield f"{program.path} cannot be used: {e}; {package.build_install_hint()}"
        return
    if not found:
        yield f"{program.path} is not {package.program}: it does not print its version"
    elif parse_version(found[0]) < parse_version(package.min_version):
        yield (
            f"{package.program} {found[0]} at {program.path} is too old: {package.min_version} or newer is needed; "
            f"{package.build_install_hint()}"
        )


def run_with_flag(program: Program, flag: str, env: tuple[tuple[str, str], ...] = ()) -> str:
    """Return what the program prints; run once for each program file. Raises ProcessFailed, and OSError without one."""
    stat = program.path.stat()
    return _run_cached(program.argv, flag, env, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=32)
def _run_cached(argv: tuple[str, ...], flag: str, env: tuple[tuple[str, str], ...], _mtime: int, _size: int) -> str:
    """Run it in an empty home: it must leave nothing behind and find no settings."""
    with tempfile.TemporaryDirectory(prefix="blueflame-") as home:
        variables = clean_environment(os.environ) | {"HOME": home} | dict(env)
        done = run(*argv, flag, cwd=Path(home), env=variables, timeout=PROBE_TIMEOUT)
    if done.code:
        words = " ".join(done.err.split())[-MAX_DETAIL_CHARS:]
        raise ProcessFailed(f"it fails with exit code {done.code}" + (f": {words}" if words else ""))
    return done.out


def parse_version(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def check_model(model: str, role: str, runtime: str) -> str:
    """Return the model's name if this runtime can know it. Raises Refused rather than guess."""
    if model and model not in CLAUDE_MODELS:
        return model
    named = f"is {model!r}, a name that only Claude's program knows" if model else "is empty"
    raise Refused(f"roles.{role}.model {named}; set it to a model that {runtime} can use")


def check_variables(name: str, env: Mapping[str, str], own: str) -> Iterator[str]:
    """Report variables by which an agent could bypass its hook or gateway; `own` matches those of its program."""
    forbidden = re.compile(f"{FORBIDDEN_VARIABLES}|{own}", re.IGNORECASE)
    for each in sorted(env):
        if forbidden.fullmatch(each):
            yield f"runtimes.{name}.env: {each} could bypass the agent's hook or gateway; remove it"


def build_gateway_variables(apis: Iterable[str], env: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a program that finds its model there; `env` is the person's, with placeholders."""
    variables = {name: text for api in apis for name, text in GATEWAY_VARIABLES[api].items()} | dict(env)
    return {name: fill_placeholders(text, values) for name, text in variables.items()}


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda found: values[found[1]], text)


def build_hook_command(*words: str) -> str:
    """Build the shell command for programs that take the death of a hook for consent: one that is killed asks again."""
    hook = shlex.join((str(find_hook()), *words))
    return (
        f"call=$(cat); for try in 1 2 3 4 5; do printf '%s\\n' \"$call\" | {hook}; code=$?; "
        "case $code in 0 | 2) exit $code ;; esac; done; "
        "echo 'blueflame: refused, because its hook was killed' >&2; exit 2"
    )


def join_prompt(parts: Iterable[str]) -> str:
    """Join system prompt and prompt, for programs that take only one text."""
    return "\n\n".join(filter(None, parts))


def build_python_command(module: str, folders: Iterable[Path], argument: Path) -> tuple[str, ...]:
    """Build the command that runs `main([argument])` of a module, with only the standard library and `folders`."""
    paths = ":".join(dict.fromkeys(map(str, folders)))
    code = (
        "import sys; sys.path += sys.argv.pop(1).split(':'); "
        f"from {module} import main; raise SystemExit(main(sys.argv[1:]))"
    )
    return (sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", code, paths, str(argument))


def build_fence_variables(brief: AgentBrief) -> dict[str, str]:
    """A reviewer's output is a verdict on the code that its commands run: where these cannot be kept apart from it,
    they are not run. What others make is judged by its commits."""
    return {fence.REQUIRED_VARIABLE: "1"} if brief.duty is Duty.JUDGE else {}


def write_fence(directory: Path) -> Path:
    """Write the program that runs a command for an agent, which must have one path without arguments."""
    path = directory / "fence"
    words = (sys.executable, "-I", "-S", "-E", fence.__file__, "bash")
    write_atomically(path, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return path
