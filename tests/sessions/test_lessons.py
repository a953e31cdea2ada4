"""What sessions teach reaches the agents that work on the same files, and a resumed session gives the same again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.model.event import JournalEntry, LessonsGiven
from blueflame.model.memory import Lesson, Origin, Source
from blueflame.orchestrator.attempts.lessons import word_shared_lessons
from blueflame.orchestrator.prompts import SharedKnowledge
from blueflame.orchestrator.wiring import build_context, open_memory
from blueflame.session.state import Session
from support.command_line import here
from support.repositories import copy_repository
from support.sessions import SessionRun, Stage, Watcher, find_stage, plan_of, task, writes
from support.snapshots import Snapshots

TAUGHT = "The first line of this file is its checksum"
WORKERS = {1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two")}
TEACHING = {1: [*WORKERS[1], {"say": json.dumps({"summary": ["done"], "learnings": [TAUGHT]})}], 2: WORKERS[2]}


class Crash(Exception):
    """The orchestrator dies."""


@pytest.fixture
def taught(configured_repository: Path, snapshots: Snapshots) -> Stage:
    """A repository in which one session taught something about src/1.txt."""

    def build(folder: Path) -> None:
        stage = find_stage(copy_repository(configured_repository, folder / "мой repo"))
        stage.reconfigure(memory={"control_every": 0})
        stage.play(task(1), task(2), workers=TEACHING)
        assert stage.run().session.outcome == "completed"

    stage = find_stage(snapshots.open("taught", build) / "мой repo")
    stage.play(task(1, title="Sort it"), task(2, title="Count it"), workers=WORKERS)
    return stage


def list_given(run: SessionRun, attempt: str) -> list[str]:
    return [each.key for event in run.of(LessonsGiven) if event.attempt.endswith(attempt) for each in event.lessons]


def test_what_one_session_taught_reaches_the_agents_on_those_files_and_no_other(taught: Stage) -> None:
    run = taught.run(workflow="waves")
    worker, validator = run.prompt("task-001"), run.prompt("task-001", "validator")
    assert f"- KNOWN: {TAUGHT} (files: src/1.txt)\n" in worker[worker.index("prior-context\n") :]
    assert TAUGHT in validator
    assert TAUGHT not in run.prompt("task-002") + run.prompt("task-002", "validator")
    (given,) = [event for event in run.of(LessonsGiven) if event.attempt.endswith("task-001.worker.1")]
    assert [(each.files, each.left_out) for each in given.lessons] == [(("src/1.txt",), None)]
    assert worker.index("task-description") < worker.index("prior-context")


def test_an_attempt_that_is_prepared_again_after_a_crash_gets_the_same(taught: Stage) -> None:
    def crash(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, LessonsGiven) and recorded.event.attempt.endswith("task-001.worker.1"):
            raise Crash

    with pytest.raises(Crash):
        taught.run(observers=[Watcher(crash)])
    memory = open_memory(taught.project())
    late = Origin(session="ses-late", at=9e9, files=("src/1.txt",), source=Source.AGENT)
    memory.remember([Lesson(key="late", origin=late, text="This came too late", about="insight")])
    run = taught.resume()
    assert run.session.outcome == "completed"
    assert TAUGHT in run.prompt("task-001")
    assert "This came too late" not in run.prompt("task-001")
    assert len([event for event in run.of(LessonsGiven) if event.attempt.endswith("task-001.worker.1")]) == 1
    shared = [event for event in run.of(LessonsGiven) if not event.attempt]
    assert run.session.shared == shared[0], "of two attempts that start at once, the first choice counts"


def test_what_is_forgotten_after_it_was_chosen_is_not_given(taught: Stage) -> None:
    def forget(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, LessonsGiven) and recorded.event.attempt.endswith("task-001.worker.1"):
            open_memory(taught.project()).forget([each.key for each in recorded.event.lessons])

    run = taught.run(observers=[Watcher(forget)])
    assert TAUGHT not in run.prompt("task-001")


def test_without_a_budget_nothing_is_given_and_what_was_left_out_is_recorded(taught: Stage) -> None:
    taught.reconfigure(memory={"lesson_tokens": 0, "control_every": 0})
    run = taught.run()
    assert TAUGHT not in run.prompt("task-001")
    (given,) = [event for event in run.of(LessonsGiven) if event.attempt.endswith("task-001.worker.1")]
    assert [each.left_out for each in given.lessons] == ["budget"]


def test_what_an_attempt_was_given_is_counted_and_a_person_sees_it_and_why(
    taught: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = taught.run()
    (key,) = list_given(run, "task-001.worker.1")
    (lesson,) = [record for record in open_memory(taught.project()).list_records() if record.key == key]
    assert (lesson.origin.used, lesson.origin.helped) == (1, 1)
    effect = open_memory(taught.project()).store.list_effects()[key]
    assert (effect.given, effect.tried, effect.passed) == (1, 1, 1)
    assert "too few" in effect.describe()
    monkeypatch.chdir(taught.root)
    shown = here(capsys, "memory", "why", "task-001").out
    assert TAUGHT in shown
    assert "about src/1.txt; " in shown
    assert "1 given, 0 left out" in shown
    details = " ".join(here(capsys, "show", "task-001.worker.1").out.split())
    assert "1 of earlier sessions, see 'blueflame memory why worker-" in details
    assert "Nothing of earlier sessions is about its work." in here(capsys, "memory", "why", "task-002").out
    reported = here(capsys, "memory", "why", f"{run.session.id}.task-001.worker.1", "--json").json
    (row,) = reported["lessons"]
    assert (row["headline"], row["files"], row["left_out"]) == (TAUGHT, ["src/1.txt"], None)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()
    known = page.partition("## memory list")[2].partition("\n## ")[0]
    assert all(f"`{key}`" in known for key in (*reported, *row))
    assert "(given once: too few)" in " ".join(here(capsys, "memory", "list").out.split())
    open_memory(taught.project()).forget([row["key"]])
    assert "(forgotten since)" in here(capsys, "memory", "why", "task-001").out


def test_what_a_person_said_about_everything_is_the_same_text_for_every_agent(stage: Stage) -> None:
    stage.reconfigure(memory={"control_every": 0})
    stage.play(planner=plan_of(task(1), task(2)), workers=WORKERS)
    stage.run({"plan": ["replan: Keep every file sorted", "approve"]})
    run = stage.run({"plan": ["approve"]})
    shared, *_same = [event for event in run.of(LessonsGiven) if not event.attempt]
    (key,) = [each.key for each in shared.lessons]
    assert key.startswith("wish:")
    context = build_context(stage.project(), run.session, script=stage.script)
    blocks = {word_shared_lessons(context, replace(run.session, base_sha=base)) for base in ("a", "b")}
    assert blocks == {SharedKnowledge(shared.nonce, ("A PERSON'S WORD: said of a plan: Keep every file sorted",))}
    assert all(key not in list_given(run, name) for name in ("plan.planner.1", "task-001.worker.1"))
