"""Repositories as people have them: shallow, linked, with submodules, with names that are awkward."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from blueflame.documents.plans import parse_tasks
from blueflame.model.attempt import Ending
from blueflame.model.errors import JournalError, Refused
from blueflame.model.event import AttemptEnded, AttemptIntended, ChangesetsFormed, EnvironmentFailed, JournalEntry
from blueflame.model.gate import Gate
from blueflame.model.ids import build_attempt_ref
from blueflame.orchestrator.cleanup import LeftoverKind, find_leftovers
from blueflame.orchestrator.lifecycle import lock_project, open_session, prepare_folders
from blueflame.orchestrator.sessions import open_journal, send_to_inbox
from blueflame.orchestrator.wiring import build_context
from blueflame.session.state import Session
from blueflame.system.clock import SystemClock
from support.sessions import Stage, Watcher, find_stage, git, make_stage, task, writes


def test_paths_with_spaces_and_other_alphabets_work(stage: Stage) -> None:
    name = "src/новый модуль/naïve file.txt"
    stage.play(task(1, locks=[name]), task(2, locks=["src/новый модуль/"]), workers={1: writes(name, "привет")})
    result = stage.run()
    assert result.session.outcome == "completed"
    assert stage.read(name) == "привет\n"
    assert (stage.root / name).read_text() == "привет\n"


def test_locks_that_differ_in_case_only_do_not_run_at_once(stage: Stage) -> None:
    """On file systems where both are one file they would; the order costs little, the mix-up much."""
    stage.reconfigure(limits={"max_retries": 0})
    stage.play(task(1, locks=["src/Readme.txt"]), task(2, locks=["src/README.txt"]))
    result = stage.run({"session": ["stop"]})
    first, second = (e.attempt for e in result.of(AttemptIntended))
    assert [foundation.task for foundation in second.built_on] == [first.subject]
    broken = result.of(AttemptEnded)[-1].ended.violations
    assert {(found.rule, found.path) for found in broken} == {("case_collision", "src/README.txt")}


def test_a_repository_with_submodules_keeps_them_as_they_are(stage: Stage, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    git(library, "commit", "-q", "--allow-empty", "-m", "begin")
    stage.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "vendor/library")
    stage.git("commit", "-q", "-m", "chore(task-000): vendor")
    pinned = stage.git("rev-parse", "HEAD:vendor/library")
    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    assert stage.project().repo.submodules == ("vendor/library",)
    assert stage.run().session.outcome == "completed"
    assert stage.git("rev-parse", "HEAD:vendor/library") == pinned
    assert stage.read("src/1.txt") == "one\n"
    assert stage.git("status", "--porcelain") == ""


def test_a_shallow_clone_is_worked_in(repo: Path, tmp_path: Path) -> None:
    for n in range(3):
        git(repo, "commit", "-q", "--allow-empty", "-m", f"chore(task-000): number {n}")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "мелкий clone")
    stage = make_stage(tmp_path / "мелкий clone")
    stage.play(task(1), task(2, after=[1]), workers={1: writes("src/1.txt", "one")})
    assert stage.project().repo.shallow
    assert stage.run().session.outcome == "completed"
    assert stage.read("src/1.txt") == "one\n"
    assert stage.git("rev-list", "--count", "main").strip() < "9"


def test_a_linked_worktree_can_be_the_persons_checkout(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "-b", "elsewhere")
    git(repo, "worktree", "add", "-q", str(tmp_path / "связанный tree"), "main")
    stage = make_stage(tmp_path / "связанный tree")
    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    assert stage.run().session.outcome == "completed"
    assert (stage.root / "src/1.txt").read_text() == "one\n"
    assert stage.git("status", "--porcelain") == ""
    assert git(repo, "status", "--porcelain") == ""


def test_a_base_branch_of_another_name_is_used(repo: Path) -> None:
    git(repo, "branch", "-m", "main", "релиз/2.0")
    stage = make_stage(repo, project={"name": "sample", "repo": ".", "base_branch": "релиз/2.0"})
    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    assert stage.run().session.outcome == "completed"
    assert stage.read("src/1.txt", "релиз/2.0") == "one\n"


def test_checkouts_and_the_tasks_file_may_lie_elsewhere(repo: Path, tmp_path: Path) -> None:
    project = {"name": "sample", "repo": ".", "worktree_dir": "../деревья", "tasks_file": "notes/tasks.yaml"}
    stage = make_stage(repo, project=project)
    stage.play(task(1), workers={1: {"1": "crasher"}})
    assert stage.run().session.outcome == "completed"
    assert [path.name for path in (tmp_path / "деревья").iterdir() if not path.name.startswith(".")]
    assert (repo / "notes/tasks.yaml").is_file()
    assert not (repo / ".trees").exists()
    assert stage.git("status", "--porcelain") == ""
    assert stage.run().session.outcome == "completed", "what we wrote does not stop the next session"


@pytest.mark.parametrize("how", ["bare", "no repository", "unborn", "no such base"])
def test_places_where_no_session_can_run_are_refused(tmp_path: Path, how: str) -> None:
    root = tmp_path / "место"
    root.mkdir()
    if how != "no repository":
        git(root, "init", "-q", *(["--bare"] if how == "bare" else ["-b", "trunk"]))
    if how == "no such base":
        git(root, "commit", "-q", "--allow-empty", "-m", "begin")
    stage = Stage(root=root, script=tmp_path / "s.yaml", config=root / "blueflame.yaml")
    stage.configure()
    with pytest.raises(Refused) as error:
        stage.project().check()
    assert str(root) in str(error.value)
    assert not (root / ".blueflame").exists()


def test_our_folders_never_show_in_git_status_while_agents_work(stage: Stage) -> None:
    seen: list[str] = []

    def look(_gate: object, _session: object) -> str:
        seen.append(stage.git("status", "--porcelain", "--untracked-files=all"))
        return "approve"

    stage.play(task(1), workers={1: {"1": "crasher"}})
    stage.run({"plan": [look], "changeset": [look]})
    assert seen == ["", ""]
    assert (stage.root / ".blueflame/journal.db").exists()
    assert list((stage.root / ".trees").glob("worker-*"))
    exclude = (stage.root / ".git/info/exclude").read_text()
    prepare_folders(stage.project())
    assert (stage.root / ".git/info/exclude").read_text() == exclude, "written once"


def test_a_base_branch_that_is_deleted_is_asked_about_by_its_name(stage: Stage) -> None:
    stage.git("checkout", "-q", "--detach")

    def delete(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, ChangesetsFormed):
            stage.git("branch", "-m", "main", "trunk")

    def restore(gate: Gate, _session: Session) -> str:
        assert "base branch main no longer exists" in gate.title
        assert [option.name for option in gate.options] == ["retry", "stop"]
        stage.git("branch", "-m", "trunk", "main")
        return "retry"

    stage.play(task(1))
    result = stage.run({"base": [restore]}, observers=[Watcher(delete)])
    assert result.session.outcome == "completed"
    assert "src/1.txt" in stage.files()


def test_a_base_branch_that_was_restored_before_a_resume_is_not_asked_about_again(stage: Stage) -> None:
    """Also without a person to answer: a resume looks again."""
    stage.git("checkout", "-q", "--detach")

    def delete(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, ChangesetsFormed):
            stage.git("branch", "-m", "main", "trunk")

    stage.play(task(1))
    stopped = stage.run({"base": ["stop"]}, observers=[Watcher(delete)])
    assert stopped.session.outcome == ""
    stage.git("branch", "-m", "trunk", "main")
    assert stage.resume().session.outcome == "completed"


@pytest.mark.parametrize("choice", ["retry", "use"])
def test_a_base_branch_that_is_replaced_is_asked_about(stage: Stage, choice: str) -> None:
    old = stage.head()
    other = stage.git("commit-tree", "-p", "main~1", "-m", "chore(task-000): another history", "main^{tree}").strip()
    stage.git("checkout", "-q", "--detach")

    def replace_it(gate: Gate, _session: Session) -> str:
        stage.git("branch", "-f", "main", other)
        return "approve"

    def answer(gate: Gate, _session: Session) -> str:
        assert f"main was replaced: {other[:12]} does not contain {old[:12]}" in gate.title
        if choice == "retry":
            stage.git("branch", "-f", "main", old)
        return choice

    stage.play(task(1))
    result = stage.run({"changeset": [replace_it], "base": [answer]})
    assert result.session.outcome == "completed"
    assert ("another history" in stage.git("log", "--format=%s", "main")) == (choice == "use")


@pytest.mark.parametrize("mode", ["merge", "squash", "fast-forward"])
def test_what_a_person_takes_off_the_base_comes_back_with_what_builds_on_it(stage: Stage, mode: str) -> None:
    def take_off(_gate: Gate, session: Session) -> str:
        if len(session.landings) == 1 and not session.taken_off:
            stage.git("reset", "-q", "--hard", before)
        return "approve"

    def answer(gate: Gate, _session: Session) -> str:
        assert gate.title.endswith("What had landed is not in it: cs-001.")
        return "use"

    before = stage.head()
    stage.reconfigure(landing={"mode": mode}, planning={"workflow": "flow"})
    stage.play(
        task(1, cohesion_group="one"),
        task(2, after=[1], cohesion_group="two"),
        workers={1: writes("src/1.txt", "one"), 2: writes("src/2.txt", "two")},
    )
    result = stage.run({"changeset": [take_off] * 9, "base": [answer]})
    states = [record.state.value for record in result.session.changesets.values()]
    assert (result.session.outcome, states) == ("completed", ["undone", "landed"])
    assert [stage.read(f"src/{n}.txt") for n in (1, 2)] == ["one\n", "two\n"]


def test_an_older_copy_of_the_repository_is_asked_about(stage: Stage, tmp_path: Path) -> None:
    """What had landed is not in it: a person goes on without, and the summary says so."""
    repository, older = stage.root / ".git", tmp_path / "older"

    def keep_copy(_gate: Gate, _session: Session) -> str:
        if not older.exists():
            shutil.copytree(repository, older)
        return "approve"

    stage.reconfigure(planning={"workflow": "flow"})
    stage.play(task(1, cohesion_group="one"), task(2, after=[1], cohesion_group="two"))
    stage.run({"changeset": [keep_copy] * 2}, until=lambda session: bool(session.landings))
    shutil.rmtree(repository)
    shutil.copytree(older, repository)
    stage.git("reset", "-q", "--hard")
    stage.git("clean", "-fdq", "src")

    resumed = stage.resume({"base": ["use"], "session": ["continue"]})

    assert resumed.session.outcome == "completed"
    assert resumed.session.changesets["cs-001"].state.value == "undone"
    assert resumed.session.changesets["cs-001"].note == "no longer on main, which was replaced"
    assert {record.retries for record in resumed.session.tasks.values()} == {0}


ROT = "tr 'a-y' 'b-z'", "tr 'b-z' 'a-y'"  # a filter as Git LFS is one: what git stores is not what the file has


@pytest.fixture
def filtered(stage: Stage) -> Stage:
    clean, smudge = ROT
    stage.git("config", "filter.rot.clean", clean)
    stage.git("config", "filter.rot.smudge", smudge)
    stage.git("config", "filter.rot.required", "true")
    stage.commit(".gitattributes", "*.dat filter=rot\n")
    stage.commit("src/old.dat", "abc\n")
    assert stage.read("src/old.dat") == "bcd\n"
    return stage


def test_other_files_land_beside_filtered_ones_and_the_checkout_stays_clean(filtered: Stage) -> None:
    filtered.play(task(1), task(2))
    result = filtered.run()
    assert result.session.outcome == "completed"
    assert filtered.git("status", "--porcelain") == ""
    assert (filtered.root / "src/old.dat").read_text() == "abc\n"


def test_a_result_that_changes_a_filtered_file_is_refused(filtered: Stage) -> None:
    filtered.reconfigure(limits={"max_retries": 0})
    filtered.play(task(1, locks=["src/old.dat"]), workers={1: writes("src/old.dat", "xyz")})
    result = filtered.run({"session": ["stop"]})
    (ended,) = (each.ended for each in result.of(AttemptEnded) if "worker" in each.attempt)
    assert [str(violation) for violation in ended.violations] == [
        "filtered_path: src/old.dat (git stores it through the filter rot, which agents do not have)"
    ]
    assert filtered.git("status", "--porcelain") == ""


def test_a_new_file_that_git_filters_is_held_until_the_filter_is_off_for_it(filtered: Stage) -> None:
    filtered.reconfigure(limits={"max_retries": 0})
    filtered.play(task(1, locks=["src/new.dat"]), workers={1: writes("src/new.dat", "xyz")})

    def turn_off(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, EnvironmentFailed):
            (filtered.root / ".git/info/attributes").write_text('"src/new.dat" -filter\n')

    result = filtered.run(observers=[Watcher(turn_off)])
    (problem,) = result.of(EnvironmentFailed)
    assert (problem.cause, "'\"src/new.dat\" -filter'" in problem.reason) == ("filter", True)
    assert (filtered.read("src/new.dat"), filtered.git("status", "--porcelain")) == ("xyz\n", "")


def test_a_held_result_can_be_killed_and_keeps_its_commits(filtered: Stage) -> None:
    filtered.play(task(1, locks=["src/new.dat"]), workers={1: writes("src/new.dat", "xyz")})

    def kill(session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, EnvironmentFailed):
            send_to_inbox(filtered.project(), session.id, "kill", {"agent": "task-001", "reason": "enough"})

    result = filtered.run({"session": ["stop"]}, observers=[Watcher(kill)])
    (ended,) = (each.ended for each in result.of(AttemptEnded))
    assert ended.ending is Ending.CANCELLED
    assert ended.notes.startswith("enough; its result could not be read: git stores src/new.dat")
    assert result.states == {"task-001": "requeued"}
    kept = build_attempt_ref(result.session.id, "task-001", 1, "worker")
    assert filtered.read("src/new.dat", kept) == "xyz\n"


def test_no_changeset_lands_through_a_filter_that_came_after_its_attempts(stage: Stage) -> None:
    """A file that lands without its filter stays changed in the person's checkout, and nothing could land after it."""

    def filter_all(_gate: Gate, _session: Session) -> str:
        stage.git("config", "filter.rot.clean", "sed s/one/pointer/")
        (stage.root / ".git/info/attributes").write_text("*.txt filter=rot\n")
        return "approve"

    def turn_off(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, EnvironmentFailed):
            (stage.root / ".git/info/attributes").unlink()

    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    result = stage.run({"changeset": [filter_all]}, observers=[Watcher(turn_off)])
    assert [(each.act, each.cause) for each in result.of(EnvironmentFailed)] == [("landing of cs-001", "filter")]
    assert (result.session.outcome, stage.read("src/1.txt")) == ("completed", "one\n")


def test_a_filter_that_came_after_a_session_was_opened_is_not_known_to_it(stage: Stage) -> None:
    """Also after a resume: an agent is blamed only for a filter that was there before it."""
    stage.play(task(1))
    with lock_project(stage.project()) as journal:
        session = open_session(stage.project(), journal, request="do it", tasks=parse_tasks({"tasks": [task(1)]}))
    stage.git("config", "filter.rot.clean", "cat")
    assert build_context(stage.project(), session, script=stage.script).filters == ()
    session.filters = None  # of a version that recorded none
    assert build_context(stage.project(), session, script=stage.script).filters == ("rot",)


def test_sessions_of_two_worktrees_share_no_ids_and_no_cleanup(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worktree has a journal of its own, and all have the same refs."""
    stage.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "their tree"))
    their = find_stage(tmp_path / "their tree")
    with monkeypatch.context() as patch:
        patch.setattr(SystemClock, "now", lambda _clock: 1_800_000_000.0)
        theirs, ours = _open_session(their), _open_session(stage)
    assert ours == f"{theirs}-2"

    stage.git("update-ref", f"refs/blueflame/bases/{theirs}/task-001/work/1", "main")
    stage.git("update-ref", f"refs/blueflame/bases/{ours}-gone/task-001/work/1", "main")
    with open_journal(stage.project()) as journal:
        project = stage.project()
        found = find_leftovers(project.repo, project.paths, journal, now=time.time(), max_age=0, at_work=False)
    assert [each.session for each in found if each.kind is LeftoverKind.REF] == [f"{ours}-gone"]


def test_a_damaged_journal_of_another_worktree_keeps_refs_and_stops_no_session(stage: Stage, tmp_path: Path) -> None:
    stage.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "their tree"))
    damaged = tmp_path / "their tree" / ".blueflame" / "journal.db"
    damaged.parent.mkdir()
    damaged.write_text("not a journal")
    _open_session(stage)
    project = stage.project()
    with open_journal(project) as journal, pytest.raises(JournalError, match="not a journal"):
        find_leftovers(project.repo, project.paths, journal, now=time.time(), max_age=0, at_work=False)


def _open_session(stage: Stage) -> str:
    project = stage.project()
    with lock_project(project) as journal:
        return open_session(project, journal, request="Make it better").id
