from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path

import pytest

from blueflame.agents.scripted import ScriptedRuntime
from blueflame.documents.plans import read_plan
from blueflame.model.attempt import WORKER, Attempt, AttemptOutcome, Ending
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    CycleStarted,
    Event,
    JournalEntry,
    PlanApproved,
    SessionOpened,
    TaskMoved,
)
from blueflame.model.limits import Limits
from blueflame.model.settings import LimitSettings
from blueflame.model.spend import Spend
from blueflame.model.task import Cause, Task
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.engine.health import HealthMonitor
from blueflame.orchestrator.engine.local import LocalEngine
from blueflame.orchestrator.observers.exports import Exporter, run_exporter
from blueflame.session.replay import apply_event, open_session, replay
from blueflame.session.state import Session
from blueflame.system.layout import ProjectPaths
from blueflame.system.wakeups import send_wakeup
from blueflame.text.event_lines import format_log_lines

SESSION = "ses-20260206-143022"
OPENED = SessionOpened(
    session=SESSION,
    request="x",
    project="p",
    base_branch="main",
    base_sha="a" * 40,
    workflow=Workflow(),
    limits=Limits(),
)
TASK = Task(id="task-001", title="Сделать: всё", description="x\ny", file_locks=("src/a b.py",))
ATTEMPT = Attempt(
    id=f"{SESSION}.task-001.worker.1", session=SESSION, subject="task-001", role=WORKER, n=1, agent_id="worker-0a1b2c3d"
)
STORY: tuple[Event, ...] = (
    PlanApproved(tasks=(TASK,)),
    CycleStarted(cycle=1, base_sha="a" * 40),
    TaskMoved(task="task-001", cause=Cause.CLAIM),
    AttemptIntended(attempt=ATTEMPT),
    AttemptStarted(attempt=ATTEMPT.id, base="a" * 40, worktree="/w", warden_pid=4711),
)
SPENT = Spend(micro_usd=30_000, input_tokens=5)
FAILED = AttemptEnded(attempt=ATTEMPT.id, ended=AttemptOutcome(ending=Ending.FAILED, spend=SPENT))


@pytest.fixture
def places(tmp_path: Path) -> ProjectPaths:
    return ProjectPaths(root=tmp_path, worktrees=tmp_path / ".trees", tasks_file=tmp_path / ".blueflame" / "tasks.yaml")


def rounds(places: ProjectPaths, **limits: float) -> HealthMonitor:
    return HealthMonitor(LocalEngine(places.state), {"scripted": ScriptedRuntime()}, LimitSettings(**limits))  # type: ignore[arg-type]  # numbers


class Teller:
    """Applies events and shows them to an exporter, as the conductor does."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self.session: Session = open_session(JournalEntry(1, 1_770_388_222.0, OPENED))
        exporter.see(self.session, [JournalEntry(1, 1_770_388_222.0, OPENED)])

    def tell(self, *events: Event) -> None:
        for event in events:
            recorded = JournalEntry(self.session.seq + 1, self.session.last_at + 1, event)
            apply_event(self.session, recorded)
            self._exporter.see(self.session, [recorded])


def agents(places: ProjectPaths) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(places.agents_file.read_text())["agents"]
    return found


def test_each_change_reaches_the_files(places: ProjectPaths) -> None:
    async def story() -> None:
        async with run_exporter(places, pytest.fail, rounds(places)) as exporter:
            teller = Teller(exporter)
            teller.tell(*STORY)
            await exporter.flush()
            assert [(row["status"], row["state"]) for row in agents(places)] == [("running", "lost")], (
                "no folder is left"
            )
            teller.tell(FAILED)
            await exporter.flush()
            (row,) = agents(places)
            assert (row["status"], row["cost_usd"], row["tokens_used"]) == ("failed", 0.03, 5)

    asyncio.run(story())
    assert read_plan(places.tasks_file) == (TASK,)
    assert places.activity_log.read_text().count("\n") >= len(STORY)


def test_an_unknown_pid_is_none(places: ProjectPaths) -> None:
    async def story() -> None:
        async with run_exporter(places, pytest.fail, rounds(places)) as exporter:
            Teller(exporter).tell(*STORY[:-1])

    asyncio.run(story())
    assert [(row["state"], row["pid"], row["pgid"]) for row in agents(places)] == [("starting", None, None)]


def test_the_files_are_up_to_date_when_the_block_is_left_by_an_error(places: ProjectPaths) -> None:
    async def story() -> None:
        async with run_exporter(places, pytest.fail, rounds(places)) as exporter:
            Teller(exporter).tell(*STORY)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(story())
    assert read_plan(places.tasks_file) == (TASK,)


@pytest.mark.parametrize("written", range(len(STORY) + 2))
def test_lines_that_a_killed_orchestrator_did_not_write_are_written_by_the_next(
    places: ProjectPaths, written: int
) -> None:
    earlier = [JournalEntry(n, 1_770_388_222.0 + n, event) for n, event in enumerate((OPENED, *STORY), 1)]
    places.activity_log.parent.mkdir(parents=True)
    before = format_log_lines(earlier[:written])
    places.activity_log.write_text("".join(f"{line}\n" for line in before))

    async def story() -> None:
        async with run_exporter(places, pytest.fail, rounds(places), earlier) as exporter:
            session = replay(earlier)
            ended = JournalEntry(len(earlier) + 1, 1_770_388_300.0, FAILED)
            apply_event(session, ended)
            exporter.see(session, [ended])
            earlier.append(ended)

    asyncio.run(story())
    assert tuple(places.activity_log.read_text().splitlines()) == format_log_lines(earlier)


def test_nothing_is_written_when_nothing_happened(places: ProjectPaths) -> None:
    async def story() -> None:
        async with run_exporter(places, pytest.fail, rounds(places)):
            pass

    asyncio.run(story())
    assert not places.state.exists()


@pytest.mark.parametrize("pause", [0, 0.001, 0.003, 0.01])
def test_changes_that_come_while_it_writes_are_written_in_order(places: ProjectPaths, pause: float) -> None:
    async def story() -> None:
        async with run_exporter(places, pytest.fail, rounds(places)) as exporter:
            teller = Teller(exporter)
            for event in STORY:
                teller.tell(event)
                await asyncio.sleep(pause)

    asyncio.run(story())
    lines = places.activity_log.read_text().splitlines()
    assert lines == sorted(set(lines)), "each once, by its time"
    assert agents(places)[0]["worktree"] == "/w", "the last state, not an earlier one"


def test_a_full_disk_is_reported_once_and_tried_again(places: ProjectPaths) -> None:
    warnings: list[str] = []

    async def story() -> None:
        async with run_exporter(places, warnings.append, rounds(places)) as exporter:
            teller = Teller(exporter)
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
            try:
                for event in STORY:
                    teller.tell(event)
                    await exporter.flush()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert len(warnings) == 1
            assert not places.tasks_file.exists(), "whole or not at all"
            await exporter.flush()
            assert len(places.activity_log.read_text().splitlines()) >= len(STORY)
            places.tasks_file.unlink()
            places.tasks_file.mkdir()
            teller.tell(FAILED)
            await exporter.flush()
            assert len(warnings) == 2, "a new failure is reported again"

    asyncio.run(story())
    assert "the journal is safe, the session continues" in warnings[0]
    assert "tasks.yaml" in warnings[1]


def test_a_repository_that_was_moved_away_is_not_made_again(tmp_path: Path) -> None:
    warnings: list[str] = []
    root = tmp_path / "moved away"
    places = ProjectPaths(root=root, worktrees=root / ".trees", tasks_file=root / ".blueflame" / "tasks.yaml")

    async def story() -> None:
        exporter = Exporter(places, warnings.append, rounds(places))
        Teller(exporter).tell(*STORY)
        await exporter.flush()
        assert not root.exists(), "it would be in the way of the one that is moved back"
        root.mkdir()
        await exporter.flush()

    asyncio.run(story())
    assert len(warnings) == 1
    assert read_plan(places.tasks_file) == (TASK,)


def test_the_list_of_agents_is_renewed_at_every_heartbeat_though_nothing_happens(places: ProjectPaths) -> None:
    async def story() -> None:
        async with run_exporter(places, pytest.fail, rounds(places, heartbeat_interval=0.05)) as exporter:
            Teller(exporter).tell(*STORY)
            await exporter.flush()
            for path in (places.agents_file, places.tasks_file):
                path.unlink()
            async with asyncio.timeout(20):
                while not places.agents_file.exists():
                    await asyncio.sleep(0.01)
            assert not places.tasks_file.exists(), "the tasks are as they were"

    asyncio.run(story())


def test_a_hint_from_a_warden_renews_the_list_of_agents(places: ProjectPaths) -> None:
    async def story() -> None:
        async with run_exporter(places, pytest.fail, rounds(places, heartbeat_interval=600.0)) as exporter:
            Teller(exporter).tell(*STORY)
            await exporter.flush()
            places.agents_file.unlink()
            async with asyncio.timeout(20):
                while not places.agents_file.exists():
                    send_wakeup(places.signals / "attempts", ATTEMPT.id)
                    await asyncio.sleep(0.05)

    asyncio.run(story())
