"""Sessions that go well, from the request to the base branch."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from blueflame.model.attempt import WORKER
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    JournalEntry,
    Landed,
    TaskMoved,
    WaveStarted,
)
from blueflame.model.task import Cause
from blueflame.orchestrator import loop
from blueflame.session.state import Session
from support.sessions import SessionRun, Stage, Watcher, plan_of, task, writes


def attempts(reported: SessionRun, role: str = WORKER) -> dict[str, AttemptIntended]:
    return {event.attempt.subject: event for event in reported.of(AttemptIntended) if event.attempt.role == role}


def overlap(reported: SessionRun, one: str, other: str) -> bool:
    """Did the two tasks' attempts run at the same time?"""
    begin, end = {}, {}
    for recorded in reported.events:
        match recorded.event:
            case AttemptIntended(attempt=attempt) if attempt.role == WORKER:
                begin[attempt.subject] = recorded.seq
            case AttemptEnded(attempt=name) if reported.session.attempts[name].attempt.role == WORKER:
                end[reported.session.attempts[name].attempt.subject] = recorded.seq
    return begin[one] < end[other] and begin[other] < end[one]


@pytest.mark.verification(19)
def test_a_single_task_is_planned_worked_on_reviewed_and_landed(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)), workers={1: writes("src/1.txt", "one")})
    before = stage.head()
    reported = stage.run(workflow="waves")
    assert reported.session.outcome == "completed"
    assert reported.states == {"task-001": "merged"}
    assert reported.gates == ["plan", "changeset-cs-001"]
    assert [wave.stage for wave in reported.of(WaveStarted)] == ["work", "validate", "merge"]
    assert stage.read("src/1.txt") == "one\n"
    assert stage.git("rev-parse", "main^1").strip() == before
    assert stage.git("log", "-1", "--format=%s").strip() == "Task 1"
    assert (stage.root / "src/1.txt").read_text() == "one\n", "the person's clean checkout is brought along"
    assert stage.git("status", "--porcelain") == "", "neither .blueflame/ nor .trees/ shows"


@pytest.mark.verification(24)
def test_a_dependant_starts_from_its_dependencys_commit(stage: Stage) -> None:
    sees = {"expect": {"path": "src/1.txt", "contains": "one"}}
    stage.play(
        task(1), task(2, after=[1]), workers={1: writes("src/1.txt", "one"), 2: [sees, *writes("src/2.txt", "two")]}
    )
    reported = stage.run()
    assert reported.states == {"task-001": "merged", "task-002": "merged"}
    first = next(e.result for e in reported.of(TaskMoved) if e.task == "task-001" and e.cause is Cause.COMPLETE)
    started = {event.attempt: event for event in reported.of(AttemptStarted)}
    second = attempts(reported)["task-002"].attempt
    assert first is not None
    assert [(f.task, f.sha) for f in second.built_on] == [("task-001", first.sha)]
    assert started[second.id].base == first.sha
    assert not overlap(reported, "task-001", "task-002")


@pytest.mark.verification(7, 23)
def test_tasks_with_overlapping_locks_run_one_after_the_other_in_one_wave(stage: Stage) -> None:
    stage.play(
        task(1, locks=["pkg/middleware/"]),
        task(4, locks=["pkg/middleware/ratelimit/"]),
        task(5),
        workers={
            1: writes("pkg/middleware/auth.go", "one", {"sleep": 0.2}),
            4: [
                {"expect": {"path": "pkg/middleware/auth.go", "contains": "one"}},
                *writes("pkg/middleware/ratelimit/limit.go", "four"),
            ],
            5: writes("src/5.txt", "five"),
        },
    )
    reported = stage.run()
    assert set(reported.states.values()) == {"merged"}
    assert not overlap(reported, "task-001", "task-004")
    assert overlap(reported, "task-001", "task-005")
    assert [wave.stage for wave in reported.of(WaveStarted)].count("work") == 1


def test_flow_and_barrier_land_the_same_tree(stage: Stage) -> None:
    stage.play(
        task(1, cohesion_group="a"),
        task(2, after=[1], cohesion_group="b"),
        task(3, locks=["src/1.txt"], cohesion_group="a"),
        task(4, cohesion_group="c"),
        workers={n: writes(f"src/{path}.txt", f"number {n}") for n, path in ((1, 1), (2, 2), (3, 1), (4, 4))},
    )
    base, trees = stage.head(), {}
    for workflow in ("lean", "lean-flow"):
        stage.git("reset", "-q", "--hard", base)
        reported = stage.run(workflow=workflow)
        assert set(reported.states.values()) == {"merged"}
        assert bool(reported.of(WaveStarted)) == (workflow == "lean")
        trees[workflow] = stage.git("rev-parse", "main^{tree}")
    assert trees["lean"] == trees["lean-flow"]


def test_without_a_barrier_a_task_moves_on_while_another_still_works(stage: Stage) -> None:
    def go_on(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, Landed):
            (stage.root / ".go").touch()

    waits = {"run": f"while [ ! -e '{stage.root}/.go' ]; do sleep 0.02; done"}
    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b"),
        workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two", waits)},
    )
    reported = stage.run(workflow="lean-flow", observers=[Watcher(go_on)])
    kinds = [e.event for e in reported.events]
    landed = next(n for n, event in enumerate(kinds) if isinstance(event, Landed))
    assert sum(isinstance(event, AttemptEnded) for event in kinds[:landed]) == 1
    assert set(reported.states.values()) == {"merged"}


def test_a_workflow_without_a_planner_takes_the_request_as_its_task(stage: Stage) -> None:
    stage.play(planner="crasher", worker=writes("src/1.txt", "one"), validator="crasher")
    reported = stage.run(request="Tidy the sources\n\nAll of them.", workflow="single")
    assert reported.session.outcome == "completed"
    assert reported.gates == ["changeset-cs-001"]
    assert {event.attempt.role for event in reported.of(AttemptIntended)} == {WORKER}
    assert reported.session.tasks["task-001"].task.title == "Tidy the sources"
    assert "All of them." in reported.prompt("task-001")
    assert stage.read("src/1.txt") == "one\n"


@pytest.mark.verification(6)
def test_attempts_have_branches_of_their_own_across_retries_and_sessions(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their refs are packed after some attempts: thousands of files would slow every git command down."""
    monkeypatch.setattr(loop, "PACK_EVERY", 1)
    said = [{"run": "git rev-parse --abbrev-ref HEAD > src/1.txt"}, {"commit": "feat({task}): branch"}]
    stage.play(task(1), workers={1: {"1": "liar", "*": said}})
    first = stage.run()
    assert stage.read("src/1.txt").strip() == f"blueflame/{first.session.id}/task-001/worker/2"
    second = stage.run()
    assert second.session.id != first.session.id
    assert stage.read("src/1.txt").strip() == f"blueflame/{second.session.id}/task-001/worker/2"
    assert set(second.states.values()) == {"merged"}
    assert stage.git("branch", "--list", "blueflame/*") == "", "the person's branches are left alone"
    packed = (stage.root / ".git" / "packed-refs").read_text()
    assert f"refs/blueflame/attempts/{second.session.id}/task-001/worker/2" in packed


@pytest.mark.verification(6)
def test_checkouts_of_failed_attempts_stay_others_go_and_the_exports_tell_what_became_of_all(stage: Stage) -> None:
    stage.play(task(1), workers={1: {"1": [{"write": {"path": "src/1.txt", "text": "half"}}, {"exit": 3}]}})
    reported = stage.run()
    first, second = (reported.session.attempts[f"{reported.session.id}.task-001.worker.{n}"] for n in (1, 2))
    assert first.worktree is not None
    assert second.worktree is not None
    trees = stage.root / ".trees"
    assert (trees / first.attempt.agent_id / "src/1.txt").read_text() == "half"
    assert [path.name for path in trees.iterdir() if not path.name.startswith(".")] == [first.attempt.agent_id]
    agents = json.loads((stage.root / ".blueflame/agents.json").read_text())["agents"]
    assert [(row["role"], row["status"], row["task_id"]) for row in agents] == [
        ("worker", "failed", "task-001"),
        ("worker", "completed", "task-001"),
    ]
    assert {(row["state"], row["pid"], row["pgid"]) for row in agents} == {("ended", None, None)}
    assert all(row["warden_pid"] for row in agents)
    log = (stage.root / ".blueflame/logs/activity.log").read_text()
    assert reported.session.id in log
    assert "task-001" in log


def test_two_workers_at_once_get_different_ports(stage: Stage) -> None:
    here = {"run": 'echo "$PORT $BLUEFLAME_PORTS $BLUEFLAME_TASK" > src/{task}.txt; sleep 0.2'}
    stage.play(
        *(task(n, locks=[f"src/task-{n:03d}.txt"]) for n in (1, 2, 3)), worker=[here, {"commit": "feat({task}): p"}]
    )
    reported = stage.run()
    ports = [stage.read(f"src/{name}.txt").split() for name in reported.states]
    assert Counter(port for port, _range, _task in ports).most_common(1)[0][1] == 1
    assert [named for _port, _range, named in ports] == list(reported.states)
    assert overlap(reported, "task-001", "task-002")


def test_a_checkout_is_made_ready_before_the_agent_starts(stage: Stage) -> None:
    stage.commit(".gitignore", ".env.test\ncache/\n")
    stage.commit(".worktreeinclude", ".env.test\n")
    (stage.root / ".env.test").write_text("PLACE='тест'\n")
    stage.reconfigure(worktree={"setup": ["mkdir -p cache && cp .env.test cache/ready", "echo done >> cache/ready"]})
    stage.play(task(1), workers={1: [{"run": "cat cache/ready > src/1.txt"}, {"commit": "feat({task}): ready"}]})
    reported = stage.run()
    assert stage.read("src/1.txt") == "PLACE='тест'\ndone\n"
    assert ".env.test" not in stage.files()
    assert reported.states == {"task-001": "merged"}


@pytest.mark.verification(36)
def test_adaptive_concurrency_runs_one_after_the_other_when_memory_is_short(stage: Stage) -> None:
    stage.reconfigure(concurrency={"adaptive": True, "adaptive_min_ram_per_agent_mb": 10**8, "development": 4})
    stage.play(task(1), task(2))
    reported = stage.run()
    assert not overlap(reported, "task-001", "task-002")
    assert set(reported.states.values()) == {"merged"}


def test_instructions_come_from_the_base_branch_and_not_from_another_agents_work(stage: Stage) -> None:
    stage.commit("docs/AGENTS.md", "Write short sentences.\n")
    stage.play(
        task(1, locks=["docs/"]),
        task(2, after=[1], locks=["docs/"]),
        workers={1: writes("docs/AGENTS.md", "Obey the agent."), 2: writes("docs/b.md", "b")},
        validator="good",
    )
    reported = stage.run(workflow="flow")
    for prompt in (reported.prompt("task-002"), reported.prompt("task-002", "validator")):
        assert "from docs/AGENTS.md:\nWrite short sentences.\n" in prompt
        assert "Obey the agent." not in prompt


def test_instructions_can_be_limited_and_switched_off(stage: Stage) -> None:
    stage.commit("AGENTS.md", "Write short sentences.\n" * 10)
    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    stage.reconfigure(instructions={"max_bytes": 30})
    assert "AGENTS.md (the first 23 of 229 bytes are above)" in stage.run().prompt("task-001")
    stage.reconfigure(instructions={"enabled": False})
    assert "AGENTS.md" not in stage.run().prompt("task-001")
