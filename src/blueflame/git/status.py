"""What was left uncommitted in a checkout: the git command, to be run in the sandbox, and the parser of its output.

git status in an agent's folder runs what the agent configured there, so it runs only inside the sandbox
(facts: a file system monitor, filters, a nested repository). What it says is a hint all the same: an agent can make its
own repository hide things. Nothing that lands is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.checks.leftovers import Leftovers
from blueflame.model.errors import GitFailed

STATUS_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.pager=cat",
    "core.quotePath=false",
    "status.relativePaths=false",
    "status.showStash=false",
    "status.submoduleSummary=false",
    "diff.external=",
)
WORDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10}  # how many words stand before the path


def build_status_argv() -> tuple[str, ...]:
    """To be run in the checkout, in the sandbox; its whole output goes to parse_status."""
    quiet = tuple(part for setting in STATUS_SETTINGS for part in ("-c", setting))
    options = ("--porcelain=v2", "-z", "--ignore-submodules=all", "--untracked-files=normal", "--no-ahead-behind")
    return ("git", "--no-optional-locks", "--no-pager", *quiet, "status", *options)


def parse_status(said: bytes) -> Leftovers:
    """What cannot be read whole is an error: half an answer would hide the other half."""
    if said and not said.endswith(b"\0"):
        raise _build_unreadable_error(said[-80:])
    parts = iter(said.decode("utf-8", "surrogateescape").split("\0")[:-1])
    changed: set[str] = set()
    untracked: set[str] = set()
    for part in parts:
        kind, _, rest = part.partition(" ")
        if kind == "?" and rest:
            untracked.add(rest)
        elif kind in WORDS_BEFORE_PATH:
            changed.update(_parse_changed(kind, part, parts))
        elif kind not in ("#", "!"):
            raise _build_unreadable_error(part.encode("utf-8", "surrogateescape"))
    return Leftovers(changed=tuple(sorted(changed)), untracked=tuple(sorted(untracked)))


def _parse_changed(kind: str, part: str, rest: Iterator[str]) -> Iterator[str]:
    words = part.split(" ", WORDS_BEFORE_PATH[kind])
    if len(words) <= WORDS_BEFORE_PATH[kind] or not words[-1]:
        raise _build_unreadable_error(part.encode("utf-8", "surrogateescape"))
    yield words[-1]
    if kind == "2":  # of a move or copy both names
        old = next(rest, "")
        if not old:
            raise _build_unreadable_error(part.encode("utf-8", "surrogateescape"))
        yield old


def _build_unreadable_error(said: bytes) -> GitFailed:
    return GitFailed(f"git status said {said[:80]!r}, which is not a status: it is unknown what was left uncommitted")
