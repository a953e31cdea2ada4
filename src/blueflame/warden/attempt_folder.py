"""Read and write the files of an attempt's folder, atomically, and the outcome even on a full disk.

launch.json   what to run (from the engine)        lock          held by the living warden, names it
cancel        a request to end (from the engine)   started       marks the one start
stdout.log    output of the agent                  agent.json    identity of the agent, written before it runs
stderr.log                                         status.json   state for views, at most once a second
setup.log     output of the setup steps            outcome.json  how the attempt ended; nothing changes after it
survey-before git status after the setup           survey-after  and after the agent, in the sandbox
groups.json   its control groups                   usage.jsonl   usage of each model call, by the gateway
attach.sock   the agent's terminal, if it has one  sent.jsonl    estimates of calls that have not ended
hindrance     a link to words: why the outcome is not written
"""

# ruff: noqa: PTH105, PTH108, PTH110, PTH116, PTH211 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import errno
import json
import os
import time
from contextlib import suppress

from blueflame.system.fd import read_file, sync_path, wait_for_lock, write_to_end
from blueflame.system.proc import read_boot_id
from blueflame.warden.process_tree import read_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from blueflame.warden.output import Spool
    from blueflame.warden.poll_loop import PollLoop

RESERVED_BYTES = 16 * 1024  # disk space for the outcome, reserved while there still is some
LOCK_TIMEOUT = 0.2  # seconds: a process that reads the holder takes the lock for an instant
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 5.0


def take_lock(folder: str, note: str) -> int | None:
    """Return the open lock file, or None if another warden holds it. The file is never removed."""
    handle = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not wait_for_lock(handle, LOCK_TIMEOUT):
        os.close(handle)
        return None
    _write_holder(handle, note)
    return handle


def _write_holder(handle: int, note: str) -> None:
    with suppress(OSError):  # full disk: the lock itself counts
        os.ftruncate(handle, 0)
        os.pwrite(handle, note.encode(), 0)


def read_json(path: str) -> dict[str, Any]:
    """Raise OSError, ValueError, or TypeError if the file holds no object."""
    found = json.loads(read_file(path))
    if not isinstance(found, dict):
        raise TypeError(f"{path} holds a {type(found).__name__}, not an object")
    return found


def read_json_or_empty(path: str) -> dict[str, Any]:
    try:
        return read_json(path)
    except (OSError, ValueError, TypeError):
        return {}


def write_json(path: str, content: Mapping[str, Any]) -> None:
    """Replace the file atomically; without fsync, since these files need not survive a power cut."""
    draft = f"{path}.draft"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_to_end(handle, _encode_json(content))
    finally:
        os.close(handle)
    os.replace(draft, path)


def claim_start(folder: str, note: Mapping[str, Any]) -> bool:
    """Return True for the one caller that may start the agent; the mark is on disk before anything runs."""
    path = f"{folder}/started"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    try:
        write_to_end(handle, _encode_json(note))
        os.fsync(handle)
    except OSError:
        os.unlink(path)  # nothing was started: the next warden may try
        raise
    finally:
        os.close(handle)
    sync_path(folder)
    return True


def reserve_outcome(folder: str) -> None:
    """Reserve disk space for the outcome: an agent that fills the disk must not prevent its record."""
    try:
        handle = os.open(f"{folder}/outcome.draft", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_to_end(handle, b"\0" * RESERVED_BYTES)
        finally:
            os.close(handle)
    except OSError:  # write_outcome retries
        pass


def has_outcome(folder: str) -> bool:
    return os.path.exists(f"{folder}/outcome.json")


def was_damaged(folder: str) -> bool:
    """Whether there was an outcome that could not be read, and the engine has set it aside."""
    return os.path.exists(f"{folder}/outcome.damaged")


def write_outcome(folder: str, content: Mapping[str, Any], poll_loop: PollLoop) -> bool:
    """Retry until the outcome is on disk; give up only if the folder is gone or a second stop signal arrives."""
    data = _encode_json(content)
    pause = MIN_RETRY_SECONDS
    stops = poll_loop.stops
    while True:
        try:
            _replace_outcome(folder, data)
        except OSError as e:
            if e.errno == errno.ENOENT or poll_loop.stops > stops:
                return False
            report_hindrance(folder, str(e.strerror))
            poll_loop.wait(pause)
            pause = min(pause * 2, MAX_RETRY_SECONDS)
        else:
            return True


def report_hindrance(folder: str, cause: str) -> None:
    """By a link that leads nowhere: it needs no open file and no room in one, whose limits may be what hinders us."""
    with suppress(OSError):
        os.symlink(f"{os.getpid()} {cause}", f"{folder}/hindrance")


def _replace_outcome(folder: str, data: bytes) -> None:
    draft = f"{folder}/outcome.draft"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        write_to_end(handle, data)  # into the reserved blocks
        os.ftruncate(handle, len(data))
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(draft, f"{folder}/outcome.json")
    sync_path(folder)


def touch_file(path: str) -> None:
    """Touch a file that other processes watch. A lost hint does no harm: they also poll."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        os.utime(path)


def read_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def read_tail(path: str, max_bytes: int, offset: int = 0) -> str:
    """Read the end of a file, at most from `offset` on."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        size = os.fstat(handle).st_size
        return os.pread(handle, max_bytes, max(offset, size - max_bytes)).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)


def _encode_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, sort_keys=True) + "\n").encode("utf-8", "replace")


WRITE_SECONDS = 1.0


class StatusFile:
    """The state of the attempt for views: written on change, at most once a second; nothing depends on it."""

    def __init__(self, folder: str) -> None:
        me = read_process(os.getpid())
        self.path = f"{folder}/status.json"
        self.boot = read_boot_id()
        self.start_time = me.start_time if me else 0
        self.started_at = time.time()
        self.state = "starting"  # starting | setup | working | stopping | ended
        self.state_at = self.started_at
        self.agent: int | None = None
        self.parked: dict[str, object] = {}  # why the agent waits for its model: kind, reason, until, since
        self.asking_since: float | None = None  # when the agent began to wait for an answer of a person
        self.held = 0.0  # seconds waited so far
        self._written: tuple[object, ...] = ()
        self._written_waits: tuple[object, ...] = ({}, None)
        self._written_at = 0.0

    def format_lock_note(self, attempt: str) -> str:
        """Format the content of the lock file: `<pid> <start> <RFC3339> <note>`."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started_at))
        return f"{os.getpid()} {self.start_time} {at} {attempt}"

    def update(self, spool: Spool, state: str = "") -> None:
        changed_state = bool(state) and state != self.state
        if changed_state:
            self.state, self.state_at = state, time.time()
        waits = (self.parked, self.asking_since)
        changed_state = changed_state or waits != self._written_waits
        current = (self.state, self.agent, waits, spool.heard_at, spool.size)
        now = time.monotonic()
        if current == self._written or (now - self._written_at < WRITE_SECONDS and not changed_state):
            return
        self._written, self._written_at, self._written_waits = current, now, waits
        with suppress(OSError):  # full disk: lock and outcome count
            write_json(self.path, self._build_content(spool))

    def _build_content(self, spool: Spool) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "start_time": self.start_time,
            "boot_id": self.boot,
            "agent_pid": self.agent,
            "state": self.state,
            "state_at": self.state_at,
            "since": self.started_at,
            "at": time.time(),
            "last_output_at": spool.heard_at,
            "output_bytes": spool.size,
            "parked": self.parked,
            "asking_since": self.asking_since,
            "held": round(self.held, 3),
        }
