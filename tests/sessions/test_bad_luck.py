"""What the world does to a session: files vanish, folders cannot be written. It goes on, or says why not."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from blueflame.documents.plans import read_plan
from blueflame.git.checkouts import get_record_path
from blueflame.git.repository import PROBE_SUFFIX
from blueflame.model.attempt import Duty, Ending
from blueflame.model.errors import JournalError
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    EnvironmentFailed,
    GateOpened,
    JournalEntry,
    Landed,
    PlanFailed,
)
from blueflame.model.exit_codes import ExitCode
from blueflame.model.gate import Gate
from blueflame.orchestrator.engine.local import LocalEngine
from blueflame.orchestrator.sessions import open_journal
from blueflame.orchestrator.wiring import build_context
from blueflame.session.state import Session
from support.sessions import Stage, Watcher, plan_of, start_orchestrator, task, writes
from support.wardens import wait_until


@pytest.fixture
def exports(stage: Stage) -> Iterator[Stage]:
    """With a tasks file where nothing can be written: its folder is a file."""
    stage.reconfigure(project={"name": "sample", "repo": ".", "tasks_file": "notes/tasks.yaml"})
    stage.commit(".gitignore", "/notes\n")
    (stage.root / "notes").write_text("in the way\n")
    yield stage


def test_exports_that_fail_are_reported_once_and_caught_up_when_writing_works_again(exports: Stage) -> None:
    def repair(_gate: Gate, _session: Session) -> str:
        (exports.root / "notes").unlink()
        return "approve"

    exports.play(task(1), task(2))
    result = exports.run({"changeset": [repair]})
    assert result.session.outcome == "completed"
    assert [each.id for each in read_plan(exports.root / "notes/tasks.yaml")] == ["task-001", "task-002"]
    (warning,) = result.warnings
    assert "could not write the exports" in warning
    assert "notes" in warning
    log = (exports.root / ".blueflame/logs/activity.log").read_text()
    assert log.count("\n") > 10, "what could not be written in time is there now"


def test_a_planner_that_cannot_be_started_is_left_to_the_person(stage: Stage, quick_retries: None) -> None:
    """Its checkout cannot be made: tried five times, then a person is asked; nothing is blamed."""

    def block(_session: Session, recorded: JournalEntry) -> None:
        if recorded.seq == 2:
            shutil.rmtree(stage.root / ".trees")
            (stage.root / ".trees").write_text("a file where the checkouts go\n")

    stage.play(planner=plan_of(task(1)))
    result = stage.run({"environment": ["stop"]}, observers=[Watcher(block)])
    assert not result.of(PlanFailed)
    assert not result.of(AttemptEnded)
    assert [failed.times for failed in result.of(EnvironmentFailed)] == [1, 2, 3, 4, 5]
    assert ".trees" in " ".join(result.answers.asked[0].evidence["problems"])
    assert result.session.exit_code is ExitCode.WORLD
    (stage.root / ".trees").unlink()
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.session.problems == {}
    assert len(result.session.attempts) == 2, "the planner that was intended first, and one worker"


def test_an_attempt_whose_folder_was_removed_is_lost_and_tried_again(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)), workers={1: {"1": "stuck"}})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.kill()
    session, _events = stage.look()
    (live,) = session.live
    engine = build_context(stage.project(), session, script=stage.script).engine
    _end(stage, live)
    shutil.rmtree(engine.mirror(live))
    result = stage.resume()
    ended = result.session.attempts[live].ended
    assert ended is not None
    assert ended.ending is Ending.LOST
    assert "was removed" in ended.notes
    assert result.session.outcome == "completed"


def test_an_attempt_whose_records_are_removed_when_it_ends_is_lost_and_tried_again(stage: Stage) -> None:
    """As by `git clean`, before its result is read: without them it cannot be judged."""
    folder = f"'{stage.root}/.blueflame/attempts/{{session}}.{{task}}.worker.{{attempt}}'"
    first = [*writes("src/1.txt", "one"), {"run": f"rm {folder}/policy.json"}]
    stage.play(task(1), workers={1: {"1": first, "*": writes("src/1.txt", "one")}})
    result = stage.run()
    assert result.session.outcome == "completed"
    assert [ended.ended.ending for ended in result.of(AttemptEnded)] == [Ending.LOST, Ending.PASSED]
    assert result.session.tasks["task-001"].retries == 0


def _end(stage: Stage, attempt: str) -> None:
    """The way a cancel does it, and wait until it has ended."""

    async def end() -> None:
        engine = LocalEngine(stage.root / ".blueflame")
        await engine.cancel(attempt, "test")
        await engine.wait(attempt)

    asyncio.run(end())


def _remove_in_part(checkout: Path) -> None:
    """As `git clean -ffdx` does while an agent writes there: its folder cannot be removed, all others are."""
    get_record_path(checkout).unlink()
    shutil.rmtree(checkout / ".git")


@pytest.mark.parametrize(
    ("remove_checkout", "lost"),
    [
        (shutil.rmtree, ["plan.planner.1", "task-001.worker.1", "task-001.validator.1"]),
        (_remove_in_part, ["task-001.worker.1"]),  # the others have done what they were asked for
    ],
)
def test_a_checkout_that_was_removed_under_its_agent_loses_the_attempt(
    stage: Stage, remove_checkout: Callable[[Path], None], lost: list[str]
) -> None:
    def remove(_session: Session, recorded: JournalEntry) -> None:
        event = recorded.event
        if isinstance(event, AttemptStarted) and event.attempt.endswith(".1") and event.worktree:
            output = stage.root / ".blueflame" / "attempts" / event.attempt / "stdout.log"
            wait_until(lambda: output.exists() and output.stat().st_size > 0, "the agent has begun")
            remove_checkout(Path(event.worktree))

    begin = [{"say": "I begin."}, {"sleep": 0.5}]
    stage.play(
        planner=[*begin, *plan_of(task(1))],
        workers={1: {"1": [*begin, *writes("src/1.txt", "one")]}},
        validators={1: [*begin, {"verdict": "pass"}]},
    )
    result = stage.run(observers=[Watcher(remove)], workflow="waves")
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].retries == 0
    endings = {each.attempt: each.ended.ending for each in result.of(AttemptEnded)}
    assert set(endings.values()) == {Ending.LOST, Ending.PASSED}
    assert [name.partition(".")[2] for name, each in endings.items() if each is Ending.LOST] == lost


def test_a_message_after_the_end_is_refused(stage: Stage) -> None:
    letters: list[int] = []

    def late(session: Session, recorded: JournalEntry) -> None:
        if session.ended and not letters:
            letters.append(stage.post(session, "answer", gate="changeset-cs-001", choice="reject", note="no"))

    stage.play(task(1))
    stage.run(observers=[Watcher(late)])
    with open_journal(stage.project()) as journal:
        result = journal.read_reply(letters[0])
    assert result.state == "refused"
    assert "has ended (completed)" in result.reply


@pytest.mark.verification(5)
def test_the_exports_are_complete_at_any_time(stage: Stage) -> None:
    """Written beside and put in place in one go: no reader ever sees half a file."""
    looks = 0

    def look(_session: Session, recorded: JournalEntry) -> None:
        nonlocal looks
        tasks, agents = stage.root / ".blueflame/tasks.yaml", stage.root / ".blueflame/agents.json"
        if tasks.exists() and agents.exists():
            read_plan(tasks)
            json.loads(agents.read_text())
            looks += 1

    stage.play(task(1))
    stage.run(observers=[Watcher(look)])
    assert looks > 3
    assert not list((stage.root / ".blueflame").glob("*.draft"))


def test_without_an_answerer_nothing_is_asked_and_the_session_stays(stage: Stage) -> None:
    def vanish(gate: Gate, _session: Session) -> str:
        raise EOFError(gate.id)

    stage.play(task(1))
    with pytest.raises(EOFError):
        stage.run({"changeset": [vanish]})
    result = stage.resume()
    assert result.gates == ["changeset-cs-001"], "the same gate, and only that one"
    assert len(result.of(GateOpened)) == 2
    assert result.session.outcome == "completed"


def test_the_folders_of_attempts_removed_under_a_session_cost_no_retry(stage: Stage) -> None:
    def remove(_session: Session, recorded: JournalEntry) -> None:
        event = recorded.event
        if isinstance(event, AttemptStarted) and event.attempt.endswith("worker.1"):
            (stage.root / ".blueflame" / "attempts").rename(stage.root.parent / "moved away")

    stage.play(task(1), workers={1: {"1": [{"sleep": 0.5}, *writes("src/1.txt", "one")]}})
    result = stage.run(observers=[Watcher(remove)])
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].retries == 0


@pytest.mark.parametrize("workflow", [None, "flow"])
def test_commits_that_are_gone_from_git_are_made_again(stage: Stage, workflow: str | None) -> None:
    """Refs deleted and objects pruned: before, every resume ended with "bad object"."""
    stage.play(task(1), task(2))
    _leave_at_changeset(stage, workflow)
    for ref in stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame").split():
        stage.git("update-ref", "-d", ref)
    stage.git("reflog", "expire", "--expire=now", "--all")
    stage.git("gc", "-q", "--prune=now")
    result = stage.resume()
    assert (result.session.outcome, result.session.cycle) == ("completed", 1)
    assert "task-001, task-002" in " ".join(result.warnings)
    assert [result.session.tasks[f"task-00{n}"].retries for n in (1, 2)] == [0, 0]
    assert "attempt 2" in stage.read("src/1.txt")


def test_earlier_work_that_is_gone_from_git_blames_no_agent_that_continues_it(stage: Stage, tmp_path: Path) -> None:
    """Pruned while it works: its own commits have no history then, and cannot be fetched."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    wait = {"run": f"touch '{begun}'; while [ ! -e '{go}' ]; do sleep 0.02; done"}
    good = writes("src/1.txt", "one")
    stage.play(task(1), workers={1: {"1": [*good, {"exit": 1}], "2": [wait, *good], "*": good}})

    def prune(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptStarted) and recorded.event.attempt.endswith(".worker.2"):
            wait_until(begun.exists, "the second agent is at work")
            for ref in stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame").split():
                stage.git("update-ref", "-d", ref)
            stage.git("gc", "-q", "--prune=now")
            go.touch()

    result = stage.run(observers=[Watcher(prune)])
    assert [each.ended.ending for each in result.of(AttemptEnded)] == [Ending.FAILED, Ending.LOST, Ending.PASSED]
    assert result.session.tasks["task-001"].retries == 1
    assert result.session.outcome == "completed"


def test_an_attempt_whose_base_is_gone_from_git_is_ended_when_the_session_is_resumed(
    stage: Stage, tmp_path: Path
) -> None:
    """Pruned after a kill, while an agent is at work on it: its result could never be read, and every resume ended."""
    begun = tmp_path / "begun"
    stuck = {"1": [{"run": f"touch '{begun}'; sleep 1000"}], "*": writes("src/2.txt", "two")}
    stage.reconfigure(schedule={"dependents": "passed"})
    stage.play(planner=plan_of(task(1), task(2, dependencies=["task-001"])), workers={2: stuck})
    running = start_orchestrator(stage)
    wait_until(begun.exists, "the second agent is at work")
    running.until("AttemptStarted", 3)
    running.kill()
    (agent,) = stage.root.glob(".blueflame/attempts/*task-002.worker.1/agent.json")
    pid = json.loads(agent.read_text())["pid"]
    for ref in stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame").split():
        stage.git("update-ref", "-d", ref)
    stage.git("gc", "-q", "--prune=now")
    result = stage.resume({"session": ["continue"]})
    assert result.session.outcome == "completed"
    assert not psutil.pid_exists(pid)
    assert {each.ended.ending for each in result.of(AttemptEnded)} == {Ending.PASSED, Ending.LOST}
    assert [result.session.tasks[f"task-00{n}"].retries for n in (1, 2)] == [0, 0]


def test_refs_that_are_gone_from_git_are_set_again(stage: Stage) -> None:
    stage.play(task(1))
    _leave_at_changeset(stage)
    before = stage.git("for-each-ref", "refs/blueflame/attempts")
    for ref in stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame/attempts").split():
        stage.git("update-ref", "-d", ref)
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].attempts == 1
    assert stage.git("for-each-ref", "refs/blueflame/attempts") == before


def _lose_events(stage: Stage, since: str) -> None:
    """Take the newest events from the journal, as an older copy does that was put back: whole transactions."""
    with closing(sqlite3.connect(stage.root / ".blueflame" / "journal.db")) as db, db:
        db.execute("DELETE FROM events WHERE at >= (SELECT min(at) FROM events WHERE kind = ?)", (since,))


@pytest.mark.parametrize("since", ["AttemptIntended", "AttemptStarted", "AttemptEnded", "ChangesetsFormed"])
def test_a_journal_that_has_lost_its_newest_events_is_resumed_from_what_it_has(stage: Stage, since: str) -> None:
    """Git and the folders know attempts that it does not: these are set aside, and no agent is blamed."""
    stage.play(task(1))
    _leave_at_changeset(stage)
    (made,) = stage.git("for-each-ref", "--format=%(objectname)", "refs/blueflame/attempts").split()
    _lose_events(stage, since)
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert "the journal has lost its newest" in result.warnings[0]
    assert {each.ended.ending for each in result.of(AttemptEnded)} <= {Ending.PASSED, Ending.LOST}
    assert result.session.tasks["task-001"].retries == 0
    assert made in stage.git("rev-list", "--glob=refs/blueflame").split(), "nothing that was made is gone"
    assert ("task-001 (attempt 1)" in result.warnings[0]) == (since == "AttemptIntended")


def test_a_ref_that_a_killed_probe_left_does_not_end_a_resume(stage: Stage) -> None:
    stage.play(task(1))
    _leave_at_changeset(stage)
    (made,) = stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame/attempts").split()
    stage.git("update-ref", f"{made}{PROBE_SUFFIX}", "HEAD")
    assert stage.resume().session.outcome == "completed"
    assert PROBE_SUFFIX not in stage.git("for-each-ref", "refs/blueflame")


def test_a_review_whose_result_is_gone_before_it_starts_is_lost(stage: Stage) -> None:
    stage.play(task(1))

    class Left(Exception):
        pass

    def leave(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptIntended) and recorded.event.attempt.duty is Duty.JUDGE:
            raise Left

    with pytest.raises(Left):
        stage.run(observers=[Watcher(leave)], workflow="waves")
    for ref in stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame").split():
        stage.git("update-ref", "-d", ref)
    stage.git("reflog", "expire", "--expire=now", "--all")
    stage.git("gc", "-q", "--prune=now")
    result = stage.resume({"session": ["continue"]})
    assert result.session.outcome == "completed"
    assert [each.ended.ending for each in result.of(AttemptEnded)].count(Ending.LOST) == 1
    assert result.session.tasks["task-001"].retries == 0


def test_an_agent_that_the_journal_does_not_know_is_ended(stage: Stage, tmp_path: Path) -> None:
    """It runs while the journal loses its beginning: the next attempt has its name, its checkout and its folder."""
    begun = tmp_path / "begun"
    stuck = [{"run": f"touch '{begun}'; sleep 1000"}]
    stage.play(planner=plan_of(task(1)), workers={1: stuck})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    wait_until(begun.exists, "the agent is at work")
    running.kill()
    lost = [json.loads(path.read_text())["pid"] for path in stage.root.glob(".blueflame/attempts/*worker.1/agent.json")]
    _lose_events(stage, "PlanApproved")
    stage.play(planner=plan_of(task(1)))
    result = stage.resume({"plan": ["approve"]})
    assert result.session.outcome == "completed"
    assert not any(psutil.pid_exists(pid) for pid in lost)
    assert [each.ended.ending for each in result.of(AttemptEnded)] == [Ending.PASSED, Ending.PASSED]


def test_copies_of_attempts_and_those_set_aside_before_do_not_end_a_resume(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)), workers={1: [{"sleep": 1000}]})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    running.kill()
    (folder,) = stage.root.glob(".blueflame/attempts/*worker.1")
    for end in (" (conflicted copy)", "~1", ".old"):
        shutil.copytree(folder, folder.with_name(f"{folder.name}{end}"))
    _end(stage, folder.name)
    stage.play(planner=plan_of(task(1)))

    assert stage.resume().session.outcome == "completed"


@pytest.mark.parametrize("since", ["ChangesetsFormed", "ChangesetBuilt"])
def test_a_landing_that_the_journal_does_not_know_is_not_repeated(stage: Stage, since: str) -> None:
    stage.play(task(1), task(2, cohesion_group="other"))

    class Left(Exception):
        pass

    def leave(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, Landed):
            raise Left

    with pytest.raises(Left):
        stage.run(observers=[Watcher(leave)])
    head = stage.head()
    _lose_events(stage, since)
    with pytest.raises(JournalError, match=r"lost events of ses-.*: cs-001 is on main"):
        stage.resume()
    assert stage.head() == head


def _leave_at_changeset(stage: Stage, workflow: str | None = None) -> None:
    """Die at the gate of a changeset, with the agents' commits in the repository."""

    class Left(Exception):
        pass

    def leave(_gate: Gate, _session: Session) -> str:
        raise Left

    with pytest.raises(Left):
        stage.run({"changeset": [leave]}, workflow=workflow)
