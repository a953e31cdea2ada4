"""Find the packages that a project requires, in the manifests of each ecosystem."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as BadConfig
from fnmatch import fnmatchcase

PACKAGE_NAME = re.compile(r"[A-Za-z0-9@][\w.@/+-]*")
MAX_NESTING = 200  # brackets in brackets, far more than in real manifests: a parser would recurse

ManifestReader = Callable[[str], Iterable[str]]


def is_manifest(path: str) -> bool:
    return _find_reader(path) is not None


def find_new_dependencies(path: str, before: str | None, after: str | None) -> tuple[str, ...] | None:
    """Return the newly required packages, sorted; None if one of the texts cannot be parsed."""
    reader = _find_reader(path)
    assert reader is not None, f"{path} is not a manifest"
    try:
        old, new = (set(_read_packages(reader, text)) for text in (before, after))
    except (ValueError, TypeError, AttributeError, BadConfig):
        return None
    return tuple(sorted(new - old))


def _read_packages(reader: ManifestReader, text: str | None) -> Iterable[str]:
    if text is None:
        return ()
    if text.count("[") + text.count("{") > 50 * MAX_NESTING and _measure_nesting(text) > MAX_NESTING:
        raise ValueError("nested too deeply")
    return [name for name in reader(text) if name]


def _measure_nesting(text: str) -> int:
    deepest = depth = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        deepest = max(deepest, depth)
    return deepest


def _find_reader(path: str) -> ManifestReader | None:
    name = path.rsplit("/", 1)[-1]
    return next((reader for pattern, reader in READERS if fnmatchcase(name, pattern)), None)


def _parse_requirement(text: object) -> str:
    """Return the name in `requests[socks] >= 2, < 3 ; python_version < "3.9"`."""
    found = PACKAGE_NAME.match(text.strip()) if isinstance(text, str) else None
    return re.sub(r"[-_.]+", "-", found.group()).lower() if found else ""


def _list_keys(*tables: object) -> Iterator[str]:
    for table in tables:
        if isinstance(table, Mapping):
            yield from (str(key) for key in table)


def _build_json_reader(*tables: str) -> ManifestReader:
    return lambda text: _list_keys(*map(json.loads(text).get, tables))


def _read_pyproject(text: str) -> Iterator[str]:
    data = tomllib.loads(text)
    project, tool = data.get("project", {}), data.get("tool", {})
    lists = [
        project.get("dependencies", []),
        data.get("build-system", {}).get("requires", []),
        *project.get("optional-dependencies", {}).values(),
        *data.get("dependency-groups", {}).values(),
    ]
    yield from (_parse_requirement(entry) for entries in lists for entry in entries)
    poetry = tool.get("poetry", {})
    groups = [group.get("dependencies") for group in poetry.get("group", {}).values()]
    names = _list_keys(poetry.get("dependencies"), poetry.get("dev-dependencies"), *groups)
    yield from (_parse_requirement(name) for name in names if name != "python")


def _read_pipfile(text: str) -> Iterator[str]:
    data = tomllib.loads(text)
    yield from (_parse_requirement(name) for name in _list_keys(data.get("packages"), data.get("dev-packages")))


def _read_cargo(text: str) -> Iterator[str]:
    data = tomllib.loads(text)
    places = [data, data.get("workspace", {}), *data.get("target", {}).values()]
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    yield from _list_keys(*(place.get(kind) for place in places for kind in kinds))


def _read_setup_cfg(text: str) -> Iterator[str]:
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    options = dict(parser["options"]) if parser.has_section("options") else {}
    extras = dict(parser["options.extras_require"]) if parser.has_section("options.extras_require") else {}
    listed = [options.get("install_requires", ""), *extras.values()]
    yield from (_parse_requirement(line) for lines in listed for line in lines.splitlines())


def _read_requirements(text: str) -> Iterator[str]:
    for line in text.splitlines():
        plain = line.split("#", 1)[0].strip()
        if plain.startswith("-e ") or "://" in plain:
            yield plain.removeprefix("-e ").strip()
        elif plain and not plain.startswith("-"):
            yield _parse_requirement(plain)


def _read_go_mod(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        words = line.split("//", 1)[0].split()
        if inside:
            inside = words[:1] != [")"]
            yield from words[:1] if inside else ()
        elif words[:1] == ["require"]:
            inside = words[1:2] == ["("]
            yield from words[1:2] if not inside else ()


def _build_regex_reader(pattern: str) -> ManifestReader:
    found = re.compile(pattern, re.MULTILINE)
    return lambda text: (match.group(1) for match in found.finditer(text))


def _read_pom(text: str) -> Iterator[str]:
    for block in re.findall(r"<(?:dependency|plugin)>(.*?)</(?:dependency|plugin)>", text, re.DOTALL):
        found = {key: value.strip() for key, value in re.findall(r"<(groupId|artifactId)>([^<]*)<", block)}
        yield ":".join(found[key] for key in ("groupId", "artifactId") if key in found)


_GRADLE = (
    r"""^\s*\w*(?:[iI]mplementation|[aA]pi|[cC]ompile(?:Only)?|[rR]untimeOnly|classpath)\W+["']([^:"']+:[^:"']+)"""
)

READERS: tuple[tuple[str, ManifestReader], ...] = (
    (
        "package.json",
        _build_json_reader("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"),
    ),
    ("composer.json", _build_json_reader("require", "require-dev")),
    ("pyproject.toml", _read_pyproject),
    ("Pipfile", _read_pipfile),
    ("setup.cfg", _read_setup_cfg),
    ("requirements*.txt", _read_requirements),
    ("requirements*.in", _read_requirements),
    ("Cargo.toml", _read_cargo),
    ("go.mod", _read_go_mod),
    ("Gemfile", _build_regex_reader(r"""^\s*gem\s*\(?\s*["']([^"']+)""")),
    ("*.gemspec", _build_regex_reader(r"""add_(?:\w+_)?dependency\s*\(?\s*["']([^"']+)""")),
    ("pom.xml", _read_pom),
    ("build.gradle", _build_regex_reader(_GRADLE)),
    ("build.gradle.kts", _build_regex_reader(_GRADLE)),
    ("*.csproj", _build_regex_reader(r"""<PackageReference\s+Include="([^"]+)""")),
    ("mix.exs", _build_regex_reader(r"\{:(\w+),")),
    ("Package.swift", _build_regex_reader(r"""\.package\([^)]*url:\s*"([^"]+)""")),
    ("pubspec.yaml", _build_regex_reader(r"^  ([a-z_]\w*):")),
)
"""File name -> function that lists the packages that it requires."""
