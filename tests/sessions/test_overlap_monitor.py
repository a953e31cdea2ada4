from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.event import AttemptEnded, Event, JournalEntry, OverlapSeen
from blueflame.model.gate import Answer
from blueflame.orchestrator.monitors import overlaps as radar
from blueflame.session.state import Session
from support.sessions import Stage, Watcher, task

LINES = "".join(f"line {n}\n" for n in range(12))


def changes(path: str, old: str, new: str, hold: Path) -> list[Any]:
    """A worker that changes a line of a file and then works on until it is let go."""
    wait = f"while [ ! -e '{hold}' ]; do sleep 0.05; done"
    return [
        {"run": f"sed -i 's/^{old}$/{new}/' {path}"},
        {"run": wait},
        {"commit": "feat({task}): change a line"},
    ]


@pytest.fixture
def shared(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(radar, "POLL_SECONDS", 0.1)
    stage.commit("src/shared.txt", LINES)
    return stage


def play(stage: Stage, tmp_path: Path, *, second: str) -> Path:
    hold = tmp_path / "go on"
    stage.play(
        task(1, locks=["src/one/"], description="The first."),
        task(2, locks=["src/two/"], description="The second."),
        workers={
            1: changes("src/shared.txt", "line 2", "first", hold),
            2: {
                "1": changes("src/shared.txt", second, "second", hold),
                "*": [{"append": {"path": "src/shared.txt", "text": "end\n"}}, {"commit": "feat({task}): at the end"}],
            },
        },
    )
    return hold


def let_go(hold: Path, when: Callable[[Event], bool]) -> Watcher:
    def see(_session: Session, recorded: JournalEntry) -> None:
        if when(recorded.event):
            hold.touch()

    return Watcher(see)


def is_overlap(event: Event) -> bool:
    return isinstance(event, OverlapSeen)


def is_cancelled_end(event: Event) -> bool:
    """Not the order to cancel it: a program that is let go then may commit before it gets the signal."""
    return isinstance(event, AttemptEnded) and event.ended.ending is Ending.CANCELLED


def test_two_agents_in_one_file_are_reported_while_they_work(shared: Stage, tmp_path: Path) -> None:
    shared.reconfigure(validation={"file_scope": {"enforce": False}})
    hold = play(shared, tmp_path, second="line 9")
    result = shared.run(observers=[let_go(hold, is_overlap)])
    (seen,) = result.of(OverlapSeen)
    assert (seen.tasks, seen.paths, seen.kind) == (("task-001", "task-002"), ("src/shared.txt",), "file")
    assert result.states == {"task-001": "merged", "task-002": "merged"}
    log = (shared.root / ".blueflame" / "logs" / "activity.log").read_text()
    assert "[OVERLAP_SEEN] task-001 and task-002 both change src/shared.txt" in log


def test_the_later_one_waits_and_builds_on_the_first(shared: Stage, tmp_path: Path) -> None:
    shared.reconfigure(gates={"on_overlap": "ask"}, validation={"file_scope": {"enforce": False}})
    hold = play(shared, tmp_path, second="line 2")
    result = shared.run({"overlap": [Answer(choice="wait", by="test")]}, observers=[let_go(hold, is_cancelled_end)])
    (seen,) = result.of(OverlapSeen)
    assert seen.kind == "lines"
    second = result.session.attempts[f"{result.session.id}.task-002.worker.2"].attempt
    assert [foundation.task for foundation in second.built_on] == ["task-001"]
    assert "src/shared.txt" in result.session.tasks["task-001"].task.file_locks


def test_agents_in_different_files_are_not_reported(shared: Stage, tmp_path: Path) -> None:
    hold = tmp_path / "go on"
    shared.play(
        task(1),
        task(2),
        workers={
            n: [
                {"append": {"path": f"src/{n}.txt", "text": "x\n"}},
                {"run": f"while [ ! -e '{hold}' ]; do sleep 0.05; done"},
                {"commit": "feat({task}): x"},
            ]
            for n in (1, 2)
        },
    )

    looks: list[float] = []

    class Counting(radar.OverlapMonitor):
        async def poll(self) -> None:
            await super().poll()
            if len(self._session.live) == 2:
                looks.append(time.monotonic())
                if len(looks) == 3:
                    hold.touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blueflame.orchestrator.loop.OverlapMonitor", Counting)
        result = shared.run()
    assert result.of(OverlapSeen) == []
