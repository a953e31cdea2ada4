from __future__ import annotations

import json
import os
import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blueflame.documents.exports import append_activity, build_agent_row, export_agents
from blueflame.documents.plans import read_plan
from blueflame.documents.tasks_file import export_tasks
from blueflame.model.activity import Health, HealthReport
from blueflame.model.attempt import PASSING, Attempt, AttemptOutcome, AttemptRecord, Ending
from blueflame.model.errors import WorldError
from blueflame.model.event import CycleEnded, JournalEntry, SessionEnded
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.model.task import Task, TaskRecord
from blueflame.text.event_lines import format_log_lines

SES = "ses-20260206-143022"


def attempt(**changes: object) -> AttemptRecord:
    made = Attempt(
        id=f"{SES}.task-001.worker.1",
        session=SES,
        subject="task-001",
        role="worker",
        n=1,
        agent_id="worker-0a1b2c3d",
        budget=Budget(unit=Unit.TOKENS, limit=5000),
    )
    return AttemptRecord(attempt=made, intended_at=1_770_388_222.0, **changes)  # type: ignore[arg-type]  # test data


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 4 KiB, which the kernel enforces as it would a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.verification(5)
def test_tasks_are_exported_and_can_be_read(tmp_path: Path) -> None:
    task = Task(id="task-001", title="Название", description="d", file_locks=("a b/",))
    path = tmp_path / "мой .blueflame" / "tasks.yaml"
    export_tasks(path, SES, 1, [TaskRecord(task=task)])
    assert read_plan(path) == (task,)
    assert list(path.parent.iterdir()) == [path]


def test_agents_are_exported_with_every_field(tmp_path: Path) -> None:
    path = tmp_path / "agents.json"
    seen = HealthReport(
        state=Health.SILENT,
        why="no output",
        agent_pid=12,
        warden_pid=11,
        last_output=1_770_388_300.0,
        spend=Spend(micro_usd=20_000),
    )
    export_agents(path, [build_agent_row(attempt(worktree="/w t"), seen)], session=SES, now=1_770_388_400.0)
    assert json.loads(path.read_text()) == {
        "schema_version": 3,
        "session": SES,
        "updated_at": "2026-02-06T14:33:20Z",
        "orchestrator_pid": os.getpid(),
        "agents": [
            {
                "id": "worker-0a1b2c3d",
                "attempt": f"{SES}.task-001.worker.1",
                "state": "silent",
                "why": "no output",
                "last_output": "2026-02-06T14:31:40Z",
                "pid": 12,
                "pgid": 12,
                "warden_pid": 11,
                "role": "worker",
                "worktree": "/w t",
                "task_id": "task-001",
                "start_time": "2026-02-06T14:30:22Z",
                "status": "running",
                "cost_usd": 0.02,
                "tokens_used": 0,
                "budget": {"unit": "tokens", "limit": 5000},
            }
        ],
    }


@pytest.mark.parametrize("ending", Ending)
def test_an_ended_agent_is_completed_failed_or_killed(ending: Ending) -> None:
    spend = Spend(micro_usd=1_500_000, input_tokens=10, output_tokens=5)
    row = build_agent_row(attempt(started_at=1_770_388_223.0, ended=AttemptOutcome(ending=ending, spend=spend)))
    assert row.status == {"passed": "completed"}.get(ending, row.status)
    assert row.status in {"completed", "failed", "killed"}
    assert (row.status == "completed") is (ending in PASSING)
    assert (row.cost_usd, row.tokens_used, row.start_time) == (1.5, 15, "2026-02-06T14:30:23Z")


def test_activity_is_appended_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "activity.log"
    append_activity(path, format_log_lines([JournalEntry(1, 1_770_388_222.0, CycleEnded(cycle=1))]))
    append_activity(path, format_log_lines([JournalEntry(2, 1_770_388_223.0, SessionEnded(outcome="completed"))]))
    append_activity(path, [])
    lines = path.read_text().splitlines()
    assert lines == [
        "[2026-02-06T14:30:22Z] [orchestrator] [CYCLE_ENDED] cycle 1",
        "[2026-02-06T14:30:23Z] [orchestrator] [SESSION_ENDED] completed",
    ]
    assert all(re.fullmatch(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\] \[\S+\] \[[A-Z_]+\] .+", line) for line in lines)


def test_a_line_that_was_cut_short_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "activity.log"
    path.write_text("[2026-02-06T14:30:22Z] [orchestr")
    append_activity(path, ["next", "last \udcff"])
    assert path.read_text().splitlines() == ["[2026-02-06T14:30:22Z] [orchestr", "next", "last \\udcff"]


@pytest.mark.verification(5)
def test_a_full_disk_is_reported_and_the_old_files_stay(tmp_path: Path) -> None:
    tasks, agents, log = tmp_path / "tasks.yaml", tmp_path / "agents.json", tmp_path / "activity.log"
    for path in (tasks, agents, log):
        path.write_text("old\n")
    many = [TaskRecord(task=Task(id=f"task-{n}", title="t", description="d" * 100)) for n in range(200)]
    with full_disk():
        with pytest.raises(WorldError, match="cannot write"):
            export_tasks(tasks, SES, 1, many)
        with pytest.raises(WorldError, match="cannot write"):
            export_agents(agents, [build_agent_row(attempt())] * 200, session=SES, now=0.0)
        with pytest.raises(WorldError, match="cannot append to"):
            append_activity(log, ["x" * 100] * 200)
    assert tasks.read_text() == agents.read_text() == "old\n"
    assert log.read_text().startswith("old\n")
    assert sorted(os.listdir(tmp_path)) == ["activity.log", "agents.json", "tasks.yaml", "tasks.yaml.edited"]  # noqa: PTH208  names only


def test_an_unwritable_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldError, match="cannot append to"):
        append_activity(tmp_path / "file" / "activity.log", ["x"])
