"""Clean and smudge filters, such as Git LFS: kept out of agents' checkouts, which have the files as git stores them.

A filter is a program from the person's configuration. In a checkout of ours it would find neither its settings nor its
remote, and a file that an agent commits without it is one that the person's git sees as changed for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from blueflame.git.command import run_git, split_nul, try_git
from blueflame.git.repository import Repository
from blueflame.model.verdict import Violation

FILTERED_PATH = "filtered_path"
DRIVER_KEYS = r"^filter\..*\.(clean|smudge|process)$"


@lru_cache(maxsize=16)
def list_filter_drivers(root: Path) -> tuple[str, ...]:
    """The filters that the person's git would run, by name. Asked once: such settings do not change in between."""
    names = split_nul(try_git(root, "config", "-z", "--name-only", "--get-regexp", DRIVER_KEYS).out)
    return tuple(sorted({name.split(".", 1)[1].rpartition(".")[0] for name in names}))


def build_unfiltered_args(root: Path) -> tuple[str, ...]:
    """Arguments of git that make every filter do nothing."""
    off = {"clean": "", "smudge": "", "process": "", "required": "false"}
    settings = (f"filter.{name}.{key}={value}" for name in list_filter_drivers(root) for key, value in off.items())
    return tuple(part for setting in settings for part in ("-c", setting))


def find_used_filters(repo: Repository, sha: str) -> tuple[str, ...]:
    """The filters that attributes of the commit name and the person's git would run."""
    drivers = list_filter_drivers(repo.root)
    if not drivers:
        return ()
    args = ("grep", "-h", "-o", "-E", r"\bfilter=[^[:space:]]+", sha, "--", ":(glob)**/.gitattributes")
    named = {line.partition("=")[2] for line in try_git(repo.root, *args, timeout=300).out.splitlines()}
    return tuple(name for name in drivers if name in named)


def find_filtered_paths(repo: Repository, paths: Iterable[str]) -> tuple[Violation, ...]:
    """Report the paths that the person's git filters: what an agent commits there is not what it would store."""
    drivers, asked = list_filter_drivers(repo.root), "".join(f"{path}\0" for path in paths)
    if not drivers or not asked:
        return ()
    fields = split_nul(run_git(repo.root, "check-attr", "-z", "--stdin", "filter", stdin=asked, timeout=300))
    return tuple(
        Violation(
            rule=FILTERED_PATH, path=path, detail=f"git stores it through the filter {name}, which agents do not have"
        )
        for path, _, name in zip(fields[::3], fields[1::3], fields[2::3], strict=True)
        if name in drivers
    )
