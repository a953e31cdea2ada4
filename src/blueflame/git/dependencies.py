"""Keep what a setup installs (node_modules, .venv, target, tools' caches) for later checkouts of the same lock files.

Only what git ignores is kept, and only from a commit of the base branch, which a person has accepted: an agent's commit
could install anything. Each checkout gets a copy of its own, so that none can change another's or what is kept; where
the file system can, copies share their blocks until one is written.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from blueflame.git.checkouts import remove_tree
from blueflame.git.command import remember_answers, split_nul, try_git
from blueflame.git.repository import Repository, is_ancestor, read_branch_head
from blueflame.git.seed_checkout import ignore_paths
from blueflame.git.trees import list_tree
from blueflame.git.untrusted.branches import read_plain
from blueflame.model.errors import GitFailed
from blueflame.system.process import run

FOLDERS = frozenset(
    (*("node_modules", ".yarn", ".venv", "venv", ".tox", ".nox", "target", "vendor", ".bundle"), *(".gradle", "deps"))
)
HOME_FOLDERS = (".cache", ".cargo", ".gradle", ".local", ".m2", ".npm", "go")
REBUILT = {"npm ci": "node_modules", "npm clean-install": "node_modules"}  # these remove the folder first
MANIFESTS = re.compile(
    r"(package(-lock)?|npm-shrinkwrap|composer|deno)\.json|[\w.-]*\.lock(file|b)?|pnpm-(lock|workspace)\.yaml|\.npmrc"
    r"|pyproject\.toml|setup\.(py|cfg)|[\w.-]*requirements[\w.-]*\.(txt|in)|Pipfile|tox\.ini|noxfile\.py|environment\.ya?ml"
    r"|Cargo\.toml|go\.(mod|sum|work)|Gemfile|[\w.-]+\.gemspec|composer\.lock|pom\.xml|[\w.-]*\.gradle(\.kts)?"
    r"|libs\.versions\.toml|mix\.exs|\.(tool-versions|nvmrc|node-version|python-version|ruby-version)"
)
MAX_DEPTH = 4  # of a package in a monorepo
MAX_KEPT = 3  # sets of lock files; the one that was not used for the longest time goes first
COPY_TIMEOUT = 600.0


def build_key(repo: Repository, commit: str, parts: Sequence[str]) -> str:
    """Build the name under which the dependencies of a commit are kept: its lock files and manifests, and `parts`."""
    texts = (*parts, "", *_list_manifests(repo, commit))
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


@remember_answers(64)
def _list_manifests(repo: Repository, commit: str) -> Sequence[str]:
    files = list_tree(repo, commit).items()
    return tuple(
        f"{mode} blob {sha}\t{name}" for name, (mode, sha) in files if MANIFESTS.fullmatch(name.rpartition("/")[2])
    )


def is_accepted(repo: Repository, commit: str, base_branch: str) -> bool:
    """Whether the base branch exists and contains the commit."""
    with suppress(GitFailed):
        return is_ancestor(repo, commit, read_branch_head(repo, base_branch))
    return False


def keep_dependencies(store: Path, root: Path, checkout: Path, home: Path, *, rebuilt: Collection[str] = ()) -> None:
    """Move the dependencies of a checkout that is no longer needed into `store`, unless they are there already.

    Nothing is kept if that fails, as on another disk: the next setup installs them as the last one did.
    """
    draft = store.with_name(f"{store.name}.{os.getpid()}.draft")
    moves = [(checkout, name, "tree") for name in _find_folders(root, checkout) if Path(name).name not in rebuilt]
    moves += [(home, name, "home") for name in HOME_FOLDERS]
    if store.exists():
        return
    try:
        draft.mkdir(parents=True, exist_ok=True)  # kept even if empty: then there is nothing to install
        for top, name, part in moves:
            if _is_plain_folder(top, name):
                (draft / part / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).rename(draft / part / name)
        _remove_oldest(store.parent)
        draft.rename(store)
    except OSError:
        remove_tree(draft)


def restore_dependencies(store: Path, checkout: Path, home: Path) -> None:
    """Copy what is kept into a checkout in which no process runs yet. Nothing is overwritten."""
    if not store.is_dir():
        return
    os.utime(store)  # _remove_oldest goes by it
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = _list_kept(store / "tree")
    ignore_paths(checkout, (f"{name}/" for name in kept))  # first: an agent's `git add -A` must not commit them
    for part, top, names in (("tree", checkout, kept), ("home", home, _list_kept(store / "home"))):
        for name in names:
            # a commit may have a file or a link in its place
            if not os.path.lexists(top / name) and _is_plain_folder(top, str(Path(name).parent)):
                _copy_folder(store / part / name, top, top / name)


def _copy_folder(source: Path, top: Path, target: Path) -> None:
    """Copy it beside `top`, on the same disk, and move it: it appears as a whole or not at all. One that cannot be
    copied is left out, and the setup installs it."""
    draft = top.with_name(f".{top.name}.restored")
    remove_tree(draft)
    argv = ("cp", "-a", "--reflink=auto", "--", str(source), str(draft))
    if run(*argv, cwd=source, timeout=COPY_TIMEOUT).code == 0:
        draft.rename(target)
    remove_tree(draft)


def _find_folders(root: Path, checkout: Path) -> Iterator[str]:
    """Find the folders of dependencies that git ignores. Git is asked in our repository, never in the checkout."""
    found = sorted(_walk(checkout, "", MAX_DEPTH))
    asked = "".join(f"{name}/\0" for name in found)
    ignored = split_nul(try_git(root, "check-ignore", "-z", "--stdin", stdin=asked).out) if found else ()
    yield from (name for name in found if f"{name}/" in ignored or _ignores_itself(checkout / name))


def _ignores_itself(folder: Path) -> bool:
    """Whether a .gitignore in it names everything, as in the virtual environments of Python 3.13."""
    return "*" in (read_plain(folder / ".gitignore") or "").split("\n")


def _walk(checkout: Path, folder: str, depth: int) -> Iterator[str]:
    with os.scandir(checkout / folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name != ".git"]
    for name in names:
        path = f"{folder}/{name}".lstrip("/")
        if name in FOLDERS:
            yield path
        elif depth:
            yield from _walk(checkout, path, depth - 1)


def _list_kept(part: Path) -> list[str]:
    """List the folders that were moved there: those of the tables, below folders that only lead to them."""
    if part.name == "home":
        return [name for name in HOME_FOLDERS if (part / name).is_dir()]
    return sorted(_walk(part, "", MAX_DEPTH)) if part.is_dir() else []


def _is_plain_folder(top: Path, name: str) -> bool:
    """Whether it is a folder and no link is on the way to it, which would lead elsewhere."""
    path = os.path.normpath(top / name)
    return os.path.realpath(path) == os.path.normpath(os.path.realpath(top) + "/" + name) and Path(path).is_dir()


def _remove_oldest(folder: Path) -> None:
    kept = sorted((each for each in folder.iterdir() if each.suffix != ".draft"), key=lambda each: each.stat().st_mtime)
    for each in kept[: max(0, len(kept) - MAX_KEPT + 1)]:
        remove_tree(each)
