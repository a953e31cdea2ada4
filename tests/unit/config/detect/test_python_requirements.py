"""What the tests of a Python project need is found where its package manager keeps it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from blueflame.config.detect.project_files import ProjectFiles
from blueflame.config.detect.python import detect_python
from blueflame.config.detect.python_requirements import (
    HATCH_TEST,
    list_extras,
    list_groups,
    list_packages,
    list_requirement_files,
)


def write_project(folder: Path, **files: str) -> ProjectFiles:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return ProjectFiles(root=folder, files=tuple(files), is_installed=lambda _program: False)


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        ('"^1.2"', "mock>=1.2,<2"),
        ('"^0.2.3"', "mock>=0.2.3,<0.3"),
        ('"^0.0.3"', "mock>=0.0.3,<0.0.4"),
        ('"^0"', "mock>=0,<1"),
        ('"~1"', "mock>=1,<2"),
        ('"~1.2.3"', "mock>=1.2.3,<1.3"),
        ('"1.2"', "mock==1.2"),
        ('"1.*"', "mock==1.*"),
        ('"*"', "mock"),
        ('">=1.0, <2"', "mock>=1.0,<2"),
        ('"^1 || ^2"', "mock"),
        ('{version = "^3.1", python = ">=3.8"}', "mock>=3.1,<4"),
        ('[{version = "1"}, {version = "2"}]', "mock"),
    ],
)
def test_bounds_of_poetry_are_written_as_pip_reads_them(tmp_path: Path, wanted: str, asked: str) -> None:
    settings = tomllib.loads(f"[tool.poetry.group.dev.dependencies]\npython = '^3.9'\nmock = {wanted}\n")
    assert list_packages(write_project(tmp_path), settings) == (asked,)


def test_only_groups_for_tests_and_packages_of_the_index_are_installed(tmp_path: Path) -> None:
    settings = tomllib.loads(
        "[tool.poetry.group.test.dependencies]\npytest = '^8'\nown = {path = '../own'}\nodd = {git = 'https://x'}\n"
        "'--index-url=x' = '1'\n[tool.poetry.group.docs.dependencies]\nsphinx = '*'\n"
    )
    assert list_packages(write_project(tmp_path), settings) == ("pytest>=8,<9",)


def test_the_dev_dependencies_of_old_poetry_are_a_group(tmp_path: Path) -> None:
    settings = tomllib.loads("[tool.poetry.dev-dependencies]\nattrs = '^21.4'\n")
    assert list_packages(write_project(tmp_path), settings) == ("attrs>=21.4,<22",)


def test_packages_of_hatch_are_those_of_its_environment_for_tests(tmp_path: Path) -> None:
    envs = "[envs.hatch-test]\nextra-dependencies = ['trustme', 'x @ https://example.org/x.zip']\n"
    files = write_project(tmp_path, **{"hatch.toml": f"{envs}[envs.docs]\ndependencies = ['mkdocs']\n"})
    found = list_packages(files, {"tool": {"hatch": {"build": {}}}})
    assert found == (*HATCH_TEST, "trustme")


def test_packages_of_tox_are_those_of_all_its_environments(tmp_path: Path) -> None:
    deps = "[testenv]\ndeps =\n    mock  # a fake\n\n    py39: old\n    -r more.txt\n    b>=1,<2; python_version<'3'\n"
    files = write_project(tmp_path, **{"tox.ini": f"{deps}commands =\n    x\n[testenv:docs]\ndeps = sphinx\n"})
    assert list_packages(files, {}) == ("mock", "b>=1,<2; python_version<'3'")


def test_an_extra_that_names_the_runner_is_for_tests(tmp_path: Path) -> None:
    settings = tomllib.loads("[project.optional-dependencies]\nfast = ['pytest-x']\nall = ['mypy', 'pytest >= 8']\n")
    assert list_extras(write_project(tmp_path), settings) == ("all",)
    assert list_groups({"dependency-groups": {"docs": ["sphinx"], "check": ["pytest"]}}) == ("check",)


def test_of_several_requirement_files_the_plainest_is_chosen(tmp_path: Path) -> None:
    names = [f"tests/requirements/{name}.txt" for name in ("mysql", "py3-free-threading", "py3")]
    assert list_requirement_files(write_project(tmp_path, **dict.fromkeys(names, ""))) == (
        "tests/requirements/py3.txt",
    )


def test_requirement_files_in_a_dotted_folder_count(tmp_path: Path) -> None:
    files = write_project(tmp_path, **{".meta/requirements-test.txt": "", ".meta/requirements-build.txt": ""})
    assert list_requirement_files(files) == (".meta/requirements-test.txt",)


def test_pip_installs_what_poetry_would(tmp_path: Path) -> None:
    manifest = "[tool.poetry]\nname = 'a'\n[tool.poetry.dev-dependencies]\npytest = '^7'\nattrs = '*'\n"
    files = write_project(tmp_path, **{"pyproject.toml": manifest, "tests/test_a.py": "import pytest\n"})
    found = detect_python(files)
    assert found is not None
    assert [candidate.setup[-1] for candidate in found.candidates[:2]] == [
        "POETRY_VIRTUALENVS_IN_PROJECT=true ~/.local/bin/poetry install",
        ".venv/bin/python -m pip install -e . 'pytest>=7,<8' attrs",
    ]


def test_requirements_from_an_address_are_left_out_where_they_cannot_be_fetched(tmp_path: Path) -> None:
    wanted = {"requirements-test.txt": "pytest-timeout\ngit+https://example.org/nbval.git\n"}
    found = detect_python(write_project(tmp_path, **wanted, **{"setup.py": "", "test_a.py": "import pytest\n"}))
    assert found is not None
    assert [candidate.setup[1:] for candidate in found.candidates[:2]] == [
        (".venv/bin/python -m pip install -e . -r requirements-test.txt pytest",),
        (
            "grep -hv :// requirements-test.txt > .venv/requirements.txt",
            ".venv/bin/python -m pip install -e . -r .venv/requirements.txt pytest",
        ),
    ]
