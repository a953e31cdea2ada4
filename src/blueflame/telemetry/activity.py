"""What running agents do now, from their output, audit log, usage and status files, read incrementally.

For views only: nothing is decided by it, so unreadable files count as not written yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from blueflame.agents.runtime import Runtime
from blueflame.lazy_dataclass import dataclass
from blueflame.model.activity import Activity, AgentState, AgentStatus
from blueflame.model.attempt import Attempt, AttemptRecord
from blueflame.model.audit import BLOCK
from blueflame.model.errors import WorldError
from blueflame.system.files import read_json_object
from blueflame.system.lines import STEP_BYTES, FileTail
from blueflame.telemetry.progress import ProgressReader

DOING_BY_WARDEN_STATE: Mapping[str, AgentState] = {
    "starting": AgentState.STARTING,
    "setup": AgentState.SETUP,
    "working": AgentState.WORKING,
    "stopping": AgentState.ENDING,
    "ended": AgentState.ENDING,
}
"""The states of status.json."""


@dataclass(slots=True)
class _AuditTrace:
    """How far an agent's audit log has been read, and its totals."""

    audit: FileTail
    asked: int = 0
    refused: int = 0
    tool: str = ""
    target: str = ""

    def read_new(self, most: int) -> None:
        for line in self.audit.read_objects(most=most):
            if line.get("rule") != "canary":
                self.asked += 1
                self.refused += line.get("decision") == BLOCK
                self.tool, self.target = str(line.get("tool", "")), str(line.get("target", ""))


@dataclass(slots=True)
class ActivityTracker:
    """One for each view; keeps its read positions."""

    runtimes: Mapping[str, Runtime]
    folder: Callable[[str], Path]  # of an attempt
    audit: Callable[[str], Path]  # of an agent
    _reader: ProgressReader = field(init=False)
    _traces: dict[str, _AuditTrace] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reader = ProgressReader(self.runtimes)

    def read_activity(self, record: AttemptRecord, *, most: int = STEP_BYTES) -> Activity:
        """Read about `most` new bytes of each file; a large backlog is read step by step."""
        try:
            return self._build_activity(record, most)
        except WorldError as error:  # a view must not fail
            return Activity(
                attempt=record.attempt,
                status=build_status(record, {}, heard_at=None),
                last_words=str(error),
                spoke_last=True,
            )

    def _build_activity(self, record: AttemptRecord, most: int) -> Activity:
        attempt = record.attempt
        folder = self.folder(attempt.id)
        trace = self._find_trace(attempt)
        trace.read_new(most)
        progress = self._reader.read_progress(attempt, folder, most=most)
        is_ahead = trace.asked > progress.calls  # the output does not show the current call yet
        tool, target = (trace.tool, trace.target) if is_ahead else (progress.tool, progress.target)
        return Activity(
            attempt=attempt,
            status=build_status(record, read_json_object(folder / "status.json"), heard_at=read_last_output_at(folder)),
            tool=tool,
            target=shorten_paths(record.inside or record.worktree, target),
            last_words=progress.text,
            spoke_last=progress.text_is_last and not is_ahead,
            calls=max(trace.asked, progress.calls),
            refused=trace.refused,
            spend=progress.spend,
        )

    def keep_only(self, live: Mapping[str, object]) -> None:
        """Forget agents that have ended."""
        self._reader.keep_only(live)
        self._traces = {name: trace for name, trace in self._traces.items() if name in live}

    def _find_trace(self, attempt: Attempt) -> _AuditTrace:
        if attempt.id not in self._traces:
            self._traces[attempt.id] = _AuditTrace(FileTail(self.audit(attempt.agent_id)))
        return self._traces[attempt.id]


def build_status(record: AttemptRecord, status: Mapping[str, Any], *, heard_at: float | None) -> AgentStatus:
    """Combine the warden's `status` (empty before it runs) with what the session knows."""
    if record.ended is not None:
        return AgentStatus(
            state=AgentState.ENDED, since=record.ended_at, reason=record.ended.ending.value.replace("_", " ")
        )
    doing = DOING_BY_WARDEN_STATE.get(str(status.get("state")), AgentState.STARTING)
    since = _parse_number(status.get("state_at")) or record.started_at or record.intended_at
    parked = status.get("parked")
    if record.cancel_reason or doing is AgentState.ENDING:
        return AgentStatus(state=AgentState.ENDING, since=since, reason=record.cancel_reason)
    if isinstance(parked, Mapping) and parked:
        return _build_parked_status(parked, since)
    if asking_since := _parse_number(status.get("asking_since")):
        return AgentStatus(state=AgentState.ASKING, since=asking_since)
    if doing is AgentState.WORKING and record.stalled_at is not None and (heard_at or 0.0) < record.stalled_at:
        return AgentStatus(state=AgentState.SILENT, since=heard_at or since)
    return AgentStatus(state=doing, since=since)


def _build_parked_status(parked: Mapping[str, Any], since: float) -> AgentStatus:
    return AgentStatus(
        state=AgentState.PARKED,
        since=_parse_number(parked.get("since")) or since,
        reason=str(parked.get("reason") or ""),
        until=_parse_number(parked.get("until")),
        kind=str(parked.get("kind") or ""),
    )


def shorten_paths(worktree: str | None, text: str) -> str:
    """Make paths below the agent's checkout relative to it."""
    if not worktree:
        return text
    return text.replace(f"{worktree}/", "") if text != worktree else "."


def _parse_number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def read_last_output_at(folder: Path) -> float | None:
    times = []
    for name in ("stdout.log", "stderr.log"):
        with suppress(OSError):
            seen = (folder / name).stat()
            times += [seen.st_mtime] if seen.st_size else []
    return max(times, default=None)
