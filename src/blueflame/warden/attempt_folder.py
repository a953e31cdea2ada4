"""The files of an attempt's folder: whole or not at all, and the outcome whatever the disk says.

launch.json   what to run (from the engine)        lock          held by the living warden, says who it is
cancel        the wish that it end (from the engine) started       the one start, made once and for all
stdout.log    what the agent said                  agent.json    who the agent is, before it runs
stderr.log                                         status.json   how it stands, at most once a second
setup.log     what the setup steps said            outcome.json  how it ended; nothing changes after it
survey-before what git status said after the setup survey-after  and after the agent, each asked in the box
groups.json   its control groups, before they are made usage.jsonl   what each call to a model used, by the gateway
attach.sock   where people connect to its terminal, while it has one
"""

# ruff: noqa: PTH105, PTH108, PTH110, PTH116 (pathlib's imports would cost every attempt some 10 ms)
from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import suppress

from blueflame.warden.process_tree import read_boot_id, read_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from blueflame.warden.output import Spool
    from blueflame.warden.poll_loop import PollLoop

RESERVED_BYTES = 16 * 1024  # room for the outcome, taken while the disk still has some
LOCK_TIMEOUT = 0.2  # seconds: whoever only asks for the lock's holder has it for an instant
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 5.0
MAX_READ_BYTES = 64 * 1024 * 1024


def take_lock(folder: str, note: str) -> int | None:
    """The lock's open file, to be kept for life; None when another warden lives. The file is never removed."""
    handle = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    give_up = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                os.close(handle)
                return None
            time.sleep(0.02)
        else:
            _write_holder(handle, note)
            return handle


def _write_holder(handle: int, note: str) -> None:
    with suppress(OSError):  # a full disk: the lock itself is what counts
        os.ftruncate(handle, 0)
        os.pwrite(handle, note.encode(), 0)


def read_json(path: str) -> dict[str, Any]:
    """Raises OSError, ValueError, or TypeError for what is not an object."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        size = 0
        while size < MAX_READ_BYTES and (part := os.read(handle, 1 << 20)):
            parts.append(part)
            size += len(part)
    finally:
        os.close(handle)
    found = json.loads(b"".join(parts))
    if not isinstance(found, dict):
        raise TypeError(f"{path} holds a {type(found).__name__}, not an object")
    return found


def read_json_or_empty(path: str) -> dict[str, Any]:
    try:
        return read_json(path)
    except (OSError, ValueError, TypeError):
        return {}


def write_json(path: str, content: Mapping[str, Any]) -> None:
    """Whole or not at all for every reader; not forced to the disk, since none of these survive a power cut anyway."""
    draft = f"{path}.draft"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        _write_all(handle, _encode_json(content))
    finally:
        os.close(handle)
    os.replace(draft, path)


def claim_start(folder: str, note: Mapping[str, Any]) -> bool:
    """True for the one caller who may start the agent: the mark is on the disk before anything runs."""
    path = f"{folder}/started"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    try:
        _write_all(handle, _encode_json(note))
        os.fsync(handle)
    except OSError:
        os.unlink(path)  # nothing has been started: let the next warden try
        raise
    finally:
        os.close(handle)
    _sync_folder(folder)
    return True


def reserve_outcome(folder: str) -> None:
    """Disk space for the outcome, so that an agent that fills the disk cannot keep its own end from being recorded."""
    try:
        handle = os.open(f"{folder}/outcome.draft", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _write_all(handle, b"\0" * RESERVED_BYTES)
        finally:
            os.close(handle)
    except OSError:  # writing the outcome is tried again and again later
        pass


def has_outcome(folder: str) -> bool:
    return os.path.exists(f"{folder}/outcome.json")


def write_outcome(folder: str, content: Mapping[str, Any], poll_loop: PollLoop) -> bool:
    """Tries until it is on the disk. Gives up only when the folder is gone, or when told to stop once more."""
    data = _encode_json(content)
    pause = MIN_RETRY_SECONDS
    stops = poll_loop.stops
    while True:
        try:
            _replace_outcome(folder, data)
        except OSError as e:
            if e.errno == errno.ENOENT or poll_loop.stops > stops:
                return False
            poll_loop.wait(pause)
            pause = min(pause * 2, MAX_RETRY_SECONDS)
        else:
            return True


def _replace_outcome(folder: str, data: bytes) -> None:
    draft = f"{folder}/outcome.draft"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _write_all(handle, data)  # over the reserved blocks, before they are given back
        os.ftruncate(handle, len(data))
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(draft, f"{folder}/outcome.json")
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot
            raise
    finally:
        os.close(handle)


def touch_file(path: str) -> None:
    """Touch a file that others watch. A hint that cannot be given is no loss: they look by themselves, too."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        os.utime(path)


def read_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def read_tail(path: str, max_bytes: int, offset: int = 0) -> str:
    """The end of a file, as far as it lies after `offset`."""
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


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


WRITE_SECONDS = 1.0


class StatusFile:
    __slots__ = (
        *("_told", "_told_at", "_told_parked", "agent", "boot", "held", "parked", "path", "start_time", "started_at"),
        *("state", "state_at"),
    )

    def __init__(self, folder: str) -> None:
        me = read_process(os.getpid())
        self.path = f"{folder}/status.json"
        self.boot = read_boot_id()
        self.start_time = me.start_time if me else 0
        self.started_at = time.time()
        self.state = "starting"  # starting | setup | working | stopping | ended
        self.state_at = self.started_at
        self.agent: int | None = None
        self.parked: dict[str, object] = {}  # why it waits for its model: kind, reason, until, since
        self.held = 0.0  # seconds that it has waited so, in all
        self._told_parked: dict[str, object] = {}
        self._told: tuple[object, ...] = ()
        self._told_at = 0.0

    def format_lock_note(self, attempt: str) -> str:
        """What the lock file says of its holder: `<pid> <start> <RFC3339> <note>`."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started_at))
        return f"{os.getpid()} {self.start_time} {at} {attempt}"

    def update(self, spool: Spool, state: str = "") -> None:
        changed_state = bool(state) and state != self.state
        if changed_state:
            self.state, self.state_at = state, time.time()
        changed_state = changed_state or self.parked != self._told_parked
        news = (self.state, self.agent, self.parked, spool.heard_at, spool.size)
        now = time.monotonic()
        if news == self._told or (now - self._told_at < WRITE_SECONDS and not changed_state):
            return
        self._told, self._told_at, self._told_parked = news, now, self.parked
        with suppress(OSError):  # a full disk: the lock and the outcome are what counts
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
            "held": round(self.held, 3),
        }
