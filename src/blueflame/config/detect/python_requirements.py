"""What a Python project wants installed for its tests: extras, groups, packages and files of requirements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from blueflame.config.detect.project_files import ProjectFiles, as_dict

TEST_WORDS = frozenset({"test", "tests", "testing", "unittest", "unittests", "pytest"})
DEV_WORDS = frozenset({"dev", "develop", "development"})
OTHER_WORDS = frozenset(  # requirements that the tests can do without, or that need a service
    (
        *("doc", "docs", "lint", "linting", "typing", "types", "mypy", "release", "build", "deploy", "production"),
        *("mysql", "oracle", "postgres", "postgresql", "gpu", "conda"),
    )
)
HATCH_TEST = ("pytest", "pytest-mock", "pytest-xdist", "pytest-rerunfailures")  # what `hatch test` has by itself
# a package of an index with its bounds; no option of pip, no address
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,. -]*\])?\s*([<>=!~]=?=?[ \w.*+,<>=!~-]+)?(;[^:{}]*)?")


def list_extras(files: ProjectFiles, settings: dict[str, Any]) -> tuple[str, ...]:
    """The extras that tests need: those named for tests, or else those for developers."""
    project = as_dict(settings.get("project"))
    poetry = as_dict(as_dict(settings.get("tool")).get("poetry"))
    named = [*as_dict(project.get("optional-dependencies")), *as_dict(poetry.get("extras"))]
    section = re.search(r"(?ms)^\[options\.extras_require\]\n(.*?)(?=^\[|\Z)", files.read_text("setup.cfg"))
    named += re.findall(r"(?m)^([\w-]+)\s*=", section[1]) if section else []
    within = re.search(r"extras_require\s*=\s*\{(.*?)\n\s*\}", files.read_text("setup.py"), re.DOTALL)
    named += re.findall(r"['\"]([\w-]+)['\"]\s*:", within[1]) if within else []
    return _choose_names(named) or _find_runner(as_dict(project.get("optional-dependencies")))


def list_groups(settings: dict[str, Any]) -> tuple[str, ...]:
    groups = as_dict(settings.get("dependency-groups"))
    return _choose_names(groups) or _find_runner(groups)


def _find_runner(lists: dict[str, Any]) -> tuple[str, ...]:
    """Those that name pytest are for tests, whatever they are called."""
    return tuple(
        name
        for name, wanted in lists.items()
        if isinstance(wanted, list) and any(re.match(r"pytest(?![\w.-])", str(each)) for each in wanted)
    )[:1]


def list_packages(files: ProjectFiles, settings: dict[str, Any]) -> tuple[str, ...]:
    """The packages that poetry's groups, hatch's environments or else tox name for tests, as pip reads them."""
    tools = as_dict(settings.get("tool"))
    environments = as_dict(tools.get("hatch")).get("envs") or files.read_toml("hatch.toml").get("envs")
    sources = (
        _list_poetry(as_dict(tools.get("poetry"))),
        _list_hatch(as_dict(environments)),
        _list_tox(files.read_text("tox.ini")),
    )
    found = ([each for each in source if REQUIREMENT.fullmatch(each)] for source in sources)
    return tuple(next(filter(None, found), ()))


def _list_poetry(poetry: dict[str, Any]) -> Iterator[str]:
    groups = {name: as_dict(as_dict(group).get("dependencies")) for name, group in as_dict(poetry.get("group")).items()}
    groups.setdefault("dev", as_dict(poetry.get("dev-dependencies")))  # as poetry before 1.2 wrote it
    for group in _choose_names(groups):
        yield from (_translate_poetry(name, wanted) for name, wanted in groups[group].items())


def _list_hatch(environments: dict[str, Any]) -> Iterator[str]:
    chosen = [name for name in environments if TEST_WORDS & set(re.split(r"[\W_]+", name.lower()))]
    for name in chosen or [name for name in environments if name in ("default", *DEV_WORDS)]:
        settings = {**({"dependencies": HATCH_TEST} if name == "hatch-test" else {}), **as_dict(environments[name])}
        for key in ("dependencies", "extra-dependencies"):
            yield from (each for each in settings.get(key) or () if isinstance(each, str))


def _list_tox(text: str) -> Iterator[str]:
    """Without what holds for some of its environments only (`py39: mock`), files and substitutions."""
    section = re.search(r"(?ms)^\[testenv\]\n(.*?)(?=^\[|\Z)", text)
    lines = re.search(r"(?m)^deps\s*=(.*(?:\n[ \t]+.*|\n[ \t]*$)*)", section[1] if section else "")
    yield from (line.split(" #")[0].strip() for line in lines[1].splitlines()) if lines else ()


def _translate_poetry(name: str, wanted: object) -> str:
    """`^1.2` as `>=1.2,<2`; "" for what is no package of an index."""
    settings = as_dict(wanted)
    if name == "python" or any(key in settings for key in ("git", "path", "url", "file")):
        return ""
    version = str(settings.get("version", "*") if settings else wanted)
    parts = [_translate_version(part.strip()) for part in version.split(",")]
    bounded = f"{name}{','.join(parts)}"
    return bounded if isinstance(wanted, str | dict) and REQUIREMENT.fullmatch(bounded) else name


def _translate_version(wanted: str) -> str:
    numbers = re.fullmatch(r"([~^])(\d+)((?:\.\d+)*)", wanted)
    if numbers is None:
        return f"=={wanted}" if re.fullmatch(r"[\d.]+(\.\*)?", wanted) else wanted
    given = [int(number) for number in wanted[1:].split(".")]
    at = min(1, len(given) - 1) if numbers[1] == "~" else next((n for n, number in enumerate(given) if number), -1)
    bound = [*given[:at], given[at] + 1]
    return f">={wanted[1:]},<{'.'.join(map(str, bound))}"


def _choose_names(named: Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(named))
    tests = tuple(name for name in names if name.lower() in TEST_WORDS)
    return tests or tuple(name for name in names if name.lower() in DEV_WORDS)


def list_requirement_files(files: ProjectFiles) -> tuple[str, ...]:
    """requirements.txt, and the plainest of those whose names speak of tests or development."""
    named = files.find(r"(?:[\w.-]+/)*[\w.-]*\.txt")
    wanted = [file for file in named if "requirements" in file and file.count("/") < 3]
    words = {file: frozenset(re.split(r"[\W_]+", file.removesuffix(".txt").lower())) for file in wanted}
    wanted = [file for file in wanted if not words[file] & OTHER_WORDS]
    base = [file for file in wanted if file in ("requirements.txt", "requirements/base.txt")]
    tests = [file for file in wanted if words[file] & TEST_WORDS] or [
        file for file in wanted if words[file] & DEV_WORDS
    ]
    # of `py3` and `py3-free-threading` the first
    plain = [file for file in tests if not any(words[other] < words[file] for other in tests)]
    return tuple(dict.fromkeys([*base, *plain[:2]]))
