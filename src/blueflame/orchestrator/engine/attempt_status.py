"""Read from an attempt's folder whether it runs, has ended, or lost its warden."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blueflame.model.errors import WorldError
from blueflame.orchestrator.engine.interface import (
    AttemptStatus,
    Ended,
    ExitReason,
    ProcessOutcome,
    Queued,
    Running,
    Unreadable,
    WardenLost,
)
from blueflame.system import flock
from blueflame.system.files import build_file_error, read_json_object
from blueflame.system.process_identity import is_stopped
from blueflame.telemetry.activity import read_last_output_at


class OutcomeDamaged(WorldError):
    """The outcome exists, and is not what a warden writes: how the attempt ended is lost."""


def read_status(folder: Path) -> AttemptStatus:
    """Read `started`, then the lock, then the outcome: in this order no step of a warden can be misread.

    A warden takes the lock, marks the start, records the outcome, and releases the lock.
    """
    try:
        started = (folder / "started").exists()
        note = flock.read_lock_holder(folder / "lock")
        outcome = read_outcome(folder)
    except OutcomeDamaged:  # a living warden will replace it
        return WardenLost() if note is None else _build_running(folder, note)
    except (WorldError, OSError) as e:
        return Unreadable(str(e))
    if outcome is not None:
        return Ended(outcome)
    if note is not None:
        return _build_running(folder, note)
    return WardenLost() if started else Queued()


def find_hindrance(folder: Path, pid: int) -> str:
    """Why the warden cannot supervise its agent or record its end, and what to do; "" if it can."""
    if is_stopped(pid):
        return f"its warden is stopped and nothing supervises its agent: continue it with 'kill -CONT {pid}'"
    if folder.exists() and not os.access(folder, os.W_OK):
        return describe_unwritable(folder)
    return _read_hindrance(folder, pid)


def _read_hindrance(folder: Path, pid: int) -> str:
    """As its warden reports it; "" if it reports none, or one before it did."""
    try:
        reporter, _, cause = str((folder / "hindrance").readlink()).partition(" ")
    except OSError:
        return ""
    if reporter != str(pid):
        return ""
    fix = f"raise its limits: 'prlimit --pid {pid} --nofile=1024 --fsize=unlimited'; 'kill {pid}' gives it up"
    return f"its warden keeps the result and cannot write it to {folder}: {cause}; make room, or {fix}"


def describe_unwritable(folder: Path) -> str:
    return f"its warden cannot write to {folder} and keeps the result until it can: make the folder writable"


def find_damage(folder: Path) -> str:
    """Return what is wrong with the outcome; "" if nothing is, or there is no outcome."""
    try:
        read_outcome(folder)
    except OutcomeDamaged as e:
        return str(e)
    return ""


def read_outcome(folder: Path) -> ProcessOutcome | None:
    """Return None while the attempt has not ended."""
    path = folder / "outcome.json"
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as e:
        raise build_file_error("read the outcome", path, e) from e
    except ValueError as e:
        raise OutcomeDamaged(f"{path} is damaged ({e})") from e
    try:
        return _parse_outcome(found)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise OutcomeDamaged(f"{path} is not an outcome ({e!r})") from e


def _parse_outcome(found: Mapping[str, Any]) -> ProcessOutcome:
    return ProcessOutcome(
        attempt=found["attempt"],
        reason=ExitReason(found["reason"]),
        exit_code=found["exit_code"],
        signal=found["signal"],
        detail=found["detail"],
        cause=found.get("cause", ""),
        seconds=found["seconds"],
        setup_output=found["setup_output"],
        watch=found.get("watch", {}),
        free_disk=found.get("free_disk"),
        waited=found.get("waited", 0.0),
        refused_forks=found.get("refused_forks", 0),
        unanswered=str(found.get("unanswered", "")),
    )


def _build_running(folder: Path, note: str) -> Running | Unreadable:
    words = note.split()
    if len(words) < 2 or not all(word.isdecimal() for word in words[:2]):
        return Unreadable(f"{folder / 'lock'} is held, but does not name its holder yet")
    pid, start_time = int(words[0]), float(words[1])
    status = read_json_object(folder / "status.json")
    if status.get("pid") != pid:  # from an earlier warden, or not written yet
        status = {}
    return Running(
        pid=pid,
        start_time=start_time,
        agent_pid=status.get("agent_pid"),
        state=status.get("state", "starting"),
        since=status.get("since"),
        state_since=status.get("state_at"),
        last_output=read_last_output_at(folder),
        output_bytes=status.get("output_bytes", 0),
        parked=status.get("parked") or {},
        asking_since=status.get("asking_since"),
        held=status.get("held", 0.0),
        hindrance=find_hindrance(folder, pid),
    )
