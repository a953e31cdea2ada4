"""Views of the journal as files, for people and for other programs. Nothing is ever read back from them.

A failure here is a WorldError: the journal has everything, so the session goes on and the caller warns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from blueflame.model.attempt import AttemptRecord, Ending
from blueflame.model.spend import Budget
from blueflame.model.task import TaskRecord
from blueflame.tools.files import trouble, write_whole
from blueflame.tools.plans import dump_tasks

SCHEMA_VERSION = 1

KILLED = frozenset({Ending.TIMEOUT, Ending.STALLED, Ending.BUDGET, Ending.CANCELLED, Ending.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """One agent in agents.json."""

    id: str
    role: str
    task_id: str
    status: str  # running | completed | failed | killed
    start_time: str  # UTC
    pid: int | None = None
    pgid: int | None = None
    worktree: str | None = None
    cost_usd: float = 0.0
    tokens_used: int = 0
    budget: Budget


def agent_row(record: AttemptRecord, *, pid: int | None = None, pgid: int | None = None) -> AgentRow:
    began = record.intended_at if record.started_at is None else record.started_at
    return AgentRow(
        id=record.attempt.agent_id,
        role=record.attempt.role,
        task_id=record.attempt.subject,
        status=_status(record),
        start_time=f"{datetime.fromtimestamp(began, UTC):%Y-%m-%dT%H:%M:%SZ}",
        pid=pid,
        pgid=pgid,
        worktree=record.worktree,
        cost_usd=record.ended.spend.usd if record.ended else 0.0,
        tokens_used=record.ended.spend.tokens if record.ended else 0,
        budget=record.attempt.budget,
    )


def _status(record: AttemptRecord) -> str:
    if record.ended is None:
        return "running"
    if record.ended.ending is Ending.PASSED:
        return "completed"
    return "killed" if record.ended.ending in KILLED else "failed"


def export_tasks(path: Path, session_id: str, cycle: int, records: Iterable[TaskRecord]) -> None:
    write_whole(path, dump_tasks(session_id, cycle, records))


def export_agents(path: Path, rows: Iterable[AgentRow]) -> None:
    listed = {"schema_version": SCHEMA_VERSION, "agents": [asdict(row) for row in rows]}
    write_whole(path, json.dumps(listed, indent=2) + "\n")


def append_activity(path: Path, lines: Iterable[str]) -> None:
    """All lines in one write at the end; a line that a crash cut short is ended first."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            _write_all(file.fileno(), _missing_end(file.fileno()) + text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise trouble("append to", path, error) from error


def _missing_end(handle: int) -> bytes:
    size = os.fstat(handle).st_size
    return b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""


def _write_all(handle: int, data: bytes) -> None:
    while data:  # a nearly full disk may cut a write short
        data = data[os.write(handle, data) :]
