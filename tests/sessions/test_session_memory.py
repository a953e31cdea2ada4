"""Sessions are saved to memory however they end, once, and the next planner gets it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.provider import Remembered
from blueflame.model.event import AttemptEnded, JournalEntry
from blueflame.model.memory import FILE_KINDS, Lesson, MemoryRecord, Origin, SessionSummary, TaskFailure, TaskResult
from blueflame.orchestrator.attempts.launch import fill_persona
from blueflame.orchestrator.wiring import build_context, open_memory, open_mirrored_memory
from blueflame.session.state import Session
from support.command_line import here, write
from support.fake_bd import keys, make_bd
from support.redis_servers import needs_redis, run_redis
from support.sessions import Stage, Watcher, plan_of, start_orchestrator, task, writes

GOOD = writes("src/1.txt", "one")
TWO = plan_of(task(1, title="Parse the ledger"), task(2, title="Print the ledger"))
FAILS = [{"say": "I cannot do it"}, {"exit": 3}]


def kept(stage: Stage) -> dict[str, MemoryRecord]:
    return {record.key: record for record in open_memory(stage.project()).list_records()}


def rows(stage: Stage) -> int:
    with sqlite3.connect(stage.root / ".blueflame" / "memory.db") as db:
        return int(db.execute("SELECT count(*) FROM records").fetchone()[0])


def of(stage: Stage, kind: type[MemoryRecord]) -> list[MemoryRecord]:
    return [record for record in kept(stage).values() if isinstance(record, kind)]


@pytest.mark.verification(40)
def test_the_next_planner_gets_what_failed_what_worked_and_what_it_cost(stage: Stage) -> None:
    stage.reconfigure(limits={"kill_grace": "1s", "max_retries": 0})
    spends = [{"usage": {"cost_usd": 0.25}}, *GOOD]
    stage.play(planner=TWO, workers={1: spends, 2: FAILS})
    first = stage.run({"session": ["stop"]}, request="Read and print the ledger")
    assert first.states == {"task-001": "merged", "task-002": "failed"}
    (failure,) = of(stage, TaskFailure)
    assert isinstance(failure, TaskFailure)
    assert (failure.title, failure.overcome, failure.origin.session) == ("Print the ledger", False, first.session.id)
    (result,) = of(stage, TaskResult)
    assert result.origin.files == ("src/1.txt",)
    assert result.origin.commit == first.session.tasks["task-001"].result.sha  # type: ignore[union-attr]  # it landed
    (summary,) = of(stage, SessionSummary)
    assert isinstance(summary, SessionSummary)
    assert (summary.tasks, summary.merged, summary.failed, summary.outcome) == (2, 1, 1, "stopped")
    second = stage.run({"plan": ["quit"]}, request="Print the ledger nicely")
    prompt = second.prompt("plan", "planner")
    data = prompt[prompt.index("prior-context") :]
    assert "FAILED BEFORE: Print the ledger" in data
    assert failure.reason in data
    assert "DONE BEFORE: Parse the ledger" in data
    assert "COSTS, newest session first: $0.25 for 2 tasks" in data
    assert "A SESSION: Read and print the ledger" in data
    assert data.count("FAILED BEFORE") == 1


def test_the_next_session_knows_the_seats_of_the_one_before(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1), task(2, locks=["docs/2.md"])), workers={1: GOOD, 2: writes("docs/2.md", "two")})
    first = stage.run().session
    assert {seat.name: seat.domain for seat in first.seats.values()} == {"worker-1": "src", "worker-2": "docs"}
    stage.play(planner=plan_of(task(1, locks=["docs/3.md"])), workers={1: writes("docs/3.md", "three")})
    second = stage.run().session
    (worker,) = (record.attempt for record in second.attempts.values() if record.attempt.role == "worker")
    assert (worker.seat, worker.allocation and worker.allocation.reason) == ("worker-2", "its domain is docs")
    assert second.seats["worker-1"].tasks == {"src": 1}
    (one, two) = sorted(of(stage, SessionSummary), key=lambda record: record.origin.session)
    assert isinstance(one, SessionSummary) and isinstance(two, SessionSummary)
    assert [(seat.name, seat.landed, seat.first_time) for seat in one.seats] == [("worker-1", 1, 1), ("worker-2", 1, 1)]
    assert [seat.name for seat in two.seats] == ["worker-2"]


def test_a_plan_that_worked_and_a_persons_note_are_lessons(stage: Stage) -> None:
    stage.play(planner=TWO, workers={1: GOOD, 2: writes("src/2.txt", "two")})
    reported = stage.run({"plan": ["replan: Begin with the parser", "approve"]}, request="Read and print the ledger")
    assert reported.session.outcome == "completed"
    lessons = {record.about: record.text for record in of(stage, Lesson) if isinstance(record, Lesson)}
    assert lessons["wish"] == "said of a plan: Begin with the parser"
    assert "2 tasks in 1 group all landed" in lessons["pattern"]
    assert "Parse the ledger [src/1.txt]" in lessons["pattern"]


def test_a_planner_gets_a_map_of_the_code_base(stage: Stage) -> None:
    stage.commit("pkg/deep/er/module.py", "x = 1\n")
    stage.play(planner=TWO)
    prompt = stage.run({"plan": ["quit"]}).prompt("plan", "planner")
    data = prompt[prompt.index("codebase\n") :]
    assert "languages: python (2)" in data
    assert "pkg/deep/er/: 1 files" in data
    stage.reconfigure(memory={"codebase_tokens": 0})
    assert "codebase\n" not in stage.run({"plan": ["quit"]}).prompt("plan", "planner")


def test_what_helped_is_counted(stage: Stage) -> None:
    stage.reconfigure(limits={"kill_grace": "1s", "max_retries": 0})
    stage.play(planner=plan_of(task(1)), workers={1: FAILS})
    stage.run({"session": ["stop"]})
    stage.play(planner=plan_of(task(1)), workers={1: GOOD})
    assert stage.run().session.outcome == "completed"
    (failure,) = of(stage, TaskFailure)
    assert (failure.origin.used, failure.origin.helped) == (1, 1)


def test_a_stopped_session_is_remembered_and_a_resumed_one_not_twice(stage: Stage) -> None:
    stage.play(task(1), task(2, after=[1]), workers={1: GOOD, 2: writes("src/2.txt", "two")})

    def stop(session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptEnded) and recorded.event.attempt.endswith("task-001.worker.1"):
            stage.post(session, "stop")

    first = stage.run(observers=[Watcher(stop)])
    assert not first.session.ended
    (summary,) = of(stage, SessionSummary)
    assert isinstance(summary, SessionSummary)
    assert (summary.outcome, summary.tasks) == ("", 2)
    done = stage.resume()
    assert done.session.outcome == "completed"
    keys = set(kept(stage))
    name = done.session.id
    expected = {f"session:{name}", f"result:{name}:task-001", f"result:{name}:task-002", f"pattern:{name}"}
    assert keys == expected
    assert rows(stage) == len(expected)


def test_a_used_up_budget_is_remembered_before_anybody_answers(stage: Stage) -> None:
    stage.reconfigure(limits={"kill_grace": "1s", "max_session_cost_usd": 0.1})
    stage.play(task(1), task(2, after=[1]), worker=[{"usage": {"cost_usd": 0.2}}, *writes("src/1.txt", "x")])
    seen: list[int] = []

    def answer(_gate: object, _session: object) -> str:
        seen.append(rows(stage))
        return "stop"

    stage.run({"budget": [answer, "stop"]})
    assert seen
    (summary,) = of(stage, SessionSummary)
    assert summary.origin.micro_usd == 200_000


@pytest.mark.parametrize("at", ["Landed", "SessionEnded"])
def test_a_killed_session_is_remembered_once_by_the_next(stage: Stage, at: str) -> None:
    stage.play(planner=plan_of(task(1)), workers={1: GOOD})
    process = start_orchestrator(stage)
    process.until(at)
    process.kill()
    session, _events = stage.look()
    if not session.ended:
        session = stage.resume().session
    stage.play(planner=plan_of(task(2)))
    stage.run({"plan": ["quit"]})
    found = kept(stage)
    summary = found[f"session:{session.id}"]
    assert isinstance(summary, SessionSummary)
    assert (summary.outcome, summary.merged) == ("completed", 1)
    assert sorted(key for key in found if session.id in key.split(":")) == [
        f"result:{session.id}:task-001",
        f"session:{session.id}",
    ]


@pytest.mark.verification(39)
def test_memory_that_is_switched_off_leaves_no_trace(stage: Stage) -> None:
    stage.reconfigure(beads={"enabled": False})
    stage.play(planner=plan_of(task(1)), workers={1: GOOD})
    assert stage.run().session.outcome == "completed"
    assert "prior-context" not in stage.run({"plan": ["quit"]}).prompt("plan", "planner")
    assert not (stage.root / ".blueflame" / "memory.db").exists()
    stage.reconfigure(beads={"enabled": True})
    stage.play(planner=plan_of(task(2)), workers={2: writes("src/2.txt", "two")})
    third = stage.run()
    assert {record.origin.session for record in kept(stage).values()} == {third.session.id}


def test_a_memory_that_is_broken_costs_one_warning_and_no_session(stage: Stage) -> None:
    state = stage.root / ".blueflame"
    state.mkdir(exist_ok=True)
    (state / "memory.db").write_bytes(b"not a database, and long enough to be taken for one" * 50)
    stage.play(planner=plan_of(task(1)), workers={1: GOOD})
    reported = stage.run()
    assert reported.session.outcome == "completed"
    (warning,) = reported.warnings
    assert "could not be saved to memory" in warning
    assert "memory.db" in warning
    assert "could not be read" in reported.prompt("plan", "planner")


def test_after_each_cycle_and_with_notes_of_failures_only_where_that_is_wanted(stage: Stage) -> None:
    saved: list[bool] = []

    def look(_gate: object, session: Session) -> str:
        summary = kept(stage).get(f"session:{session.id}")
        saved.append(isinstance(summary, SessionSummary) and summary.cycles == 1)
        return "stop"

    unwanted = {"archive_after_wave": False, "include_failure_notes": False}
    stage.reconfigure(limits={"kill_grace": "1s", "max_retries": 0}, beads=unwanted)
    stage.play(task(1), workers={1: FAILS})
    stage.run({"session": [look]})
    assert saved == [False]
    (failure,) = of(stage, TaskFailure)
    assert isinstance(failure, TaskFailure)
    assert (failure.title, failure.reason, failure.history, failure.audit) == ("Task 1", "", (), ())


def test_what_a_script_reports_is_not_learned_as_a_cost(stage: Stage) -> None:
    plan = [task(n) for n in (1, 2, 3)]
    stage.play(*plan, workers={n: [{"usage": {"cost_usd": 0.5}}, *writes(f"src/{n}.txt", "x")] for n in (1, 2, 3)})
    assert stage.run().session.outcome == "completed"
    stage.play(*plan)
    assert not stage.run({"plan": ["quit"]}).session.limits.figures


def test_pages_for_people_are_written(stage: Stage) -> None:
    stage.play(task(1, title="Draw <b>a</b> [map](http://example.org)"), workers={1: GOOD})
    stage.run()
    page = (stage.root / ".blueflame" / "knowledge" / "results.md").read_text()
    assert "**Draw &lt;b>a&lt;/b> [map] (http://example.org)** merged" in page
    names = {path.name for path in (stage.root / ".blueflame" / "knowledge").iterdir()}
    assert names == {"failures.md", "results.md", "sessions.md", *(f"{name}.md" for name in FILE_KINDS)}


def test_beads_gets_a_copy_of_it_all(stage: Stage, tmp_path: Path) -> None:
    bd = make_bd(tmp_path / "bin", stage.root / ".blueflame" / "beads" / ".beads")
    stage.reconfigure(memory={"provider": "beads", "bd": str(bd.program)})
    stage.play(planner=plan_of(task(1)), workers={1: GOOD})
    reported = stage.run()
    assert (reported.session.outcome, reported.warnings) == ("completed", [])
    assert sorted(keys(bd.issues)) == [f"result:{reported.session.id}:task-001", f"session:{reported.session.id}"]
    assert {issue["status"] for issue in bd.issues} == {"closed"}
    assert stage.git("status", "--porcelain") == ""


def test_a_beads_that_fails_costs_one_warning(stage: Stage, tmp_path: Path) -> None:
    bd = make_bd(tmp_path / "bin", stage.root / ".blueflame" / "beads" / ".beads", fail="create")
    stage.reconfigure(memory={"provider": "beads", "bd": str(bd.program)})
    stage.play(task(1), workers={1: GOOD})
    reported = stage.run()
    assert reported.session.outcome == "completed"
    (warning,) = reported.warnings
    assert warning.startswith("Beads is left out until the next session")
    assert f"result:{reported.session.id}:task-001" in kept(stage)


@needs_redis
def test_redis_gets_a_copy_and_catches_up_after_it_was_killed(stage: Stage) -> None:
    with run_redis() as server:
        stage.reconfigure(memory={"mirrors": [server.url]})
        stage.play(task(1), workers={1: GOOD})
        first = stage.run()
        assert (first.session.outcome, first.warnings) == ("completed", [])
        memory = open_mirrored_memory(stage.project())
        assert [each.sent for each in memory.sync()] == [0]

        def kill(_gate: object, _session: Session) -> str:
            server.kill()
            return "approve"

        stage.play(task(1), workers={1: writes("src/1.txt", "two")})
        second = stage.run({"changeset": [kill]})
        assert second.session.outcome == "completed"
        (warning,) = second.warnings
        assert warning.startswith("Redis (memory.mirrors[0]) is left out until the next session")
        server.start()
        stage.play(task(1), workers={1: writes("src/1.txt", "three")})
        assert stage.run().warnings == []
        assert server.query("HLEN", server.query("KEYS", "bf:????????????????")[0]) == 2 * rows(stage)  # type: ignore[index]


@needs_redis
def test_redis_and_the_orchestrator_killed_at_once_lose_nothing_and_keep_nothing_twice(stage: Stage) -> None:
    with run_redis() as server:
        stage.reconfigure(memory={"mirrors": [server.url]}, beads={"archive_after_wave": True})
        stage.play(task(1), workers={1: GOOD})
        assert stage.run().warnings == []
        stage.play(planner=plan_of(task(1)), workers={1: writes("src/1.txt", "two")})
        process = start_orchestrator(stage)
        process.until("Landed")
        server.kill()
        process.kill()
        server.start()  # without the data: it keeps none
        resumed = stage.resume()
        assert (resumed.session.outcome, resumed.warnings) == ("completed", [])
        assert [each.sent for each in open_mirrored_memory(stage.project()).sync()] == [0]
        assert server.query("HLEN", server.query("KEYS", "bf:????????????????")[0]) == 2 * rows(stage)  # type: ignore[index]
        assert rows(stage) == 4, "a summary and a result of each session"


@pytest.mark.parametrize(("after", "expected"), [(0, {(1, 1)}), (1, {(1, 0), (1, 1)})])
def test_after_so_many_tasks_memory_is_saved(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, after: int, expected: set[tuple[int, int]]
) -> None:
    saved: set[tuple[int, int]] = set()
    remember = BuiltInMemory.remember

    def note(self: BuiltInMemory, records: Sequence[MemoryRecord], *rest: object) -> Remembered:
        saved.add(tuple(sum(isinstance(each, kind) for each in records) for kind in (TaskFailure, TaskResult)))  # type: ignore[arg-type]
        return remember(self, records, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(BuiltInMemory, "remember", note)
    stage.reconfigure(
        limits={"kill_grace": "1s", "max_retries": 0},
        concurrency={"development": 1},
        beads={"archive_after_wave": False},
        memory={"sync_after_tasks": after},
    )
    stage.play(task(1), task(2), workers={1: FAILS, 2: writes("src/2.txt", "two")})
    stage.run({"session": ["stop"]})
    assert saved - {(0, 0)} == expected


def test_confirmed_lessons_become_instructions_only_at_a_gate(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.commit("AGENTS.md", "Be kind.\n")
    wish = Lesson(key="wish:1", origin=Origin(session="ses-1"), text="Run {task} with make", confirmed=True)
    open_memory(stage.project()).remember([wish, replace(wish, key="note:2", text="Not confirmed", confirmed=False)])
    monkeypatch.chdir(stage.root)
    assert "wish:1; from ses-1" in here(capsys, "memory", "propose", "--dry-run").out
    assert "wish:1; from ses-1" in here(capsys, "memory", "propose", "--dry-run", "--json").json["evidence"]
    no = write(
        tmp_path / "no.yaml",
        {"plan": ["approve"], "changeset": [{"choose": "reject", "note": "not yet"}], "session": ["stop"]},
    )
    first = here(capsys, "memory", "propose", "--decisions-file", str(no), "--json")
    assert (first.code, first.json["outcome"]) == (1, "stopped"), first
    assert stage.git("show", "main:AGENTS.md") == "Be kind.\n"
    yes = write(tmp_path / "yes.yaml", {"plan": ["approve"], "changeset": ["approve"]})
    said = here(capsys, "memory", "propose", "wish:1", "--decisions-file", str(yes), "--json")
    assert said.json["outcome"] == "completed", said
    landed = stage.git("show", "main:AGENTS.md")
    assert landed.startswith("Be kind.\n\n## Lessons\n")
    assert landed.endswith("-->\n- Run {task} with make\n")
    assert "nothing to propose" in here(capsys, "memory", "propose", "wish:1", "note:").err
    assert "is not a file of instructions" in here(capsys, "memory", "propose", "--file", "src/app.py").err


def test_lessons_become_a_persona_only_at_a_gate_and_then_its_role_has_them(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.reconfigure(roles={"worker": {"runtime": "scripted", "persona_file": "docs/agents/worker.md"}})
    wish = Lesson(key="wish:1", origin=Origin(session="ses-1"), text="It costs $5", about="wish", confirmed=True)
    pattern = replace(wish, key="pattern:2", text="Split by folder", about="pattern")
    open_memory(stage.project()).remember([wish, pattern])
    monkeypatch.chdir(stage.root)
    yes = write(tmp_path / "yes.yaml", {"plan": ["approve"], "changeset": ["approve"]})
    said = here(capsys, "memory", "propose", "--role", "worker", "--decisions-file", str(yes), "--json")
    assert said.json["outcome"] == "completed", said
    landed = stage.git("show", "main:docs/agents/worker.md")
    assert landed.endswith("-->\n- It costs $5\n"), "what planners are given is not for a worker"
    stage.play(task(1), workers={1: GOOD})
    run = stage.run()
    context = build_context(stage.project(), run.session)
    worker, validator = (
        replace(run.session.attempts[run.session.last_work["task-001"]].attempt, role=role)
        for role in ("worker", "validator")
    )
    assert fill_persona(context, run.session, worker) == landed.strip()
    assert fill_persona(context, run.session, validator) == ""
    for options, wrong in {
        ("--role", "validator"): "roles.validator.persona_file: docs/agents/validator.md; it need not exist",
        ("--role", "wroker"): "unknown role 'wroker'; did you mean worker?",
        ("--role", "worker", "--file", "AGENTS.md"): "--file and --role cannot be combined",
    }.items():
        assert wrong in here(capsys, "memory", "propose", *options).err
