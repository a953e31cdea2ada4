"""Checkouts and locks of a person's own, beside those of sessions: agents keep out of what a person has locked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from blueflame.git.checkouts import list_checkouts, make_checkout, read_record, remove_checkout
from blueflame.git.command import run_git
from blueflame.git.results import CollectedResult, collect_result, set_ref
from blueflame.git.untrusted.unfinished import commit_unfinished
from blueflame.model.errors import GitFailed, Refused, UsageError, WorldError
from blueflame.orchestrator.project import Project
from blueflame.paths.locks import BadLock, do_locks_overlap, parse_lock
from blueflame.session.scheduling.ready_queue import HOLDING
from blueflame.session.state import Session
from blueflame.system import flock
from blueflame.system.files import read_text, write_atomically

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEPT_REFS = "refs/blueflame/worktrees/"
LOCKS_FILE = "locks.json"


class OwnCheckout(NamedTuple):
    name: str
    path: str
    branch: str
    base: str
    owner: str  # "" for one of a session


class LockHolder(NamedTuple):
    name: str
    path: str


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: use letters, digits, '.', '_' and '-', at most 64")
    return name


def create_checkout(project: Project, name: str, base: str | None, *, owner: str) -> OwnCheckout:
    """Make a checkout that borrows our objects and cannot change our repository, on a branch of its own."""
    path, sha = project.paths.checkout(check_name(name)), project.repo.base_sha
    if base is not None:
        try:
            args = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
            sha = run_git(project.repo.root, *args).strip()
        except GitFailed as error:
            raise UsageError(f"there is no commit {base!r}: name a branch or a commit") from error
    if read_record(path) is not None:
        raise Refused(f"{path} exists already: remove it first with 'blueflame worktrees remove {name}'")
    make_checkout(project.repo, path, base=sha, branch=f"worktree/{name}", owner=owner)
    return OwnCheckout(name, str(path), f"worktree/{name}", sha, owner)


def list_all_checkouts(project: Project) -> tuple[OwnCheckout, ...]:
    found = ((path, read_record(path)) for path in list_checkouts(project.paths.worktrees))
    return tuple(
        OwnCheckout(path.name, str(path), record.branch or "", record.base, record.owner)
        for path, record in found
        if record is not None
    )


def remove_own_checkout(project: Project, name: str) -> str:
    """Remove a checkout that a person made; return the ref that keeps its work, "" if there was none."""
    path = project.paths.checkout(check_name(name))
    record = read_record(path)
    if record is None:
        raise UsageError(f"there is no checkout {name!r}: see 'blueflame worktrees list'")
    if not record.owner or record.branch is None:
        raise Refused(f"{name} belongs to a session: 'blueflame cleanup' removes what sessions no longer need")
    ref = f"{KEPT_REFS}{name}"
    made = collect_result(project.repo, path, branch=record.branch, base=record.base, ref=ref)
    tip = made.tip if isinstance(made, CollectedResult) else record.base
    left = commit_unfinished(project.repo, path, tip, lambda _path: True)
    if left is not None:
        set_ref(project.repo, ref, left)
    remove_checkout(path)
    return ref if left is not None or tip != record.base else ""


def read_locks(state: Path) -> Mapping[str, tuple[str, ...]]:
    """What people have locked, by who did it; damage is an error, never "nothing is locked"."""
    path = state / LOCKS_FILE
    if not path.exists():
        return {}
    try:
        found = json.loads(read_text(path, "the locks"))
        return {str(name): tuple(map(str, paths)) for name, paths in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise WorldError(f"{path} is damaged ({error}): remove it, and lock again what must stay locked") from error


def check_paths(paths: Sequence[str]) -> None:
    """Refuse paths that no lock can name."""
    for path in paths:
        try:
            parse_lock(path)
        except BadLock as error:
            raise UsageError(str(error)) from None


def find_holders(locks: Mapping[str, Sequence[str]], session: Session | None, paths: Sequence[str]) -> list[LockHolder]:
    """Who holds a lock that overlaps one of these paths: people, and tasks that are being worked on."""
    check_paths(paths)
    tasks = session.tasks.values() if session is not None and not session.ended else ()
    held = {**locks, **{each.task.id: each.task.file_locks or (".",) for each in tasks if each.state in HOLDING}}
    return [
        LockHolder(name, lock)
        for name, theirs in held.items()
        for lock in theirs
        if any(do_locks_overlap(lock, path) for path in paths)
    ]


def acquire_locks(project: Project, session: Session | None, name: str, paths: Sequence[str]) -> None:
    """Lock paths for a person, all or none; refused if another person or a running task holds one of them."""
    check_name(name)
    check_paths(paths)
    with _change_locks(project) as locks:
        others = {each: theirs for each, theirs in locks.items() if each != name}
        if holders := find_holders(others, session, paths):
            words = ", ".join(f"{each.path} by {each.name}" for each in holders)
            raise Refused(f"nothing is locked: {words} is held already; wait, or release it")
        locks[name] = tuple(dict.fromkeys((*locks.get(name, ()), *paths)))


def release_locks(project: Project, name: str) -> tuple[str, ...]:
    """Release all that the name holds; return it."""
    from blueflame.system.wakeups import send_wakeup

    with _change_locks(project) as locks:
        released = locks.pop(name, ())
    send_wakeup(project.state.signals, "inbox")  # tasks may have waited for it
    return released


@contextmanager
def _change_locks(project: Project) -> Iterator[dict[str, tuple[str, ...]]]:
    state = project.state.state
    with flock.hold_lock(state / f"{LOCKS_FILE}.lock", flock.format_lock_note("locks")):
        locks = dict(read_locks(state))
        yield locks
        write_atomically(state / LOCKS_FILE, json.dumps(locks, indent=1))
