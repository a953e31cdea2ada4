"""How a Python project is set up and tested: pip, uv, poetry, pdm, pipenv; pytest, unittest, tox and others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from blueflame.config.detect.commands import PROGRAMS, Candidate, ProjectCommands, install_with_pip
from blueflame.config.detect.project_files import ProjectFiles, as_dict
from blueflame.config.detect.python_requirements import list_extras, list_groups, list_packages, list_requirement_files
from blueflame.paths.file_kinds import is_test_file

MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg", "Pipfile", "requirements.txt", "manage.py", "tox.ini")
PYTHON = ".venv/bin/python"
PLAIN_PYTHON = "python3"
# quick where it was kept; what is in it must never be committed
MAKE_VENV = "test -x .venv/bin/pip || python3 -m venv .venv && echo '*' > .venv/.gitignore"
BROWSER_FOLDER = re.compile(r"(?:tests?|src)/(?:[\w-]+/)*(?:e2e|browser|browsers|playwright|selenium|end_to_end)")
COLLECTED = r"(?:.+/)?(?:test\w*|\w+_tests?|conftest)\.py"  # what runners collect, of the files beside tests
MAX_READ = 50  # test files that are read to find the runner


class PythonManager(NamedTuple):
    """A package manager that keeps its environment in .venv."""

    program: str
    locks: tuple[str, ...]
    install: str


MANAGERS = (
    PythonManager("uv", ("uv.lock",), "UV_PYTHON_DOWNLOADS=never {} sync --frozen"),
    PythonManager("poetry", ("poetry.lock",), "POETRY_VIRTUALENVS_IN_PROJECT=true {} install"),
    PythonManager("pdm", ("pdm.lock",), "{} install --frozen-lockfile"),
    PythonManager("pipenv", ("Pipfile.lock",), "PIPENV_VENV_IN_PROJECT=1 {} sync --dev"),
)


def detect_python(files: ProjectFiles) -> ProjectCommands | None:
    if not any(file.endswith(".py") for file in files.files):
        return None
    settings = files.read_toml("pyproject.toml")
    tools = as_dict(settings.get("tool"))
    test = _find_test_command(files, tools)
    setups = tuple(_list_setups(files, settings, test)) if test or files.has(*MANIFESTS) else ()
    python = PYTHON if setups else PLAIN_PYTHON
    tests = (test.format(python=python),) if test else ()
    return ProjectCommands(
        candidates=tuple(Candidate(setup=setup, tests=tests) for setup in setups) or (Candidate(tests=tests),),
        lints=tuple(f"{python} -m {lint}" for lint in _list_lints(files, tools)) if setups else (),
        registries=("pypi",) if setups else (),
    )


# --- tests -------------------------------------------------------------------------------------------------------


def _find_test_command(files: ProjectFiles, tools: dict[str, Any]) -> str | None:
    tests = [file for file in files.find(COLLECTED) if is_test_file(file)]
    read = [files.read_text(file) for file in tests[:MAX_READ]]
    if own := files.find(r"(tests?/)?run_?tests\.py"):
        return f"{{python}} {own[0]}"
    if _uses_pytest(files, tools) or any("import pytest" in text for text in read):
        return _build_pytest_line(files)
    if files.has("manage.py"):
        return "{python} manage.py test"
    if any("unittest" in text for text in read):
        return _build_unittest_line(files, tests)
    if files.has("tox.ini") or "tox" in tools:
        return f"{PROGRAMS}/tox run -e py --skip-env-install"
    if files.has("noxfile.py"):
        return f"{PROGRAMS}/nox -R --no-install -s tests"
    return _build_pytest_line(files) if tests else None


def _uses_pytest(files: ProjectFiles, tools: dict[str, Any]) -> bool:
    wanted = [file for file in files.files if re.fullmatch(r"[\w./-]*requirements[\w./-]*\.(txt|in)", file)]
    named = files.read_text("setup.cfg", "setup.py", "tox.ini", "noxfile.py", "pyproject.toml", "Pipfile", *wanted)
    return "pytest" in tools or files.has("pytest.ini", "conftest.py") or "pytest" in named


def _build_pytest_line(files: ProjectFiles) -> str:
    """Tests that need a browser are left out: they are slow, and the sandbox has no browser."""
    parents = {file.rpartition("/")[0] for file in files.files}
    browsers = sorted(folder for folder in parents if BROWSER_FOLDER.fullmatch(folder))
    return " ".join(["{python} -m pytest", *(f"--ignore={shlex.quote(folder)}" for folder in browsers)])


def _build_unittest_line(files: ProjectFiles, tests: Sequence[str]) -> str:
    """unittest searches packages only: a folder of tests without __init__.py must be named."""
    tops = sorted({file.split("/", 1)[0] for file in tests if "/" in file})
    bare = [top for top in tops if not files.has(f"{top}/__init__.py")]
    at_top = any("/" not in file for file in tests)
    return "{python} -m unittest discover" + (f" -s {shlex.quote(bare[0])}" if bare and not at_top else "")


def _list_lints(files: ProjectFiles, tools: dict[str, Any]) -> Iterator[str]:
    settings = files.read_text("setup.cfg", "tox.ini")
    if "ruff" in tools or files.has("ruff.toml", ".ruff.toml"):
        yield "ruff check ."
    elif files.has(".flake8") or "[flake8]" in settings:
        yield "flake8"
    mypy = as_dict(tools.get("mypy"))
    if "mypy" in tools or files.has("mypy.ini", ".mypy.ini") or "[mypy]" in settings:
        yield "mypy" if "files" in mypy or "packages" in mypy or re.search(r"(?m)^files\s*=", settings) else "mypy ."


# --- setup -------------------------------------------------------------------------------------------------------


def _list_setups(files: ProjectFiles, settings: dict[str, Any], test: str | None) -> Iterator[tuple[str, ...]]:
    """The likeliest first; the later ones install less."""
    if test and not test.startswith("{python} -m pytest") and not files.has(*set(MANIFESTS) - {"manage.py"}):
        return  # the standard library is enough
    runner = ("pytest",) if test and "-m pytest" in test else ()
    pip = tuple(_list_pip_setups(files, settings, runner))
    manager = next((each for each in MANAGERS if files.has(*each.locks)), None)
    if test and test.startswith(PROGRAMS):
        program = test.split()[0].rpartition("/")[2]
        prepare = "run -e py --notest" if program == "tox" else "--install-only -s tests"
        yield (install_with_pip(program), f"{PROGRAMS}/{program} {prepare}")
    elif manager is not None:
        yield tuple(_build_manager_setup(files, settings, manager))
        yield from pip
    elif "poetry" in as_dict(settings.get("tool")):
        yield (install_with_pip("poetry"), MANAGERS[1].install.format(f"{PROGRAMS}/poetry"))
        yield from pip
    else:
        yield from pip


def _build_manager_setup(files: ProjectFiles, settings: dict[str, Any], manager: PythonManager) -> Iterator[str]:
    program = manager.program
    if not files.is_installed(program):
        yield install_with_pip(program)
        program = f"{PROGRAMS}/{program}"
    extras, groups = list_extras(files, settings), list_groups(settings)
    flags = {
        "uv": [*(f"--group {name}" for name in groups), *(f"--extra {name}" for name in extras)],
        "poetry": [f"--extras '{' '.join(extras)}'"] if extras else [],
    }.get(manager.program, [])
    if manager.program == "uv" and "workspace" in as_dict(as_dict(settings.get("tool")).get("uv")):
        flags.append("--all-packages")
    yield " ".join([manager.install.format(program), *flags])


def _list_pip_setups(files: ProjectFiles, settings: dict[str, Any], runner: Sequence[str]) -> Iterator[tuple[str, ...]]:
    extras, groups = list_extras(files, settings), list_groups(settings)
    packages = list_packages(files, settings)
    named = {re.split(r"[^\w.-]", package)[0] for package in packages}
    more = [shlex.quote(package) for package in (*packages, *(each for each in runner if each not in named))]
    written = [shlex.quote(file) for file in list_requirement_files(files)]
    wanted = [*(f"-r {file}" for file in written), *more]
    own = _is_installable(files, settings)
    project = [f"-e '.[{','.join(extras)}]'" if extras else "-e ."] if own else []
    upgrade = (f"{PYTHON} -m pip install --upgrade pip",) if groups else ()  # groups need pip 25.1
    without = (f"grep -hv :// {' '.join(written)} > .venv/requirements.txt",)  # only registries can be reached
    has_addresses = re.search(r"(?m)^[^#\n]*://", files.read_text(*list_requirement_files(files)))
    lines: dict[str, tuple[str, ...]] = {}
    choices: tuple[tuple[tuple[str, ...], list[str]], ...] = (
        (upgrade, [*project, *(f"--group {name}" for name in groups), *wanted]),
        (without, [*project, "-r .venv/requirements.txt", *more] if has_addresses else []),
        ((), [*project, *runner]),
        ((), [*(["-e ."] if own else []), *runner]),
        ((), wanted),
        ((), [*runner]),
    )
    for before, parts in choices:
        if parts:
            lines.setdefault(" ".join(parts), before)
    for line, before in lines.items():
        yield (MAKE_VENV, *before, f"{PYTHON} -m pip install {line}")


def _is_installable(files: ProjectFiles, settings: dict[str, Any]) -> bool:
    if files.has("setup.py"):
        return True
    poetry = as_dict(as_dict(settings.get("tool")).get("poetry"))
    if poetry.get("package-mode") is False:
        return False
    return (
        "project" in settings
        or "build-system" in settings
        or "name" in poetry
        or "[metadata]" in files.read_text("setup.cfg")
    )
