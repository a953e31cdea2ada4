"""Where no language has tests of its own, what the repository brings to run them is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from blueflame.config.detect.commands import Candidate
from blueflame.config.detect.project_files import ProjectFiles
from blueflame.config.detect.projects import detect_projects


def write_project(folder: Path, files: Mapping[str, str]) -> ProjectFiles:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return ProjectFiles(root=folder, files=tuple(files), is_installed=lambda _program: False)


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("test.sh", "#!/usr/bin/env bash\n", "bash test.sh"),
        ("script/test", "#!/bin/sh -e\n", "sh script/test"),
        ("tests/run_tests.sh", "#! /bin/bash\n", "bash tests/run_tests.sh"),
    ],
)
def test_a_script_that_runs_the_tests_is_a_check(tmp_path: Path, name: str, text: str, command: str) -> None:
    (found,) = detect_projects(write_project(tmp_path, {name: text, "a.sh": ""}))
    assert found.candidates == (Candidate(tests=(command,)),)


@pytest.mark.parametrize(("name", "text"), [("test", "data\n"), ("test.sh", ""), ("docs/test.sh", "#!/bin/sh\n")])
def test_other_files_of_such_a_name_are_no_check(tmp_path: Path, name: str, text: str) -> None:
    assert detect_projects(write_project(tmp_path, {name: text, "a.sh": ""})) == ()


def test_a_target_for_the_whole_does_without_the_setup_of_one_folder(tmp_path: Path) -> None:
    files = {"Makefile": "test:\n\t@true\n", "build/meson/meson.build": "test('a', a)\n", "lib/a.c": ""}
    (found,) = detect_projects(write_project(tmp_path, files))
    assert [bool(candidate.setup) for candidate in found.candidates] == [False, True]
    assert found.tests == ("make test",)
