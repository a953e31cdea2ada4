"""Find what was left uncommitted in a checkout: the git command, for the sandbox, and the parser of its output.

`git status` in an agent's folder runs what the agent configured there (a file system monitor, filters, a nested
repository), so it runs only in the sandbox, or before the agent. Its output is a hint: an agent can make its own
repository hide files. It does not decide what lands.
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
WORDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10}


def build_status_argv() -> tuple[str, ...]:
    """Build the command to run in the checkout, in the sandbox; its output goes to parse_status."""
    quiet = tuple(part for setting in STATUS_SETTINGS for part in ("-c", setting))
    options = ("--porcelain=v2", "-z", "--ignore-submodules=all", "--untracked-files=normal", "--no-ahead-behind")
    return ("git", "--no-optional-locks", "--no-pager", *quiet, "status", *options)


def parse_status(output: bytes) -> Leftovers:
    """Parse the output; raise GitFailed if any of it cannot be read, since it may name further files."""
    if output and not output.endswith(b"\0"):
        raise _build_unreadable_error(output[-80:])
    parts = iter(output.decode("utf-8", "surrogateescape").split("\0")[:-1])
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
    if kind == "2":  # a rename or copy has both names
        old = next(rest, "")
        if not old:
            raise _build_unreadable_error(part.encode("utf-8", "surrogateescape"))
        yield old


def _build_unreadable_error(output: bytes) -> GitFailed:
    return GitFailed(f"uncommitted files are unknown: cannot parse {output[:80]!r} in the output of git status")
