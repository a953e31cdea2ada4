"""What past commits tell: which files change often, which change together, and who changes what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from blueflame.codebase.cache import CodeCache
from blueflame.codebase.survey import PastCommit
from blueflame.git.command import run_git
from blueflame.git.repository import Repository
from blueflame.text.sanitize import shorten_line

RECENT_COMMITS = 500
MAX_COMMIT_FILES = 50  # a commit that changes more (a format, an import) says nothing about single files
MIN_TOGETHER, MIN_SHARE = 3, 0.5
MAX_AUTHOR_CHARS = 60
GIT_SECONDS = 60


class FilePair(NamedTuple):
    """Two files that change together: in `together` commits, of `commits` that change the rarer one."""

    first: str
    second: str
    together: int
    commits: int


class Owner(NamedTuple):
    """Who changes a folder most often: in `commits` of `total`."""

    folder: str
    author: str
    commits: int
    total: int


def read_history(repo: Repository, sha: str, cache: CodeCache) -> tuple[PastCommit, ...]:
    """Return the last commits, newest first; only those that are not in the cache are read."""
    args = ("rev-list", "--no-merges", f"--max-count={RECENT_COMMITS}", sha, "--")
    shas = run_git(repo.root, *args, timeout=GIT_SECONDS).split()
    known = cache.load_commits(shas)
    new = [name for name in shas if name not in known]
    if new:
        read = tuple(_read_commits(repo, new))
        cache.save_commits(read)
        known |= {commit.sha: commit for commit in read}
    return tuple(known[name] for name in shas if name in known)


def _read_commits(repo: Repository, shas: Sequence[str]) -> Iterator[PastCommit]:
    options = ("--stdin", "--no-walk=unsorted", "-z", "--name-only", "--no-renames", "--format=%x01%H%x02%an%x02")
    log = run_git(repo.root, "log", *options, stdin="".join(f"{sha}\n" for sha in shas), timeout=GIT_SECONDS)
    for entry in log.split("\x01")[1:]:
        sha, author, rest = entry.split("\x02", 2)
        paths = [path for path in (part.lstrip("\n") for part in rest.split("\0")) if path]
        few = tuple(paths) if len(paths) <= MAX_COMMIT_FILES else ()
        yield PastCommit(sha, shorten_line(author, MAX_AUTHOR_CHARS), few)


def count_changes(history: Iterable[PastCommit], files: Iterable[str]) -> Counter[str]:
    """In how many commits each of the files was changed."""
    here = frozenset(files)
    return Counter(path for commit in history for path in commit.paths if path in here)


def find_pairs(history: Sequence[PastCommit], files: Iterable[str]) -> tuple[FilePair, ...]:
    """Return the files that change together more often than not, the most frequent first."""
    changes = count_changes(history, files)
    often = {path for path, n in changes.items() if n >= MIN_TOGETHER}
    together = Counter(pair for commit in history for pair in combinations(sorted(often.intersection(commit.paths)), 2))
    found = [FilePair(*pair, n, min(changes[pair[0]], changes[pair[1]])) for pair, n in together.items()]
    close = [pair for pair in found if pair.together >= MIN_TOGETHER and pair.together >= MIN_SHARE * pair.commits]
    return tuple(sorted(close, key=lambda pair: (-pair.together, pair.commits, pair)))


def find_owners(history: Iterable[PastCommit], files: Iterable[str], depth: int) -> tuple[Owner, ...]:
    """Return for each folder who changes it most often."""
    here = frozenset(files)
    by_folder: dict[str, Counter[str]] = {}
    for commit in history:
        for folder in {get_folder(path, depth) for path in commit.paths if path in here}:
            by_folder.setdefault(folder, Counter())[commit.author] += 1
    return tuple(_find_owner(folder, counts) for folder, counts in sorted(by_folder.items()))


def _find_owner(folder: str, counts: Counter[str]) -> Owner:
    author, commits = min(counts.items(), key=lambda each: (-each[1], each[0]))
    return Owner(folder, author, commits, counts.total())


def get_folder(path: str, depth: int) -> str:
    parts = path.split("/")[:-1]
    return "/".join(parts[:depth]) + "/" if parts else "./"
