"""Exports the list of agents and the activity log, for people and other programs.

They are not read back, except to find the lines that the log lacks.

A failure is a WorldError: the journal has everything, so the session continues and the caller warns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from blueflame.lazy_dataclass import dataclass
from blueflame.model.activity import Health, HealthReport
from blueflame.model.attempt import AttemptRecord, Ending
from blueflame.model.errors import WorldError
from blueflame.system.fd import write_to_end
from blueflame.system.files import explain_file_errors, write_atomically
from blueflame.system.lines import read_bytes_at, read_size

MAX_SEARCHED_BYTES = 1 << 20  # a process that is killed owes the last lines
SCHEMA_VERSION = 3  # 3: the limit of a budget in dollars, before in millionths

KILLED_ENDINGS = frozenset({Ending.TIMEOUT, Ending.STALLED, Ending.BUDGET, Ending.CANCELLED, Ending.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """One agent in agents.json."""

    id: str
    role: str
    task_id: str
    attempt: str
    status: str  # running | completed | failed | killed
    state: str  # starting | working | silent | stopping | ended | lost | unknown
    why: str = ""  # of the state
    start_time: str  # UTC
    last_output: str | None = None  # UTC
    pid: int | None = None  # of the agent; None once it has ended, because the pid may be reused
    pgid: int | None = None
    warden_pid: int | None = None
    worktree: str | None = None
    cost_usd: float = 0.0
    tokens_used: int = 0
    budget: Mapping[str, object]  # unit: usd | tokens; limit in dollars or tokens, null without a limit


ENDED = HealthReport(state=Health.ENDED)


def build_agent_row(record: AttemptRecord, seen: HealthReport = ENDED) -> AgentRow:
    """An agent leads its own process session, so its pid is also its process group."""
    spend = record.ended.spend if record.ended else seen.spend
    return AgentRow(
        id=record.attempt.agent_id,
        role=record.attempt.role,
        task_id=record.attempt.subject,
        attempt=record.attempt.id,
        status=_format_status(record),
        state=seen.state.value,
        why=seen.why,
        start_time=format_timestamp(record.intended_at if record.started_at is None else record.started_at),
        last_output=None if seen.last_output is None else format_timestamp(seen.last_output),
        pid=seen.agent_pid,
        pgid=seen.agent_pid,
        warden_pid=seen.warden_pid or record.warden_pid or None,
        worktree=record.worktree,
        cost_usd=spend.usd,
        tokens_used=spend.tokens,
        budget={"unit": record.attempt.budget.unit.value, "limit": record.attempt.budget.amount},
    )


def format_timestamp(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _format_status(record: AttemptRecord) -> str:
    if record.ended is None:
        return "running"
    if record.ended.passed:
        return "completed"
    return "killed" if record.ended.ending in KILLED_ENDINGS else "failed"


def export_agents(path: Path, rows: Iterable[AgentRow], *, session: str, now: float) -> None:
    """`updated_at` and `orchestrator_pid` show whether the file is current: it is written only during a session."""
    listed = {
        "schema_version": SCHEMA_VERSION,
        "session": session,
        "updated_at": format_timestamp(now),
        "orchestrator_pid": os.getpid(),
        "agents": [asdict(row) for row in rows],
    }
    write_atomically(path, json.dumps(listed, indent=2) + "\n", durable=False)


def append_activity(path: Path, lines: Iterable[str]) -> None:
    """All lines in one write at the end; a line that a crash cut short is ended first."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        return
    with explain_file_errors("append to", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            write_to_end(file.fileno(), _find_missing_newline(file.fileno()) + _encode(text))


def find_unwritten_lines(path: Path, lines: Sequence[str]) -> Sequence[str]:
    """Those after the last one at the end of the file: an orchestrator that was killed has not written them."""
    try:
        end = read_bytes_at(path, max(0, read_size(path) - MAX_SEARCHED_BYTES), MAX_SEARCHED_BYTES)
    except WorldError:  # as good as empty: what cannot be read is reported when it is written
        return lines
    written = frozenset(end.split(b"\n"))
    last = next((place for place in range(len(lines) - 1, -1, -1) if _encode(lines[place]) in written), -1)
    return lines[last + 1 :]


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _find_missing_newline(handle: int) -> bytes:
    size = os.fstat(handle).st_size
    return b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
