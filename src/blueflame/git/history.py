"""Which files the last commits changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blueflame.git.command import try_git
from blueflame.knowledge.history import PastCommit
from blueflame.model.errors import ProcessFailed

MAX_COMMITS = 2_000
TIMEOUT = 20.0
COMMIT = "\x01"


def list_past_commits(root: Path) -> tuple[PastCommit, ...]:
    """Newest first, without merges; none where there is no commit yet, or where git takes too long. A commit whose date
    git cannot read counts as old."""
    args = ("log", "-z", "--no-merges", f"-{MAX_COMMITS}", "--name-only", f"--format={COMMIT}%H %ct", "HEAD", "--")
    try:
        done = try_git(root, *args, timeout=TIMEOUT)
    except ProcessFailed:
        return ()
    return tuple(_parse_log(done.out)) if done.code == 0 else ()


def _parse_log(out: str) -> Iterator[PastCommit]:
    for part in out.split(COMMIT)[1:]:
        head, *files = part.split("\0")
        sha, _, at = head.partition(" ")
        yield PastCommit(sha, float(at or 0), tuple(name.removeprefix("\n") for name in files if name))
