"""A map of the code base for a planner: made from git alone, the same for the same commit, within a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from blueflame.text.event_lines import one_line
from blueflame.text.tokens import tokens_of

READ_FIRST = (
    "readme.md readme.rst readme contributing.md agents.md claude.md makefile justfile pyproject.toml setup.py "
    "package.json cargo.toml go.mod pom.xml build.gradle build.gradle.kts gemfile composer.json mix.exs cmakelists.txt "
    "dockerfile docker-compose.yml main.py __main__.py app.py manage.py main.go main.rs lib.rs index.js index.ts "
    "main.ts server.js main.c main.cpp"
)
ENTRIES = frozenset(READ_FIRST.split())
SHOWN_LANGUAGES, SHOWN_ENTRIES, SHOWN_TESTS, SHOWN_CHANGED = 8, 20, 10, 15
DEEPEST = 3


@dataclass(frozen=True, slots=True)
class TreeFile:
    path: str
    size: int
    language: str = ""
    is_test: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Terrain:
    """What git says about a commit."""

    files: tuple[TreeFile, ...]
    changed: tuple[tuple[str, int], ...] = ()  # path, in how many of the last commits
    commits: int = 0  # how many of them were looked at


def draw_map(terrain: Terrain, budget: int) -> str:
    """Folders with what is in them, as deep as fits. Empty when not even the first lines do."""
    lines = [one_line(line, 600) for line in _about(terrain)]
    spare = budget - sum(map(tokens_of, lines))
    if not terrain.files or spare < 0:
        return ""
    return "\n".join([*lines, *_folders(terrain.files, spare)])


def _about(terrain: Terrain) -> Iterator[str]:
    files = terrain.files
    yield f"{len(files)} files, {_size(sum(file.size for file in files))}"
    languages = Counter(file.language for file in files if file.language)
    if languages:
        yield "languages: " + _listed(languages, SHOWN_LANGUAGES, lambda name, n: f"{name} ({n})")
    entries = sorted((f.path for f in files if _name(f.path).casefold() in ENTRIES), key=lambda p: (p.count("/"), p))
    if entries:
        yield "begin to read at: " + ", ".join(entries[:SHOWN_ENTRIES])
    tests = Counter(_folder(file.path, DEEPEST) for file in files if file.is_test)
    if tests:
        yield "tests are in: " + _listed(tests, SHOWN_TESTS, lambda name, n: f"{name} ({n})")
    if terrain.changed:
        changed = ", ".join(f"{path} ({n})" for path, n in terrain.changed[:SHOWN_CHANGED])
        yield f"changed most often in the last {terrain.commits} commits: {changed}"


def _listed(counts: Mapping[str, int], most: int, show: Callable[[str, int], str]) -> str:
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(show(name, n) for name, n in ranked[:most])


def _folders(files: Sequence[TreeFile], budget: int) -> tuple[str, ...]:
    """The deepest tree that fits; of the shallowest one, as many lines as do."""
    drawn: tuple[str, ...] = ()
    for depth in range(1, DEEPEST + 1):
        lines = _tree(files, depth)
        if sum(map(tokens_of, lines)) > budget:
            return drawn or _cut(lines, budget)
        drawn = lines
    return drawn


def _cut(lines: Sequence[str], budget: int) -> tuple[str, ...]:
    sums = accumulate(map(tokens_of, lines))
    return tuple(line for line, used in zip(lines, sums, strict=True) if used <= budget - 10)


def _tree(files: Iterable[TreeFile], depth: int) -> tuple[str, ...]:
    counts, sizes = Counter[str](), Counter[str]()
    for file in files:
        folder = _folder(file.path, depth)
        counts[folder] += 1
        sizes[folder] += file.size
    return (
        "folders:",
        *(one_line(f"{name}: {n} files, {_size(sizes[name])}", 200) for name, n in sorted(counts.items())),
    )


def _folder(path: str, depth: int) -> str:
    parts = path.split("/")[:-1]
    return "/".join(parts[:depth]) + "/" if parts else "./"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _size(size: int) -> str:
    return (
        f"{size} bytes" if size < 10_000 else f"{size / 1000:.0f} kB" if size < 10_000_000 else f"{size / 1e6:.0f} MB"
    )
