"""C projects are built by what they bring: several build systems are several ways to the same tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from blueflame.config.detect.commands import Candidate
from blueflame.config.detect.native import detect_native
from blueflame.config.detect.project_files import ProjectFiles

MESON = {"meson.build": "project('a', 'c')\nsubdir('tests')\n", "tests/meson.build": "t = 1\n  test('a', exe)\n"}
AUTOMAKE = {"configure.ac": "", "Makefile.am": ""}


def write_project(folder: Path, files: Mapping[str, str], *installed: str) -> ProjectFiles:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return ProjectFiles(root=folder, files=tuple(files), is_installed=lambda program: program in installed)


@pytest.mark.parametrize(
    ("files", "setup", "tests"),
    [
        (AUTOMAKE, "autoreconf -fi && ./configure", "make -j2 && make check"),
        (AUTOMAKE | {"autogen.sh": ""}, "NOCONFIGURE=1 sh ./autogen.sh && ./configure", "make -j2 && make check"),
        ({"configure": "", "Makefile.in": "test: all\n"}, "./configure", "make -j2 && make test"),
    ],
)
def test_setup_configures_and_the_check_builds(tmp_path: Path, files: dict[str, str], setup: str, tests: str) -> None:
    found = detect_native(write_project(tmp_path, files))
    assert found is not None
    assert found.candidates == (Candidate(setup=(setup,), tests=(tests,)),)


def test_meson_is_installed_where_it_is_missing(tmp_path: Path) -> None:
    found = detect_native(write_project(tmp_path, MESON))
    assert found is not None
    assert found.registries == ("pypi",)
    assert "pip install meson ninja" in found.candidates[0].setup[0]
    assert found.tests[0].startswith("~/.local/bin/meson setup /tmp/build && ")
    own = detect_native(write_project(tmp_path, MESON, "meson", "ninja"))
    assert own is not None
    assert (own.candidates[0].setup, own.registries) == ((), ())


def test_a_build_file_without_tests_is_no_check(tmp_path: Path) -> None:
    assert detect_native(write_project(tmp_path, {"meson.build": "project('a')\ntest_src = 1\n"})) is None


def test_the_second_build_system_is_another_way_and_no_second_project(tmp_path: Path) -> None:
    found = detect_native(write_project(tmp_path, MESON | AUTOMAKE, "meson", "ninja"))
    assert found is not None
    assert [candidate.tests[0].split()[0] for candidate in found.candidates] == ["meson", "make"]
