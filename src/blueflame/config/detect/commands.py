"""Detects the commands that test, lint and set up a repository, from its project files."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from blueflame.git.file_kinds import is_test_file

MAX_CHARS = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    tests: tuple[str, ...] = ()
    lints: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(shlex.split(command)[0] for command in (*self.tests, *self.lints)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedFiles:
    """The tracked files, and what is in those that describe the project."""

    root: Path
    files: tuple[str, ...]

    def has(self, *names: str) -> bool:
        return any(name in self.files for name in names)

    def read_text(self, name: str) -> str:
        """Empty when it is not tracked, not a plain file, or not text."""
        path = self.root / name
        if name not in self.files or path.is_symlink() or not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_CHARS)

    def find_nearest(self, name: str) -> str | None:
        """The shallowest file of that name: the one at the top, or else in the first sub-project."""
        found = [file for file in self.files if PurePosixPath(file).name == name]
        return min(found, key=lambda file: (file.count("/"), file), default=None)


Finder = Callable[[TrackedFiles], Commands]


def detect_commands(tracked: TrackedFiles) -> Commands:
    """Targets of a Makefile or task runner take precedence over those of the language."""
    found = [finder(tracked) for finder in FINDERS]
    runners, languages = found[: len(RUNNERS)], found[len(RUNNERS) :]
    return Commands(
        tests=_take_first(runners, "tests") or _take_all(languages, "tests"),
        lints=_take_first(runners, "lints") or _take_all(languages, "lints"),
        setup=_take_all(found, "setup"),
    )


def describe_missing_programs(commands: Commands) -> tuple[str, ...]:
    """Messages for programs that the checks need and this machine lacks."""
    missing = [name for name in commands.programs if "/" not in name and shutil.which(name) is None]
    return tuple(f"{name} is not installed: checks that need it will fail" for name in missing)


def _take_first(found: list[Commands], kind: str) -> tuple[str, ...]:
    return next((getattr(each, kind) for each in found if getattr(each, kind)), ())


def _take_all(found: list[Commands], kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(command for each in found for command in getattr(each, kind)))


# --- task runners ------------------------------------------------------------------------------------------------


def _detect_make(tracked: TrackedFiles) -> Commands:
    text = "\n".join(tracked.read_text(name) for name in ("Makefile", "makefile", "GNUmakefile"))
    return _choose_targets("make", set(re.findall(r"^([\w.-]+)(?:[ \t]+[\w.-]+)*[ \t]*::?(?!=)", text, re.MULTILINE)))


def _detect_just(tracked: TrackedFiles) -> Commands:
    text = "\n".join(tracked.read_text(name) for name in ("justfile", "Justfile", ".justfile"))
    return _choose_targets("just", set(re.findall(r"^@?([\w-]+)[^:=\n]*:(?!=)", text, re.MULTILINE)))


def _choose_targets(program: str, targets: set[str]) -> Commands:
    tests = next((name for name in ("test", "tests", "check") if name in targets), None)
    return Commands(
        tests=(f"{program} {tests}",) if tests else (),
        lints=(f"{program} lint",) if "lint" in targets else (),
    )


# --- languages ---------------------------------------------------------------------------------------------------


def _detect_python(tracked: TrackedFiles) -> Commands:
    if not any(file.endswith(".py") for file in tracked.files):
        return Commands()
    project = _parse_toml(tracked.read_text("pyproject.toml"))
    tools = _as_dict(project.get("tool"))
    runner, setup = _find_python_runner(tracked)
    return Commands(
        tests=tuple(f"{runner}{command}" for command in _find_python_tests(tracked, tools)),
        lints=tuple(f"{runner}{command}" for command in _find_python_lints(tracked, tools)),
        setup=setup,
    )


def _find_python_runner(tracked: TrackedFiles) -> tuple[str, tuple[str, ...]]:
    for lock, runner, setup in (
        ("uv.lock", "uv run ", "uv sync"),
        ("poetry.lock", "poetry run ", "poetry install"),
        ("pdm.lock", "pdm run ", "pdm install"),
        ("Pipfile.lock", "pipenv run ", "pipenv sync --dev"),
    ):
        if (tracked.root / lock).is_file():
            return runner, (setup,)
    return "", ()


def _find_python_tests(tracked: TrackedFiles, tools: dict[str, Any]) -> Iterator[str]:
    settings = "".join(tracked.read_text(name) for name in ("setup.cfg", "tox.ini", "pyproject.toml", "Pipfile"))
    wanted = "".join(
        tracked.read_text(file) for file in tracked.files if re.fullmatch(r"requirements[\w./-]*\.txt", file)
    )
    tests = [file for file in tracked.files if file.endswith(".py") and is_test_file(file)]
    if (
        "pytest" in tools
        or tracked.has("pytest.ini", "conftest.py")
        or "pytest" in settings + wanted
        or (tests and any("import pytest" in tracked.read_text(file) for file in tests[:50]))
    ):
        yield "python -m pytest"
    elif any("unittest" in tracked.read_text(file) for file in tests[:50]):
        yield "python -m unittest discover"
    elif tracked.has("manage.py"):
        yield "python manage.py test"
    elif tests:
        yield "python -m pytest"


def _find_python_lints(tracked: TrackedFiles, tools: dict[str, Any]) -> Iterator[str]:
    if "ruff" in tools or tracked.has("ruff.toml", ".ruff.toml"):
        yield "ruff check ."
    elif tracked.has(".flake8") or "[flake8]" in tracked.read_text("setup.cfg") + tracked.read_text("tox.ini"):
        yield "flake8"
    if "mypy" in tools or tracked.has("mypy.ini", ".mypy.ini") or "[mypy]" in tracked.read_text("setup.cfg"):
        yield "mypy ."


def _detect_node(tracked: TrackedFiles) -> Commands:
    file = tracked.find_nearest("package.json")
    if file is None:
        return Commands()
    scripts = _as_dict(_parse_json(tracked.read_text(file)).get("scripts"))
    program, setup = _find_node_program(tracked.root, PurePosixPath(file).parent)
    test = scripts.get("test")
    real = isinstance(test, str) and test.strip() and "no test specified" not in test
    lints = [name for name in ("lint", "typecheck", "type-check") if isinstance(scripts.get(name), str)]
    return Commands(
        tests=(f"{program} test",) if real else (),
        lints=tuple(f"{program} run {name}" for name in lints),
        setup=(setup,),
    )


def _find_node_program(root: Path, folder: PurePosixPath) -> tuple[str, str]:
    """npm, or the program of the lock file; run in the folder of package.json."""
    choices = (("pnpm-lock.yaml", "pnpm", "--dir"), ("yarn.lock", "yarn", "--cwd"), ("bun.lock", "bun", "--cwd"))
    program, flag = next(
        ((name, flag) for lock, name, flag in choices if (root / folder / lock).is_file()), ("npm", "--prefix")
    )
    there = "" if str(folder) == "." else f" {flag} {shlex.quote(str(folder))}"
    locked = (root / folder / "package-lock.json").is_file()
    install = {"npm": "ci" if locked else "install"}.get(program, "install --frozen-lockfile")
    return f"{program}{there}", f"{program}{there} {install}"


def _detect_go(tracked: TrackedFiles) -> Commands:
    file = tracked.find_nearest("go.mod")
    if file is None:
        return Commands()
    folder = str(PurePosixPath(file).parent)
    go = "go" if folder == "." else f"go -C {shlex.quote(folder)}"
    lint = tracked.has(".golangci.yml", ".golangci.yaml", ".golangci.toml")
    return Commands(tests=(f"{go} test ./...",), lints=(f"{go} vet ./...", *(("golangci-lint run",) if lint else ())))


def _detect_rust(tracked: TrackedFiles) -> Commands:
    file = tracked.find_nearest("Cargo.toml")
    if file is None:
        return Commands()
    where = "" if file == "Cargo.toml" else f" --manifest-path {shlex.quote(file)}"
    clippy = tracked.has("clippy.toml", ".clippy.toml") or "clippy" in tracked.read_text(file)
    return Commands(tests=(f"cargo test{where}",), lints=(f"cargo clippy{where}",) if clippy else ())


def _detect_jvm(tracked: TrackedFiles) -> Commands:
    if tracked.has("pom.xml"):
        return Commands(tests=(f"{'./mvnw' if tracked.has('mvnw') else 'mvn'} -q test",))
    if tracked.has("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"):
        return Commands(tests=(f"{'./gradlew' if tracked.has('gradlew') else 'gradle'} test",))
    return Commands(tests=("sbt test",) if tracked.has("build.sbt") else ())


def _detect_ruby(tracked: TrackedFiles) -> Commands:
    if not tracked.has("Gemfile"):
        return Commands()
    specs = tracked.has(".rspec") or any(file.startswith("spec/") for file in tracked.files)
    rake = "test" in tracked.read_text("Rakefile") or any(file.startswith("test/") for file in tracked.files)
    tests = ("bundle exec rspec",) if specs else ("bundle exec rake test",) if rake else ()
    lints = ("bundle exec rubocop",) if tracked.has(".rubocop.yml") else ()
    return Commands(tests=tests, lints=lints, setup=("bundle install",))


def _detect_php(tracked: TrackedFiles) -> Commands:
    if not tracked.has("composer.json"):
        return Commands()
    scripts = _as_dict(_parse_json(tracked.read_text("composer.json")).get("scripts"))
    unit = tracked.has("phpunit.xml", "phpunit.xml.dist")
    tests = ("composer test",) if "test" in scripts else ("vendor/bin/phpunit",) if unit else ()
    return Commands(tests=tests, lints=("composer lint",) if "lint" in scripts else (), setup=("composer install",))


def _detect_dotnet(tracked: TrackedFiles) -> Commands:
    projects = any(file.endswith((".sln", ".slnx", ".csproj", ".fsproj")) for file in tracked.files)
    return Commands(tests=("dotnet test",) if projects else ())


def _detect_cmake(tracked: TrackedFiles) -> Commands:
    text = tracked.read_text("CMakeLists.txt")
    if not text:
        return Commands()
    tested = re.search(r"\b(enable_testing|add_test|include\s*\(\s*CTest)", text, re.IGNORECASE)
    build = "cmake -B build && cmake --build build"
    return Commands(tests=(f"{build} && ctest --test-dir build" if tested else build,))


SINGLE_FILES = (
    ("mix.exs", "mix test"),
    ("Package.swift", "swift test"),
    ("build.zig", "zig build test"),
    ("pubspec.yaml", "dart test"),
    ("stack.yaml", "stack test"),
    ("dune-project", "dune test"),
    ("deps.edn", "clojure -X:test"),
    ("deno.json", "deno test"),
    ("meson.build", "meson setup build && meson test -C build"),
)


def _detect_others(tracked: TrackedFiles) -> Commands:
    return Commands(tests=tuple(command for file, command in SINGLE_FILES if tracked.has(file)))


RUNNERS: tuple[Finder, ...] = (_detect_make, _detect_just)
FINDERS: tuple[Finder, ...] = (
    *RUNNERS,
    _detect_python,
    _detect_node,
    _detect_go,
    _detect_rust,
    _detect_jvm,
    _detect_ruby,
    _detect_php,
    _detect_dotnet,
    _detect_cmake,
    _detect_others,
)

# --- project files -----------------------------------------------------------------------------------------------


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}  # a broken file of the project is not our problem to report


def _parse_json(text: str) -> dict[str, Any]:
    try:
        return _as_dict(json.loads(text)) if text else {}
    except (ValueError, RecursionError):
        return {}


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
