"""What a reader of the map is shown, computed from the survey: languages, folders, where to begin, what changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from blueflame.codebase.history import FilePair, Owner, count_changes, find_owners, find_pairs, get_folder
from blueflame.codebase.survey import CodeFile, CodeSurvey
from blueflame.lazy_dataclass import dataclass

_ENTRY_FILES = (
    "readme.md readme.rst readme contributing.md agents.md claude.md makefile justfile pyproject.toml setup.py "
    "package.json cargo.toml go.mod pom.xml build.gradle build.gradle.kts gemfile composer.json mix.exs cmakelists.txt "
    "dockerfile docker-compose.yml main.py __main__.py app.py manage.py main.go main.rs lib.rs index.js index.ts "
    "main.ts server.js main.c main.cpp"
)
ENTRY_FILES = frozenset(_ENTRY_FILES.split())
FOLDER_DEPTH, OWNER_DEPTH = 3, 2


class Folder(NamedTuple):
    path: str
    files: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapFacts:
    languages: tuple[tuple[str, int], ...]  # with the number of files; the most first, as in all that follow
    entries: tuple[str, ...]  # where to begin to read
    tests: tuple[tuple[str, int], ...]  # folders
    changed: tuple[tuple[str, int], ...]  # files, with the number of commits
    pairs: tuple[FilePair, ...]
    owners: tuple[Owner, ...]
    commits: int  # that `changed`, `pairs` and `owners` are taken from


def compute_facts(
    survey: CodeSurvey, files: Sequence[CodeFile] | None = None, pairs: tuple[FilePair, ...] | None = None
) -> MapFacts:
    """Compute them for all files, or for some and the pairs that they are in."""
    files, history = survey.files if files is None else files, survey.history
    paths = [file.path for file in files]
    entries = [path for path in paths if path.rpartition("/")[2].casefold() in ENTRY_FILES]
    return MapFacts(
        languages=rank(Counter(file.language for file in files if file.language)),
        entries=tuple(sorted(entries, key=lambda path: (path.count("/"), path))),
        tests=rank(Counter(get_folder(file.path, FOLDER_DEPTH) for file in files if file.is_test)),
        changed=rank(count_changes(history, paths)),
        pairs=find_pairs(history, paths) if pairs is None else pairs,
        owners=tuple(sorted(find_owners(history, paths, OWNER_DEPTH), key=lambda each: (-each.total, each.folder))),
        commits=len(history),
    )


def list_folders(files: Iterable[CodeFile], depth: int) -> tuple[Folder, ...]:
    """Sum up files by their folders, those below `depth` with the folder above."""
    by_parent: dict[str, list[int]] = {}
    for file in files:
        by_parent.setdefault(file.path.rpartition("/")[0], []).append(file.size)
    counts, sizes = Counter[str](), Counter[str]()
    for parent, found in by_parent.items():
        folder = get_folder(f"{parent}/", depth) if parent else get_folder("", depth)
        counts[folder] += len(found)
        sizes[folder] += sum(found)
    return tuple(Folder(name, n, sizes[name]) for name, n in sorted(counts.items()))


def rank(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
