"""Paths that people have locked for themselves: sessions begin no task there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import ConfigDict, TypeAdapter

from blueflame.model.errors import Refused, UsageError, WorldError
from blueflame.orchestrator.cleanup import check_name
from blueflame.orchestrator.project import Project
from blueflame.paths.locks import BadLock, do_locks_overlap, parse_lock
from blueflame.session.scheduling.ready_queue import HOLDING
from blueflame.session.state import Session
from blueflame.system import flock
from blueflame.system.files import read_text, write_atomically
from blueflame.text.sanitize import shorten_line

LOCKS_FILE = "locks.json"
LOCKS = TypeAdapter(dict[str, tuple[str, ...]], config=ConfigDict(defer_build=True))
MAX_ERROR_CHARS = 200


class LockHolder(NamedTuple):
    name: str
    path: str


def read_locks(state: Path) -> Mapping[str, tuple[str, ...]]:
    """What people have locked, by who did it; damage is an error, never "nothing is locked"."""
    path = state / LOCKS_FILE
    if not path.exists():
        return {}
    try:
        found = LOCKS.validate_json(read_text(path, "the locks"))
        check_paths([each for paths in found.values() for each in paths])
    except (ValueError, UsageError) as error:
        why = shorten_line(str(error), MAX_ERROR_CHARS)
        fix = "correct it; or remove it, and lock again what must stay locked (blueflame locks acquire)"
        raise WorldError(f"{path} is damaged, so no new task starts: {fix}. {why}") from error
    return found


def show_locks(state: Path) -> Mapping[str, tuple[str, ...]]:
    """The same for screens: nothing while they cannot be read, which the session itself reports."""
    try:
        return read_locks(state)
    except WorldError:
        return {}


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
