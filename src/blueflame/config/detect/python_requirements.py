"""What a Python project wants installed for its tests: extras, groups and files of requirements."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from blueflame.config.detect.project_files import ProjectFiles, as_dict

TEST_WORDS = frozenset({"test", "tests", "testing", "unittest", "unittests", "pytest"})
DEV_WORDS = frozenset({"dev", "develop", "development"})
OTHER_WORDS = frozenset(  # requirements that the tests can do without, or that need a service
    (
        *("doc", "docs", "lint", "linting", "typing", "types", "mypy", "release", "build", "deploy", "production"),
        *("mysql", "oracle", "postgres", "postgresql", "gpu"),
    )
)


def list_extras(files: ProjectFiles, settings: dict[str, Any]) -> tuple[str, ...]:
    """The extras that tests need: those named for tests, or else those for developers."""
    project = as_dict(settings.get("project"))
    poetry = as_dict(as_dict(settings.get("tool")).get("poetry"))
    named = [*as_dict(project.get("optional-dependencies")), *as_dict(poetry.get("extras"))]
    section = re.search(r"(?ms)^\[options\.extras_require\]\n(.*?)(?=^\[|\Z)", files.read_text("setup.cfg"))
    named += re.findall(r"(?m)^([\w-]+)\s*=", section[1]) if section else []
    within = re.search(r"extras_require\s*=\s*\{(.*?)\n\s*\}", files.read_text("setup.py"), re.DOTALL)
    named += re.findall(r"['\"]([\w-]+)['\"]\s*:", within[1]) if within else []
    return _choose_names(named)


def list_groups(settings: dict[str, Any]) -> tuple[str, ...]:
    return _choose_names(as_dict(settings.get("dependency-groups")))


def _choose_names(named: Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(named))
    tests = tuple(name for name in names if name.lower() in TEST_WORDS)
    return tests or tuple(name for name in names if name.lower() in DEV_WORDS)


def list_requirement_files(files: ProjectFiles) -> tuple[str, ...]:
    """requirements.txt, and those whose names speak of tests or development."""
    named = files.find(r"(?:[\w-]+/)*[\w.-]*\.txt")
    wanted = [file for file in named if "requirements" in file and file.count("/") < 3]
    words = {file: set(re.split(r"[\W_]+", file.removesuffix(".txt").lower())) for file in wanted}
    wanted = [file for file in wanted if not words[file] & OTHER_WORDS]
    base = [file for file in wanted if file in ("requirements.txt", "requirements/base.txt")]
    tests = [file for file in wanted if words[file] & TEST_WORDS] or [
        file for file in wanted if words[file] & DEV_WORDS
    ]
    return tuple(dict.fromkeys([*base, *tests[:2]]))
