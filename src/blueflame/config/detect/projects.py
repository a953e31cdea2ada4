"""Finds the projects of a repository, several in a monorepo, and how each is set up and tested."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from blueflame.config.detect import languages, native, node, python
from blueflame.config.detect.commands import Candidate, Commands, ProjectCommands
from blueflame.config.detect.project_files import ProjectFiles, list_folders_with

MAX_PROJECTS = 6  # of one ecosystem; more are a reason to name the checks by hand
NOT_A_PROJECT = re.compile(
    r"(^|/)(\.[^/]*|examples?|samples?|demos?|fixtures?|test-?data|templates?|docs?|website|site|benchmarks?|bench|fuzz"
    r"|tests?|__tests__|spec|e2e|playground|tools?|scripts?)(/|$)"
)
TEST_SCRIPT = r"(?:(?:tests?|scripts?|bin)/)?(?:run[_-]?)?tests?(?:\.sh)?|tests?/run(?:\.sh)?"


class Ecosystem(NamedTuple):
    detect: Callable[[ProjectFiles], ProjectCommands | None]
    manifests: tuple[str, ...]


ECOSYSTEMS = (
    Ecosystem(python.detect_python, python.MANIFESTS),
    Ecosystem(node.detect_node, node.MANIFESTS),
    Ecosystem(languages.detect_go, ("go.work", "go.mod")),
    Ecosystem(languages.detect_rust, ("Cargo.toml",)),
    Ecosystem(languages.detect_jvm, ("pom.xml", *languages.GRADLE_FILES, "build.sbt")),
    Ecosystem(languages.detect_ruby, ("Gemfile",)),
    Ecosystem(languages.detect_php, ("composer.json",)),
    Ecosystem(languages.detect_dotnet, ()),
    Ecosystem(native.detect_native, native.MANIFESTS),
    Ecosystem(languages.detect_others, tuple(name for name, *_ in languages.SINGLE_FILES)),
)


def detect_projects(files: ProjectFiles) -> tuple[ProjectCommands, ...]:
    """The tools of each language go first: a Makefile often needs what only its author has."""
    found = [project for ecosystem in ECOSYSTEMS for project in _detect_ecosystem(ecosystem, files)]
    runners = (_detect_make(files), _detect_just(files), _detect_test_script(files))
    fallback = [project for project in runners if project is not None]
    if not fallback:
        return tuple(found)
    runner = fallback[0]
    if not any(project.tests for project in found):
        return (*found, runner)
    only = [project for project in found if project.tests]
    if len(only) == 1:  # the target tests the whole repository: another way to test its one project
        at, own = found.index(only[0]), only[0].candidates
        more = (
            runner.candidates
            if only[0].folder
            else tuple(replace(each, setup=own[0].setup) for each in runner.candidates)
        )
        lints = () if any(project.lints for project in found) else runner.lints
        both = (*more, *own) if only[0].folder else (*own, *more)
        found[at] = replace(only[0], candidates=both, lints=only[0].lints or lints)
    return tuple(found)


def describe_missing_programs(commands: Commands) -> tuple[str, ...]:
    """Messages for programs that setup and checks need and this machine lacks."""
    programs = dict.fromkeys(_find_program(line) for line in (*commands.setup, *commands.checks))
    missing = [name for name in programs if name and "/" not in name and shutil.which(name) is None]
    return tuple(f"{name} is not installed: what needs it will fail" for name in missing)


def _find_program(line: str) -> str:
    last = line.rpartition("&& ")[2] if line.startswith("cd ") else line
    try:
        words = shlex.split(last)
    except ValueError:
        return ""
    return next((word for word in words if not re.match(r"[A-Z_]+=", word)), "")


def _detect_ecosystem(ecosystem: Ecosystem, files: ProjectFiles) -> Iterator[ProjectCommands]:
    """The project at the top; where it has no tests of its own, those below it."""
    top = ecosystem.detect(files)
    folders = [folder for folder in list_folders_with(files.files, ecosystem.manifests) if folder]
    below = [folder for folder in folders if not NOT_A_PROJECT.search(folder)]
    is_own = files.has(*ecosystem.manifests) or not ecosystem.manifests  # else it only has files of that language below
    if top is not None and (not below or (is_own and top.tests)):
        yield top
        return
    found = [project for folder in _drop_nested(below) if (project := _detect_below(ecosystem, files, folder))]
    tested = [project for project in found if project.tests]
    if top is not None and (is_own or not tested):
        yield top
    yield from tested[:MAX_PROJECTS]


def _detect_below(ecosystem: Ecosystem, files: ProjectFiles, folder: str) -> ProjectCommands | None:
    project = ecosystem.detect(files.narrow(folder))
    return project.move_to(folder) if project is not None else None


def _drop_nested(folders: Iterable[str]) -> Iterator[str]:
    """Leave out a folder below another one: that one's tools reach it."""
    kept: list[str] = []
    for folder in folders:
        if not any(folder.startswith(f"{above}/") for above in kept):
            kept.append(folder)
            yield folder


# --- task runners ------------------------------------------------------------------------------------------------


def _detect_make(files: ProjectFiles) -> ProjectCommands | None:
    text = files.read_text("Makefile", "makefile", "GNUmakefile")
    return _choose_targets("make", set(re.findall(r"^([\w.-]+)(?:[ \t]+[\w.-]+)*[ \t]*::?(?!=)", text, re.MULTILINE)))


def _detect_just(files: ProjectFiles) -> ProjectCommands | None:
    text = files.read_text("justfile", "Justfile", ".justfile")
    return _choose_targets("just", set(re.findall(r"^@?([\w-]+)[^:=\n]*:(?!=)", text, re.MULTILINE)))


def _detect_test_script(files: ProjectFiles) -> ProjectCommands | None:
    for file in files.find(TEST_SCRIPT):
        shell = re.match(r"#!\s*(?:/usr)?/bin/(?:env\s+)?(sh|bash|dash|zsh)\b", files.read_text(file))
        if shell is not None:
            return ProjectCommands(candidates=(Candidate(tests=(f"{shell[1]} {file}",)),))
    return None


def _choose_targets(program: str, targets: set[str]) -> ProjectCommands | None:
    """`check` is often the short form of `test`: it is what is left where `test` does not work."""
    usual = [name for name in ("test", "tests") if name in targets][:1]
    tests = [*usual, *(["check"] if "check" in targets else [])]
    lints = (f"{program} lint",) if "lint" in targets else ()
    if not tests and not lints:
        return None
    candidates = tuple(Candidate(tests=(f"{program} {name}",)) for name in tests)
    return ProjectCommands(candidates=candidates, lints=lints)
