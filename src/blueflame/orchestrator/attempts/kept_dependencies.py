"""Give a checkout the dependencies that an earlier setup installed for the same lock files.

Environments and build folders hold absolute paths, so this needs a sandbox that shows every checkout at the same path.
"""

from __future__ import annotations

import os
import shutil
from functools import lru_cache
from pathlib import Path

from blueflame.git.checkouts import get_home_path
from blueflame.git.dependencies import REBUILT, build_key, is_accepted, keep_dependencies, restore_dependencies
from blueflame.orchestrator.attempts.walls import find_inner_path
from blueflame.orchestrator.context import SessionContext

INTERPRETERS = ("python3", "node", "ruby", "go", "rustc", "java", "php")  # what they build fits no other version


def is_missing(context: SessionContext, commit: str) -> bool:
    """Whether dependencies can be kept here, and none are for this commit's lock files."""
    store = _find_store(context, context.paths.checkout("any"), commit)
    return store is not None and not store.exists()


def restore_kept(context: SessionContext, checkout: Path, home: Path, commit: str) -> None:
    """Copy what is kept for this commit's lock files into a checkout and its home."""
    store = _find_store(context, checkout, commit)
    if store is not None:
        restore_dependencies(store, checkout, home)


def keep_installed(context: SessionContext, checkout: Path, commit: str, base_branch: str) -> None:
    """Keep what a setup and checks installed in a scratch checkout of an accepted commit, which is removed next."""
    store = _find_store(context, checkout, commit)
    if store is None or store.exists() or not is_accepted(context.repo, commit, base_branch):
        return
    rebuilt = {folder for command, folder in REBUILT.items() if command in "\n".join(context.settings.worktree.setup)}
    keep_dependencies(store, context.repo.root, checkout, get_home_path(checkout), rebuilt=rebuilt)


def _find_store(context: SessionContext, checkout: Path, commit: str) -> Path | None:
    inside = find_inner_path(context, checkout)
    if inside == os.path.realpath(checkout):
        return None
    parts = (inside, *context.settings.worktree.setup, *_list_interpreters(context.find_tools().path))
    return context.paths.dependencies / build_key(context.repo, commit, parts)


@lru_cache(maxsize=4)  # as the toolchains of a session, which are found once
def _list_interpreters(path: tuple[str, ...]) -> tuple[str, ...]:
    found = (shutil.which(name, path=os.pathsep.join(path)) for name in INTERPRETERS)
    real = [Path(os.path.realpath(each)) for each in found if each]
    return tuple(f"{each} {each.stat().st_mtime_ns}" for each in real)
