"""Clean and smudge filters, such as Git LFS: kept out of agents' checkouts, which have the files as git stores them.

A filter is a program from the person's configuration. In a checkout of ours it would find neither its settings nor its
remote, and a file that an agent commits without it is one that the person's git sees as changed for ever. So no such
file lands, whenever the filter came: to change one that was filtered before breaks a rule, any other waits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from blueflame.git.command import read_settings, run_git, split_nul, try_git
from blueflame.git.merge import find_tree
from blueflame.git.repository import Repository
from blueflame.git.steps import compare_trees
from blueflame.git.trees import list_tree
from blueflame.model.changes import Change
from blueflame.model.errors import GitFailed
from blueflame.model.verdict import Violation

FILTERED_PATH = "filtered_path"
NOT_THERE = "which agents do not have"
ATTRIBUTES = ".gitattributes"
PLAIN_FILE = "100"  # the beginning of its mode; git filters no link
NAMED = re.compile(r"\bfilter=([^ \t\r\n]+)")
MAX_SHOWN = 5


def list_filter_drivers(root: Path) -> tuple[str, ...]:
    """The filters that the person's git would run, by name."""
    keys = (key.split(".", 1)[1] for key in read_settings(root) if key.startswith("filter."))
    return tuple(sorted({key.rpartition(".")[0] for key in keys}))


def find_used_filters(repo: Repository, sha: str) -> tuple[str, ...]:
    """The filters that attributes of the commit or the repository's own name and the person's git would run."""
    drivers = list_filter_drivers(repo.root)
    if not drivers:
        return ()
    args = ("grep", "-h", "-F", "filter=", sha, "--", f":(glob)**/{ATTRIBUTES}")
    attributes = try_git(repo.root, *args, timeout=300).out
    with suppress(OSError):
        attributes += (repo.common_dir / "info" / "attributes").read_text("utf-8", "replace")
    named = set(NAMED.findall(attributes))
    return tuple(name for name in drivers if name in named)


def find_filtered_changes(
    repo: Repository, base: str, changes: Iterable[Change], drivers: Sequence[str]
) -> tuple[Violation, ...]:
    """Report the filtered files of the base that changed: an agent sees only what git stores of them."""
    known = (change.path for change in changes if change.status not in "AD")
    found = find_filtered_paths(repo, base, known, drivers)
    return tuple(
        Violation(rule=FILTERED_PATH, path=path, detail=f"git stores it through the filter {name}, {NOT_THERE}")
        for path, name in found.items()
    )


def refuse_filtered_changes(repo: Repository, base: str, sha: str) -> None:
    """Raise GitFailed if a file that the person's git filters changes between two commits."""
    if not (drivers := list_filter_drivers(repo.root)):
        return
    changed = compare_trees(repo, find_tree(repo, base), find_tree(repo, sha))
    plain = (entry.path for entry in changed if entry.mode.startswith(PLAIN_FILE))
    found = find_filtered_paths(repo, sha, plain, drivers)
    if not found:
        return
    more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
    names, filters = ", ".join(list(found)[:MAX_SHOWN]), ", ".join(sorted(set(found.values())))
    lines = ", ".join(f"'{json.dumps(path, ensure_ascii=False)} -filter'" for path in list(found)[:MAX_SHOWN])
    raise GitFailed(
        f"git stores {names}{more} through the filter {filters}, {NOT_THERE}. "
        f"Turn the filter off for it until it has landed, with a line in {repo.common_dir / 'info' / 'attributes'} "
        f"({lines}{more}); then remove that line, run 'git add --renormalize .' and commit"
    )


def find_filtered_paths(repo: Repository, sha: str, paths: Iterable[str], drivers: Sequence[str]) -> dict[str, str]:
    """Return the paths that these filters change, with the filter, by attributes of a commit and the person's own."""
    asked = "".join(f"{path}\0" for path in paths) if drivers else ""
    if not asked:
        return {}
    named = {path: entry for path, entry in list_tree(repo, sha).items() if path.rpartition("/")[2] == ATTRIBUTES}
    with TemporaryDirectory(prefix="blueflame-attributes-") as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        if named:
            entries = "".join(f"{entry.mode} {entry.sha}\t{path}\0" for path, entry in named.items())
            run_git(repo.root, "update-index", "-z", "--index-info", stdin=entries, env=env)
        args = ("check-attr", "--cached", "-z", "--stdin", "filter")
        fields = split_nul(run_git(repo.root, *args, stdin=asked, env=env, timeout=300))
    filtered = zip(fields[::3], fields[2::3], strict=True)
    return {path: name for path, name in filtered if name in drivers}
