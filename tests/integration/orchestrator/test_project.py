"""The wiring: what is refused before anything starts, which session is meant, and what a fresh start ends."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from blueflame.config.show import compute_digest
from blueflame.documents.plans import parse_tasks
from blueflame.git.results import list_refs
from blueflame.journal.journal import Journal
from blueflame.model.errors import ConfigError, JournalError, Refused, ScriptError, UsageError, WorldError
from blueflame.model.event import Event, JournalEntry, OrchestratorStarted, PlanProposed, SessionOpened
from blueflame.model.workflow import Workflow
from blueflame.orchestrator.lifecycle import (
    abandon_session,
    check_prerequisites,
    check_runtimes,
    list_warnings,
    lock_project,
    open_session,
    prepare_folders,
)
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.session_settings import save_settings
from blueflame.orchestrator.sessions import find_running_pid, find_session, load_session, open_journal
from blueflame.orchestrator.wiring import build_runtime_set
from blueflame.session.from_settings import build_workflow
from support.sessions import Stage, make_stage, plan_of, start_orchestrator, task, writes


@pytest.fixture
def stage(repo: Path) -> Stage:
    return make_stage(repo)


def test_the_configuration_is_found_from_any_folder_of_the_repository(stage: Stage) -> None:
    project = open_project(start=stage.root / "src")
    assert project.repo.root == stage.root
    assert project.paths.journal == stage.root / ".blueflame/journal.db"


def test_without_a_configuration_the_error_says_how_to_create_one(repo: Path) -> None:
    with pytest.raises(ConfigError, match="blueflame init"):
        open_project(start=repo)


@pytest.mark.verification(48)
def test_preparing_twice_changes_nothing(stage: Stage) -> None:
    project = stage.project()
    prepare_folders(project)
    before = {path: path.read_bytes() for path in stage.root.rglob("*") if path.is_file()}
    prepare_folders(project)
    assert {path: path.read_bytes() for path in stage.root.rglob("*") if path.is_file()} == before
    assert stage.git("status", "--porcelain") == ""


def test_links_to_another_disk_stay_out_of_git_too(stage: Stage, tmp_path: Path) -> None:
    for name in (".blueflame", ".trees"):
        (tmp_path / "disk" / name).mkdir(parents=True)
        (stage.root / name).symlink_to(tmp_path / "disk" / name)

    prepare_folders(stage.project())

    assert stage.git("status", "--porcelain") == ""


def test_a_state_folder_that_cannot_be_made_is_a_clear_error(stage: Stage) -> None:
    (stage.root / ".blueflame").write_text("a file\n")
    with pytest.raises(WorldError, match=r"\.blueflame"), lock_project(stage.project()):
        pass


def test_there_is_nothing_to_read_before_the_first_session(stage: Stage) -> None:
    with pytest.raises(UsageError, match="nothing has been run"), open_journal(stage.project()):
        pass


@pytest.mark.parametrize(("left", "words"), [(["journal.db-wal"], "put the journal back"), ([], "ses-1.*Put it back")])
def test_a_journal_that_is_gone_is_not_called_the_first_session(stage: Stage, left: list[str], words: str) -> None:
    stage.git("update-ref", "refs/blueflame/attempts/ses-1/task-001/work/1", "HEAD")
    project = stage.project()
    project.state.journal.parent.mkdir()
    for name in left:
        project.state.journal.with_name(name).write_text("events")
    with pytest.raises(JournalError, match=words), open_journal(project):
        pass


def test_only_one_orchestrator_at_a_time(stage: Stage) -> None:
    project = stage.project()
    with lock_project(project):
        assert find_running_pid(project) == os.getpid()
        project.paths.resolved_config.write_text("the first one's")
        with pytest.raises(Refused, match=f"pid {os.getpid()}"), lock_project(project):
            pass
        assert project.paths.resolved_config.read_text() == "the first one's"
    assert find_running_pid(project) is None


def test_a_start_removes_what_is_left_of_a_session_that_was_killed_before_it_was_opened(stage: Stage) -> None:
    project = stage.project()
    with lock_project(project) as journal:
        opened = open_session(project, journal, request="one").id
    for name in ("ses-20260101-000000", "ses-20260102-000000"):
        save_settings(project.state, name, project.settings)
    stage.git("update-ref", "refs/blueflame/attempts/ses-20260102-000000/task-001/1", "HEAD")  # its journal is gone
    with lock_project(project):
        pass
    assert sorted(each.name for each in project.state.sessions.iterdir()) == ["ses-20260102-000000", opened]


def test_a_session_is_found_by_its_id_its_beginning_or_as_the_newest(stage: Stage) -> None:
    project = stage.project()
    with lock_project(project) as journal:
        with pytest.raises(UsageError, match="no session yet"):
            find_session(journal, None)
        first = open_session(project, journal, request="one").id
        second = open_session(project, journal, request="two").id
        assert second != first
        assert find_session(journal, None) == second
        assert find_session(journal, first) == first
        with pytest.raises(UsageError, match="more than one"):
            find_session(journal, "ses-")
        with pytest.raises(UsageError, match="no session is called"):
            find_session(journal, "ses-1999")
        assert journal.find_unfinished() is not None


def test_beginning_pins_the_base_and_the_configuration(stage: Stage) -> None:
    project = stage.project()
    with lock_project(project) as journal:
        session = open_session(project, journal, request="Сделай", workflow="flow")
        opened = journal.read_events(session.id)[0].event
    assert isinstance(opened, SessionOpened)
    assert (opened.request, opened.base_sha, opened.workflow.name) == ("Сделай", stage.head(), "flow")
    assert opened.config_digest == compute_digest(project.settings)


def test_a_person_s_own_plan_is_written_together_with_the_session(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that a crash parts from its plan would ask a planner for another one."""
    batches, real = list[tuple[Event, ...]](), Journal.append

    def append(self: Journal, session: str, after: int, events: Sequence[Event], at: float) -> tuple[JournalEntry, ...]:
        batches.append(tuple(events))
        return real(self, session, after, events, at)

    monkeypatch.setattr(Journal, "append", append)
    project = stage.project()
    with lock_project(project) as journal:
        session = open_session(project, journal, request="x", tasks=parse_tasks({"tasks": [task(1)]}))
    assert [[type(event) for event in batch] for batch in batches] == [[SessionOpened, PlanProposed]]
    assert session.plan is not None


@pytest.mark.parametrize("wrong", ["workflow", "dirty"])
def test_a_refused_beginning_leaves_no_session(stage: Stage, wrong: str) -> None:
    if wrong == "dirty":
        (stage.root / "README.md").write_text("changed\n")
    project = stage.project()
    with lock_project(project) as journal:
        with pytest.raises(Refused if wrong == "dirty" else UsageError):
            open_session(project, journal, request="x", workflow="wavs" if wrong == "workflow" else None)
        assert journal.list_sessions() == ()


def test_a_script_that_cannot_be_played_is_refused_before_there_is_a_session(stage: Stage) -> None:
    stage.script.write_text("defaults: {worker: [dance]}\n")
    with pytest.raises(ScriptError, match="dance"):
        check_runtimes(stage.project(), Workflow(), script=stage.script)


def test_agents_without_a_credential_are_refused_before_there_is_a_session(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "empty"))
    stage = make_stage(repo, roles={"worker": {"runtime": "claude"}})
    with pytest.raises(Refused, match="ANTHROPIC_API_KEY"):
        check_runtimes(stage.project(), Workflow())
    check_runtimes(stage.project(), Workflow(stages=("plan", "check")))  # without workers no credential is needed
    check_runtimes(stage.project(), Workflow(), replay=tmp_path / "cassette")


def test_every_prerequisite_that_is_not_met_is_in_one_list(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(
        repo, roles={"worker": {"runtime": "claude"}}, runtimes={"claude": {"command": "/nowhere/claude"}}
    )
    (repo / "README.md").write_text("changed\n")
    monkeypatch.setattr("blueflame.orchestrator.preflight.CHECKOUT_GROWTH", 10**15)
    with pytest.raises(Refused) as refused:
        check_prerequisites(stage.project(), Workflow())
    listed = str(refused.value).splitlines()
    assert listed[0] == f"a session cannot start in {repo}:"
    assert all(line.startswith("  - ") for line in listed[1:] if line.strip())
    for word in ("README.md", "not enough disk", "/nowhere/claude"):
        assert sum(word in line for line in listed) >= 1, word


def test_warnings_are_reported_and_refuse_nothing(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(
        repo,
        concurrency={"adaptive": True, "adaptive_min_ram_per_agent_mb": 10**7},
        memory={"provider": "beads", "bd": "no-bd"},
    )
    monkeypatch.delenv("BD_DB", raising=False)
    ram, memory, isolation = list_warnings(stage.project())
    assert "MB of memory are free" in ram
    assert "no-bd" in memory
    assert "sandbox" in isolation
    check_prerequisites(stage.project(), Workflow())


def test_a_name_of_ones_own_needs_a_kind(repo: Path) -> None:
    stage = make_stage(repo, roles={"worker": {"runtime": "goose"}}, runtimes={"goose": {"command": "goose acp"}})
    with pytest.raises(Refused, match=r"goose is not in this version.*runtimes\.<name>\.kind"):
        check_runtimes(stage.project(), Workflow())


def test_the_plan_of_a_scripted_planner_is_known_without_a_run(stage: Stage) -> None:
    stage.play(planner=plan_of(task(3), task(4, after=[3])))
    project = stage.project()
    flow = build_workflow(project.settings, "waves")
    plan = build_runtime_set(project, script=stage.script).find_known_plan("x", flow)
    assert plan is not None
    assert [each.id for each in plan] == ["task-003", "task-004"]
    direct = build_runtime_set(project, script=stage.script).find_known_plan(
        "Do it", build_workflow(project.settings, "direct")
    )
    assert direct is not None
    assert [each.title for each in direct] == ["Do it"]


@pytest.mark.parametrize("warden", ["lives", "was killed"])
def test_a_fresh_start_ends_the_agents_of_the_session_it_closes_and_keeps_what_they_made(
    stage: Stage, warden: str
) -> None:
    """Of an agent whose warden was killed, too, and of the processes that it left behind."""
    background = {
        "run": "setsid sh -c 'echo $$ > ../../pid; exec sleep 600' & until [ -s ../../pid ]; do sleep 0.01; done"
    }
    stage.play(planner=plan_of(task(1)), workers={1: [*writes("src/1.txt", "one"), background, {"play": "stuck"}]})
    running = start_orchestrator(stage)
    running.until("AttemptStarted", 2)
    left = stage.root / "pid"
    while not (left.exists() and left.read_text().endswith("\n")):
        time.sleep(0.01)
    running.kill()
    session, _events = stage.look()
    (record,) = (record for record in session.attempts.values() if record.live)
    family = [psutil.Process(record.warden_pid), psutil.Process(int(left.read_text()))]
    if warden == "was killed":
        family[0].kill()
    project = stage.project()
    with lock_project(project) as journal:
        abandon_session(project, journal, session.id)
        assert journal.find_unfinished() is None
        session = load_session(journal, session.id)
    assert session.outcome == "abandoned"
    assert not session.live
    ended = session.attempts[record.attempt.id].ended
    assert ended is not None
    assert list(list_refs(project.repo, "refs/blueflame/attempts/").values()) == [ended.tip]
    assert stage.read("src/1.txt", at=str(ended.tip)) == "one\n"
    assert not [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def test_every_start_of_an_orchestrator_is_recorded(stage: Stage) -> None:
    stage.play(task(1))
    result = stage.run({"plan": ["quit"]})
    assert [event.pid for event in result.of(OrchestratorStarted)] == [os.getpid()]
