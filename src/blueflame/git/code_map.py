"""Describe the code base to a planner: from git alone, the same for the same commit, within a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePosixPath

from blueflame.git.command import run_git, split_nul, try_git
from blueflame.git.file_kinds import LANGUAGE_OF, is_test_file
from blueflame.git.repository import Repository
from blueflame.model.errors import ProcessFailed
from blueflame.text.sanitize import shorten_line
from blueflame.text.tokens import estimate_tokens

RECENT_COMMITS = 200
MAX_FILES = 200_000
SEARCH_SECONDS = 10
_ENTRY_FILES = (
    "readme.md readme.rst readme contributing.md agents.md claude.md makefile justfile pyproject.toml setup.py "
    "package.json cargo.toml go.mod pom.xml build.gradle build.gradle.kts gemfile composer.json mix.exs cmakelists.txt "
    "dockerfile docker-compose.yml main.py __main__.py app.py manage.py main.go main.rs lib.rs index.js index.ts "
    "main.ts server.js main.c main.cpp"
)
ENTRY_FILES = frozenset(_ENTRY_FILES.split())
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
    """What git reports about a commit."""

    files: tuple[TreeFile, ...]
    changed: tuple[tuple[str, int], ...] = ()  # path, in how many of the last commits
    commits: int = 0  # the number of those commits


def survey_code(repo: Repository, sha: str) -> CodeSurvey:
    entries = split_nul(run_git(repo.root, "ls-tree", "-r", "-z", "--full-tree", "--long", sha, timeout=60))
    files = tuple(_parse_tree_file(entry) for entry in entries[:MAX_FILES] if " blob " in entry.partition("\t")[0])
    here = {file.path for file in files}
    args = ("log", "-z", "--no-merges", f"-{RECENT_COMMITS}", "--name-only", "--format=%x01", sha, "--")
    log = run_git(repo.root, *args, timeout=60)
    parts = [part.lstrip("\n") for part in log.split("\0")]
    counts = Counter(part for part in parts if part in here)
    often = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return CodeSurvey(files=files, changed=tuple(often[:50]), commits=sum(part.startswith("\x01") for part in parts))


def find_word(repo: Repository, sha: str, word: str) -> tuple[str, ...]:
    """Return the files of a commit that contain the word; none where it takes too long to look."""
    with suppress(ProcessFailed):
        found = try_git(repo.root, "grep", "-l", "-z", "-I", "-w", "-F", "-e", word, sha, "--", timeout=SEARCH_SECONDS)
        return tuple(sorted(name.partition(":")[2] for name in split_nul(found.out)))
    return ()


def _parse_tree_file(entry: str) -> TreeFile:
    head, _, path = entry.partition("\t")
    return TreeFile(
        path, int(head.split()[3]), LANGUAGE_OF.get(PurePosixPath(path).suffix.lower(), ""), is_test_file(path)
    )


def format_code_map(survey: CodeSurvey, budget: int) -> str:
    """List folders and their sizes, as deep as fits; empty if not even the first lines fit."""
    lines = [shorten_line(line, 600) for line in _list_facts(survey)]
    spare = budget - sum(map(estimate_tokens, lines))
    if not survey.files or spare < 0:
        return ""
    return "\n".join([*lines, *_fit_folders(survey.files, spare)])


def _list_facts(survey: CodeSurvey) -> Iterator[str]:
    files = survey.files
    yield f"{len(files)} files, {_format_size(sum(file.size for file in files))}"
    languages = Counter(file.language for file in files if file.language)
    if languages:
        yield "languages: " + _format_counts(languages, MAX_LANGUAGES)
    paths = (file.path for file in files if file.path.rpartition("/")[2].casefold() in ENTRY_FILES)
    entries = sorted(paths, key=lambda path: (path.count("/"), path))
    if entries:
        yield "begin to read at: " + ", ".join(entries[:MAX_ENTRIES])
    tests = Counter(_get_folder(file.path, MAX_DEPTH) for file in files if file.is_test)
    if tests:
        yield "tests are in: " + _format_counts(tests, MAX_TEST_FOLDERS)
    if survey.changed:
        changed = ", ".join(f"{path} ({n})" for path, n in survey.changed[:MAX_CHANGED_FILES])
        yield f"changed most often in the last {survey.commits} commits: {changed}"


def _format_counts(counts: Mapping[str, int], most: int) -> str:
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{name} ({n})" for name, n in ranked[:most])


def _fit_folders(files: Sequence[TreeFile], budget: int) -> tuple[str, ...]:
    """Return the deepest tree that fits; if none does, as many lines of the shallowest as fit."""
    drawn: tuple[str, ...] = ()
    for depth in range(1, MAX_DEPTH + 1):
        lines = _format_tree(files, depth)
        if sum(map(estimate_tokens, lines)) > budget:
            sums = accumulate(map(estimate_tokens, lines))
            return drawn or tuple(line for line, used in zip(lines, sums, strict=True) if used <= budget - 10)
        drawn = lines
    return drawn


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


def _format_size(size: int) -> str:
    return (
        f"{size} bytes" if size < 10_000 else f"{size / 1000:.0f} kB" if size < 10_000_000 else f"{size / 1e6:.0f} MB"
    )
