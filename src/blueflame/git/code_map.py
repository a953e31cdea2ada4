"""A map of the code base for a planner: made from git alone, the same for the same commit, within a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePosixPath

from blueflame.git.command import run_git, split_nul
from blueflame.git.file_kinds import LANGUAGE_OF, is_test_file
from blueflame.git.repository import Repository
from blueflame.text.sanitize import shorten_line
from blueflame.text.tokens import estimate_tokens

RECENT_COMMITS = 200  # commits
MAX_FILES = 200_000
ENTRY_FILE_NAMES = (
    "readme.md readme.rst readme contributing.md agents.md claude.md makefile justfile pyproject.toml setup.py "
    "package.json cargo.toml go.mod pom.xml build.gradle build.gradle.kts gemfile composer.json mix.exs cmakelists.txt "
    "dockerfile docker-compose.yml main.py __main__.py app.py manage.py main.go main.rs lib.rs index.js index.ts "
    "main.ts server.js main.c main.cpp"
)
ENTRY_FILES = frozenset(ENTRY_FILE_NAMES.split())
MAX_LANGUAGES, MAX_ENTRIES, MAX_TEST_FOLDERS, MAX_CHANGED_FILES = 8, 20, 10, 15
MAX_DEPTH = 3


@dataclass(frozen=True, slots=True)
class TreeFile:
    path: str
    size: int
    language: str = ""
    is_test: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSurvey:
    """What git says about a commit."""

    files: tuple[TreeFile, ...]
    changed: tuple[tuple[str, int], ...] = ()  # path, in how many of the last commits
    commits: int = 0  # how many of them were looked at


def survey_code(repo: Repository, sha: str) -> CodeSurvey:
    form = "--format=%(objectsize) %(path)"
    entries = split_nul(run_git(repo.root, "ls-tree", "-r", "-z", "--full-tree", form, sha, timeout=60))
    files = tuple(_parse_tree_file(entry) for entry in entries[:MAX_FILES] if not entry.startswith("-"))
    here = {file.path for file in files}
    log = run_git(
        repo.root,
        "log",
        "-z",
        "--no-merges",
        f"-{RECENT_COMMITS}",
        "--name-only",
        "--format=%x01",
        sha,
        "--",
        timeout=60,
    )
    parts = [part.lstrip("\n") for part in log.split("\0")]
    counts = Counter(part for part in parts if part in here)
    often = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return CodeSurvey(files=files, changed=tuple(often[:50]), commits=sum(part.startswith("\x01") for part in parts))


def _parse_tree_file(entry: str) -> TreeFile:
    size, _, path = entry.strip().partition(" ")
    return TreeFile(path, int(size), LANGUAGE_OF.get(PurePosixPath(path).suffix.lower(), ""), is_test_file(path))


def format_code_map(terrain: CodeSurvey, budget: int) -> str:
    """Folders with what is in them, as deep as fits. Empty when not even the first lines do."""
    lines = [shorten_line(line, 600) for line in _list_facts(terrain)]
    spare = budget - sum(map(estimate_tokens, lines))
    if not terrain.files or spare < 0:
        return ""
    return "\n".join([*lines, *_fit_folders(terrain.files, spare)])


def _list_facts(terrain: CodeSurvey) -> Iterator[str]:
    files = terrain.files
    yield f"{len(files)} files, {_format_size(sum(file.size for file in files))}"
    languages = Counter(file.language for file in files if file.language)
    if languages:
        yield "languages: " + _format_counts(languages, MAX_LANGUAGES, lambda name, n: f"{name} ({n})")
    entries = sorted(
        (f.path for f in files if _get_name(f.path).casefold() in ENTRY_FILES), key=lambda p: (p.count("/"), p)
    )
    if entries:
        yield "begin to read at: " + ", ".join(entries[:MAX_ENTRIES])
    tests = Counter(_get_folder(file.path, MAX_DEPTH) for file in files if file.is_test)
    if tests:
        yield "tests are in: " + _format_counts(tests, MAX_TEST_FOLDERS, lambda name, n: f"{name} ({n})")
    if terrain.changed:
        changed = ", ".join(f"{path} ({n})" for path, n in terrain.changed[:MAX_CHANGED_FILES])
        yield f"changed most often in the last {terrain.commits} commits: {changed}"


def _format_counts(counts: Mapping[str, int], most: int, show: Callable[[str, int], str]) -> str:
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(show(name, n) for name, n in ranked[:most])


def _fit_folders(files: Sequence[TreeFile], budget: int) -> tuple[str, ...]:
    """The deepest tree that fits; of the shallowest one, as many lines as do."""
    drawn: tuple[str, ...] = ()
    for depth in range(1, MAX_DEPTH + 1):
        lines = _format_tree(files, depth)
        if sum(map(estimate_tokens, lines)) > budget:
            return drawn or _cut_lines(lines, budget)
        drawn = lines
    return drawn


def _cut_lines(lines: Sequence[str], budget: int) -> tuple[str, ...]:
    sums = accumulate(map(estimate_tokens, lines))
    return tuple(line for line, used in zip(lines, sums, strict=True) if used <= budget - 10)


def _format_tree(files: Iterable[TreeFile], depth: int) -> tuple[str, ...]:
    counts, sizes = Counter[str](), Counter[str]()
    for file in files:
        folder = _get_folder(file.path, depth)
        counts[folder] += 1
        sizes[folder] += file.size
    return (
        "folders:",
        *(shorten_line(f"{name}: {n} files, {_format_size(sizes[name])}", 200) for name, n in sorted(counts.items())),
    )


def _get_folder(path: str, depth: int) -> str:
    parts = path.split("/")[:-1]
    return "/".join(parts[:depth]) + "/" if parts else "./"


def _get_name(path: str) -> str:
    return path.rpartition("/")[2]


def _format_size(size: int) -> str:
    return (
        f"{size} bytes" if size < 10_000 else f"{size / 1000:.0f} kB" if size < 10_000_000 else f"{size / 1e6:.0f} MB"
    )
