"""How C and C++ projects are built and tested: CMake, Meson, Autotools; several of them build the same."""

from __future__ import annotations

import re

from blueflame.config.detect.commands import PROGRAMS, Candidate, ProjectCommands, install_with_pip
from blueflame.config.detect.project_files import ProjectFiles

MANIFESTS = ("CMakeLists.txt", "meson.build", "configure.ac", "configure.in", "configure")
GENERATORS = ("autogen.sh", "bootstrap.sh", "bootstrap", "buildconf")


def detect_native(files: ProjectFiles) -> ProjectCommands | None:
    found = [each for each in (_detect_cmake(files), _detect_meson(files), _detect_autotools(files)) if each]
    tested = [project for project in found if project.tests]
    if not tested:
        return found[0] if found else None
    return ProjectCommands(
        candidates=tuple(candidate for project in tested for candidate in project.candidates),
        registries=tuple(dict.fromkeys(name for project in tested for name in project.registries)),
    )


def _detect_cmake(files: ProjectFiles) -> ProjectCommands | None:
    if not files.has("CMakeLists.txt"):
        return None
    text = files.read_text(*files.find(r"(?:[\w.-]+/){0,2}CMakeLists\.txt"))
    tested = re.search(r"\b(enable_testing|add_test|include\s*\(\s*CTest)", text, re.IGNORECASE)
    folder = "build" if files.is_ignored("build/") else "/tmp/build"  # noqa: S108 - the sandbox's own; never committed
    build = f"cmake -S . -B {folder} && cmake --build {folder} -j2"
    if not tested:
        return ProjectCommands(lints=(build,))
    return ProjectCommands(
        candidates=(Candidate(tests=(f"{build} && ctest --test-dir {folder} --output-on-failure",)),)
    )


def _detect_meson(files: ProjectFiles) -> ProjectCommands | None:
    text = files.read_text(*files.find(r"(?:[\w.-]+/){0,2}meson\.build"))
    if not files.has("meson.build") or not re.search(r"(?m)^\s*test\s*\(", text):
        return None
    test = "{0}meson setup /tmp/build && {0}meson test -C /tmp/build --print-errorlogs"
    if files.is_installed("meson") and files.is_installed("ninja"):
        return ProjectCommands(candidates=(Candidate(tests=(test.format(""),)),))
    setup = (install_with_pip("meson", "ninja"),)
    return ProjectCommands(
        candidates=(Candidate(setup=setup, tests=(test.format(f"{PROGRAMS}/"),)),), registries=("pypi",)
    )


def _detect_autotools(files: ProjectFiles) -> ProjectCommands | None:
    """Setup makes the makefiles; `make` makes those again that a change made old."""
    if not files.has("configure.ac", "configure.in", "configure"):
        return None
    own = next((name for name in GENERATORS if files.has(name)), None)
    prepare = "" if files.has("configure") else f"NOCONFIGURE=1 sh ./{own} && " if own else "autoreconf -fi && "
    makefiles = files.read_text("Makefile.in", "Makefile")
    target = "test" if not files.has("Makefile.am") and re.search(r"(?m)^test[ \t]*:", makefiles) else "check"
    return ProjectCommands(
        candidates=(Candidate(setup=(f"{prepare}./configure",), tests=(f"make -j2 && make {target}",)),)
    )
