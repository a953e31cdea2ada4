"""Values: what sets up and tests a project, with alternatives. The first that works is written."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace

from blueflame.lazy_dataclass import dataclass

COPY = "/tmp/copy"  # noqa: S108 - the sandbox's own
PROGRAMS = "~/.local/bin"  # in the sandbox's own home: on its PATH, and kept with the dependencies


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What goes into the configuration."""

    tests: tuple[str, ...] = ()
    lints: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    registries: tuple[str, ...] = ()  # presets of model/settings/registries

    @property
    def checks(self) -> tuple[str, ...]:
        return (*self.tests, *self.lints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to test a project, with the setup it needs."""

    setup: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    def run_in_copy(self) -> Candidate:
        """The same tests in a copy of the checkout, for builds that change what git tracks."""
        start = f"rm -rf {COPY} && cp -a . {COPY} && cd {COPY} && "
        return replace(self, tests=tuple(line if line.startswith(start) else start + line for line in self.tests))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCommands:
    """The commands of one project of a repository, for one ecosystem."""

    candidates: tuple[Candidate, ...] = ()  # the likeliest first
    lints: tuple[str, ...] = ()
    registries: tuple[str, ...] = ()
    folder: str = ""  # "" is the top of the repository

    @property
    def tests(self) -> tuple[str, ...]:
        return self.candidates[0].tests if self.candidates else ()

    def move_to(self, folder: str) -> ProjectCommands:
        """The same commands, run in `folder` from the top of the repository."""
        if not folder:
            return self
        start = f"cd {shlex.quote(folder)} && "

        def move(lines: Iterable[str]) -> tuple[str, ...]:
            return tuple(start + line for line in lines)

        moved = tuple(Candidate(setup=move(each.setup), tests=move(each.tests)) for each in self.candidates)
        return replace(self, folder=folder, candidates=moved, lints=move(self.lints))


def install_with_pip(*programs: str) -> str:
    """The setup command for programs that this machine lacks; quick where they were kept."""
    tools = "~/.local/tools"
    links = " ".join(f"{tools}/bin/{program}" for program in programs)
    install = f"python3 -m venv {tools} && {tools}/bin/pip install {' '.join(programs)}"
    return f"test -e {PROGRAMS}/{programs[-1]} || ({install} && mkdir -p {PROGRAMS} && ln -sf {links} {PROGRAMS})"


def choose_likeliest(projects: Iterable[ProjectCommands]) -> Commands:
    """The commands that are written when nothing was tried."""
    return combine_commands((each, each.candidates[0] if each.candidates else Candidate()) for each in projects)


def combine_commands(chosen: Iterable[tuple[ProjectCommands, Candidate]]) -> Commands:
    pairs = list(chosen)

    def collect(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for lines in lists for line in lines))

    return Commands(
        tests=collect(candidate.tests for _, candidate in pairs),
        lints=collect(project.lints for project, _ in pairs),
        setup=collect(candidate.setup for _, candidate in pairs),
        registries=collect(project.registries for project, candidate in pairs if candidate.setup),
    )
