"""What git knows of a code base without a checkout: its files with their sizes, and where changes go lately."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

from blueflame.git.code_map import CodeSurvey, TreeFile
from blueflame.git.command import run_git, split_nul
from blueflame.git.file_kinds import LANGUAGE_OF, is_test_file
from blueflame.git.repository import Repository

RECENT_COMMITS = 200  # commits
MAX_FILES = 200_000


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
