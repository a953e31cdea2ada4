"""What sessions leave behind: listed by doctor, taken away by cleanup, and never a commit that is nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from blueflame.orchestrator.cleanup import Leftover, LeftoverKind, remove_leftovers
from blueflame.orchestrator.project import open_project
from support.command_line import YES, Said, configure, found_in, here, task, write
from support.repositories import make_repository, run_git
from support.snapshots import Snapshots

pytestmark = pytest.mark.usefixtures("guards_are_known")

REJECT: Mapping[str, Any] = {"changeset": [{"choose": "reject", "reason": "нет"}], "session": ["stop"]}


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


@pytest.fixture
def landed(snapshots: Snapshots, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a session whose work has landed."""
    return open_played("upkeep landed", YES, snapshots, capsys, monkeypatch)


@pytest.fixture
def rejected(snapshots: Snapshots, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a session whose work was rejected."""
    return open_played("upkeep rejected", REJECT, snapshots, capsys, monkeypatch)


def open_played(
    name: str,
    decisions: Mapping[str, Any],
    snapshots: Snapshots,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    def build(folder: Path) -> None:
        root = make_repository(folder / "мой repo")
        configure(root)
        monkeypatch.chdir(root)
        assert play(root, capsys, decisions).json["outcome"]

    root = snapshots.open(name, build) / "мой repo"
    monkeypatch.chdir(root)
    return root


def play(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    decisions: Mapping[str, Any] = YES,
    *more: object,
) -> Said:
    answers = write(project.parent / "решения.yaml", decisions)
    return here(capsys, "run", "--task", "Добавь", "-w", "direct", "--decisions-file", answers, "--json", *more)


def kept_refs(project: Path) -> list[str]:
    return run_git(project, "for-each-ref", "--format=%(refname)", "refs/blueflame").splitlines()


def test_refs_of_landed_work_are_removed_and_its_commits_stay(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = found_in(landed)["session"]
    assert kept_refs(landed)
    rehearsed = here(capsys, "cleanup", "--dry-run", "--json").json
    assert rehearsed["dry_run"]
    assert {each["kind"] for each in rehearsed["removed"]} == {"ref"}
    assert {each["session"] for each in rehearsed["removed"]} == {name}
    assert kept_refs(landed) == sorted(each["name"] for each in rehearsed["removed"])
    said = here(capsys, "cleanup")
    assert said.code == 0
    assert said.out.splitlines()[0].startswith(f"removed  {name}  ")
    assert kept_refs(landed) == []
    assert "Добавь" in run_git(landed, "log", "-1", "--format=%s", "main")
    assert here(capsys, "cleanup").out == "nothing to clean up\n"
    assert found_in(landed)["outcome"] == "completed"  # the journal stays


def test_commits_that_are_on_no_branch_are_kept_until_a_person_says_otherwise(
    rejected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = found_in(rejected)["tasks"][0]["commit"]
    assert commit is None  # the task has none any more, but the work is not lost
    (ref,) = [each for each in kept_refs(rejected) if "/attempts/" in each]
    sha = run_git(rejected, "rev-parse", ref).strip()
    said = here(capsys, "cleanup", "--json")
    assert [each["name"] for each in said.json["kept"]] == [ref]
    assert kept_refs(rejected) == [ref]
    shown = here(capsys, "cleanup", "--verbose").out
    assert ref in shown
    assert "--drop-unmerged" in shown
    assert here(capsys, "cleanup", "--drop-unmerged", "--dry-run").out.startswith("would remove")
    assert kept_refs(rejected) == [ref]
    assert here(capsys, "cleanup", "--drop-unmerged").code == 0
    assert kept_refs(rejected) == []
    assert run_git(rejected, "cat-file", "-t", sha) == "commit\n"  # git keeps it until it collects garbage


def test_commits_that_the_person_put_on_a_branch_are_not_unmerged(
    rejected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (ref,) = [each for each in kept_refs(rejected) if "/attempts/" in each]
    run_git(rejected, "branch", "спасено", ref)
    said = here(capsys, "cleanup", "--json").json
    assert said["kept"] == []
    assert kept_refs(rejected) == []
    assert run_git(rejected, "log", "-1", "--format=%s", "спасено")


def test_an_unfinished_session_keeps_everything(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert play(project, capsys, {"session": ["stop"]}).code == 7
    before = kept_refs(project)
    assert before
    assert here(capsys, "cleanup", "--drop-unmerged").out == "nothing to clean up\n"
    assert kept_refs(project) == before
    assert here(capsys, "resume", "--decisions-file", write(project.parent / "да.yaml", YES)).code == 0


def test_what_failed_is_left_to_look_at_and_then_taken_away(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(project, {"limits": {"max_retries": 0}})
    script = write(project.parent / "игра.yaml", {"defaults": {"worker": "crasher"}})
    assert play(project, capsys, {"session": ["stop"]}, "--script", script).code == 1
    (checkout,) = [path for path in (project / ".trees").iterdir() if path.is_dir() and path.name != ".git"]
    findings = {each["name"]: each for each in here(capsys, "doctor", "--json").json["findings"]}
    assert findings["left behind"]["state"] == "warning"
    assert "blueflame cleanup" in findings["left behind"]["details"]
    (removed,) = [each for each in here(capsys, "cleanup", "--json").json["removed"] if each["kind"] == "checkout"]
    assert removed["name"] == checkout.name
    assert removed["bytes"] > 0
    assert not checkout.exists()
    assert "left behind" not in here(capsys, "doctor").out


def test_a_folder_that_blue_flame_did_not_make_is_not_touched(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = landed / ".trees" / "worker-00000000"
    mine.mkdir()
    (mine / "важное.txt").write_text("mine")
    here(capsys, "cleanup", "--drop-unmerged")
    assert (mine / "важное.txt").read_text() == "mine"


def test_old_logs_go_when_they_are_too_old(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = sorted((landed / ".blueflame" / "attempts").iterdir())
    assert folders
    assert {each["kind"] for each in here(capsys, "cleanup", "--json").json["removed"]} == {"ref"}
    configure(landed, {"cleanup": {"log_max_age": "1ms"}})
    kinds = [each["kind"] for each in here(capsys, "cleanup", "--json").json["removed"]]
    assert kinds.count("attempt folder") == len(folders)
    assert list((landed / ".blueflame" / "attempts").iterdir()) == []


def test_the_doctor_does_not_nag_about_landed_work(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "doctor", "--json")
    assert said.code == 0
    assert {each["state"] for each in said.json["findings"]} == {"ok"}
    names = [each["name"] for each in said.json["findings"]]
    assert {"python", "git", "configuration", "repository", "slots", "runtime scripted", "journal"} <= set(names)


def test_the_doctor_finds_what_is_wrong(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = {"claude": {"command": "no-such-claude"}}
    configure(project, {"roles": {"worker": {"runtime": "claude"}}, "runtimes": lost})
    (project / "README.md").write_text("half done")
    said = here(capsys, "doctor")
    assert said.code == 3
    assert "✗  runtime claude" in said.out
    assert "no-such-claude" in said.out
    assert "README.md" in said.out


def test_the_doctor_sees_only_the_machine_outside_of_a_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = here(capsys, "doctor", "--json")
    assert said.code == 3
    states = {each["name"]: each["state"] for each in said.json["findings"]}
    assert states["git"] == "ok"
    assert states["project"] == "bad"
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_session_is_pointed_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write(project.parent / "план.yaml", {"tasks": [task(1)]})
    answers = write(project.parent / "решения.yaml", {"plan": ["approve"]})
    assert here(capsys, "plan", "--plan", plan, "--decisions-file", answers).code == 0
    said = here(capsys, "doctor")
    assert said.code == 0
    assert "unfinished" in said.out
    assert "blueflame resume" in said.out


def test_old_sessions_are_deleted_with_all_that_belongs_to_them(
    landed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = found_in(landed)["session"]
    assert play(landed, capsys, {"session": ["stop"]}).code == 7
    newer = found_in(landed)["session"]
    refs = [ref for ref in kept_refs(landed) if newer in ref]
    rehearsed = here(capsys, "cleanup", "--older-than", "0s", "--dry-run", "--json").json
    assert [each["name"] for each in rehearsed["removed"] if each["kind"] == "session"] == [name]
    assert here(capsys, "cleanup", "--older-than", "90d", "--json").json["kept"] == []
    assert [each["session"] for each in here(capsys, "sessions", "--json").json["sessions"]] == [newer, name]
    assert here(capsys, "cleanup", "--older-than", "1ms").code == 0
    assert [each["session"] for each in here(capsys, "sessions", "--json").json["sessions"]] == [newer]
    state = landed / ".blueflame"
    assert [path for path in (*state.glob("attempts/*"), *state.glob("logs/*")) if name in path.name] == []
    assert kept_refs(landed) == refs
    assert here(capsys, "resume", "--decisions-file", write(landed.parent / "да.yaml", YES)).code == 0


def test_a_session_with_commits_on_no_branch_is_not_deleted_unless_they_are(
    rejected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = found_in(rejected)["session"]
    kept = here(capsys, "cleanup", "--older-than", "1ms", "--json").json["kept"]
    assert {each["kind"] for each in kept} == {"unmerged ref", "session"}
    assert found_in(rejected)["session"] == name
    assert here(capsys, "cleanup", "--older-than", "1ms", "--drop-unmerged").code == 0
    assert "there is no session yet" in here(capsys, "status").err


def test_an_age_that_is_no_duration_is_refused(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "cleanup", "--older-than", "a while")
    assert said.code == 2
    assert "duration" in said.err
    assert found_in(landed)["outcome"] == "completed"


def test_spare_checkouts_of_a_large_repository_are_removed(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spare = landed / ".trees" / ".spares" / "0123456789abcdef" / "one"
    spare.mkdir(parents=True)
    (spare / "file").write_text("x" * 100)
    removed = here(capsys, "cleanup", "--json").json["removed"]
    assert [each["bytes"] > 0 for each in removed if each["kind"] == "spare checkouts"] == [True]
    assert not (landed / ".trees" / ".spares").exists()


def test_cleanups_at_the_same_moment_remove_the_same_folder(project: Path) -> None:
    folder, repo = project / "attempt", open_project().repo
    (folder / "inside").mkdir(parents=True)
    for n in range(500):
        (folder / "inside" / str(n)).touch()
    found = [Leftover(kind=LeftoverKind.FOLDER, name=folder.name, path=folder)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: remove_leftovers(repo, found), range(4)))
    assert not folder.exists()


def test_a_lock_that_a_killed_cleanup_left_is_removed(project: Path) -> None:
    repo = open_project(project / "blueflame.yaml").repo
    name = "refs/blueflame/attempts/ses-1/task-001/worker/1"
    run_git(project, "update-ref", name, "HEAD")
    lock = project / ".git" / "packed-refs.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    remove_leftovers(repo, [Leftover(kind=LeftoverKind.REF, name=name)])
    assert name not in run_git(project, "for-each-ref")
