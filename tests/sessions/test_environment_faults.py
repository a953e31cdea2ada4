"""Real faults of disk, git and locks: no task is blamed, a person is asked once, and a resume finishes the session."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from blueflame.agents import hook
from blueflame.git import command, landing
from blueflame.git import damage as git_damage
from blueflame.git.checkouts import list_checkouts
from blueflame.model.attempt import PLANNER, Ending
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    ChangesetsFormed,
    ChangesetTrimmed,
    Checked,
    EnvironmentFailed,
    JournalEntry,
    PlanFailed,
    VerdictGiven,
)
from blueflame.model.exit_codes import ExitCode
from blueflame.orchestrator import loop
from blueflame.orchestrator.attempts import check_commit, spares
from blueflame.orchestrator.context import SessionContext
from blueflame.session import environment
from blueflame.session.state import Session
from support.disks import fill, immutable, mounted
from support.sessions import SessionRun, Stage, Watcher, git, plan_of, task, writes
from support.wardens import wait_until

pytestmark = pytest.mark.usefixtures("quick_retries")

STOP = {"environment": ["stop"]}
Repair = Callable[[], None]


def at(kind: type, act: Callable[[], None], *, nth: int = 1) -> Watcher:
    """Do it once, right after the nth event of a kind was recorded."""
    seen = 0

    def see(_session: Session, recorded: JournalEntry) -> None:
        nonlocal seen
        if isinstance(recorded.event, kind):
            seen += 1
            if seen == nth:
                act()

    return Watcher(see)


def check_hindered(result: SessionRun, words: str) -> None:
    """The session stopped for the environment, and blamed no one."""
    assert result.session.exit_code is ExitCode.WORLD
    assert result.gates[-1] == "environment"
    assert words in "\n".join(each.reason for each in result.of(EnvironmentFailed))
    assert {record.retries for record in result.session.tasks.values()} <= {0}
    assert not result.session.plan_failures
    assert [ended.ended.ending for ended in result.of(AttemptEnded) if ended.ended.ending is not Ending.PASSED] == []


def check_finished(stage: Stage, *, attempts: int) -> None:
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert set(result.states.values()) == {"merged"}
    assert len(result.of(AttemptIntended)) == attempts, "nothing was paid twice"
    assert result.session.problems == {}


@pytest.mark.parametrize(("min_free", "words"), [(0, "No space left on device"), (2, "the disk is nearly full")])
def test_a_full_disk_under_the_checkouts(stage: Stage, min_free: int, words: str) -> None:
    stage.reconfigure(sandbox={"level": "off", "min_free_disk_mb": min_free})
    stage.play(task(1))
    with mounted(stage.root / ".trees", 16):
        ballast = stage.root / ".trees" / "ballast"

        result = stage.run(STOP, observers=[at(AttemptIntended, lambda: fill(ballast))])
        check_hindered(result, words)
        ballast.unlink()
        check_finished(stage, attempts=1)


def test_damaged_locks_of_people_unlock_nothing_and_end_no_session(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)))
    path = stage.root / ".blueflame" / "locks.json"

    def damage() -> None:
        path.write_text('{"ada": "src"}')

    result = stage.run(STOP, observers=[at(AttemptEnded, damage)])
    check_hindered(result, f"{path} is damaged, so no new task starts: correct it")
    assert set(result.states.values()) == {"pending"}
    path.unlink()
    check_finished(stage, attempts=2)


@pytest.fixture
def as_a_file(stage: Stage) -> Callable[[Path], Repair]:
    """Put a file where a folder must be: what a read-only folder is for others, it is for root as well."""

    def block(place: Path) -> Repair:
        aside = place.with_name(f"{place.name}.aside")
        if place.exists():
            place.rename(aside)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("in the way\n")

        def repair() -> None:
            place.unlink()
            if aside.exists():
                aside.rename(place)

        return repair

    return block


@pytest.mark.parametrize("nth", [1, 2], ids=["before the planner", "before the worker"])
def test_refs_of_ours_that_cannot_be_written(stage: Stage, as_a_file: Callable[[Path], Repair], nth: int) -> None:
    stage.play(planner=plan_of(task(1)))
    repairs: list[Repair] = []
    place = stage.root / ".git" / "refs" / "blueflame"
    result = stage.run(STOP, observers=[at(AttemptIntended, lambda: repairs.append(as_a_file(place)), nth=nth)])
    check_hindered(result, "refs/blueflame")
    repairs[0]()
    check_finished(stage, attempts=2)


def test_a_result_that_cannot_be_fetched_is_fetched_later_and_its_agent_is_not_asked_again(
    stage: Stage, as_a_file: Callable[[Path], Repair]
) -> None:
    """The agent has worked and was paid."""
    stage.play(task(1))
    repairs: list[Repair] = []
    place = stage.root / ".git" / "refs" / "blueflame" / "attempts"
    result = stage.run(STOP, observers=[at(AttemptStarted, lambda: repairs.append(as_a_file(place)))])
    check_hindered(result, "refs/blueflame/attempts")
    repairs[0]()
    check_finished(stage, attempts=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_git_folder(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)))
    inside = stage.root / ".git"

    def change(mode: str) -> None:
        subprocess.run(["chmod", "-R", mode, str(inside)], check=True)

    result = stage.run(STOP, observers=[at(AttemptIntended, lambda: change("a-w"))])
    check_hindered(result, "unable to create")
    change("u+w")
    check_finished(stage, attempts=2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_checkout_folder_without_permissions(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)))
    trees = stage.root / ".trees"
    result = stage.run(STOP, observers=[at(AttemptIntended, lambda: trees.chmod(0o500))])
    check_hindered(result, "denied")
    trees.chmod(0o700)
    check_finished(stage, attempts=2)


def test_a_git_that_is_killed_again_and_again(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the kernel, when memory is used up."""
    stage.play(task(1))
    real, folder = shutil.which("git"), tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\ncase "$*" in *" checkout "*) kill -9 $$;; esac\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        check_hindered(stage.run(STOP), "killed by signal 9")
    check_finished(stage, attempts=1)


@pytest.mark.parametrize("failing", ["pack-objects", "unpack-objects", "diff-tree"])
def test_a_git_that_cannot_read_results_blames_no_agent(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """A wrapper, or a setting of one command: it fails in words that no one knows, for a commit of ours as well."""
    stage.play(task(1))
    failed, folder = tmp_path / "failed", _put_failing_git(tmp_path, failing)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        check_hindered(stage.run(STOP), "fatal: not today; git fails for a commit of ours, too: run 'git version'")
    assert failed.exists()
    check_finished(stage, attempts=1)
    assert git(stage.root, "for-each-ref", "refs/blueflame/**/*-probe") == ""
    assert not list((stage.root / ".trees").glob(".*.fetch"))


def test_a_git_that_fails_once_blames_no_agent(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.play(task(1))
    failed = tmp_path / "failed"
    folder = _put_failing_git(tmp_path, "unpack-objects", unless=f"[ -e {failed} ]")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    result = stage.run(STOP)
    assert failed.exists()
    assert result.session.outcome == "completed"
    assert [ended.ended.ending for ended in result.of(AttemptEnded)] == [Ending.PASSED]


@pytest.mark.parametrize("times", range(1, 7))
def test_a_git_that_fails_some_times_blames_no_agent_whenever_it_is_repaired(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """As while the owner of the repository is another one. After two failures it worked again for our own commit."""
    ended, calls = tmp_path / "ended", tmp_path / "calls"
    stage.play(task(1), workers={1: [*writes("src/1.txt", "one"), {"run": f"touch '{ended}'"}]})
    repaired = f"[ ! -e '{ended}' ] || {{ echo >> '{calls}'; [ $(wc -l < '{calls}') -gt {times} ]; }}"
    folder = _put_failing_git(tmp_path, "", unless=repaired)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    result = stage.run(STOP)
    assert result.session.outcome == "completed"
    assert [ended.ended.ending for ended in result.of(AttemptEnded)] == [Ending.PASSED]


def _put_failing_git(tmp_path: Path, command: str, *, unless: str = "false") -> Path:
    real, folder = shutil.which("git"), tmp_path / "bin"
    folder.mkdir()
    fail = f"touch {tmp_path}/failed; echo 'fatal: not today' >&2; exit 128"
    name = command and f" {command} "
    wrapper = f'#!/bin/sh\ncase " $* " in *"{name}"*) {unless} || {{ {fail}; }};; esac\nexec {real} "$@"\n'
    (folder / "git").write_text(wrapper)
    (folder / "git").chmod(0o755)
    return folder


def test_a_lock_that_a_killed_git_left_is_removed_before_the_next_try(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a person: it is some seconds old, ours, and open in no process."""
    stage.play(task(1))
    lock = stage.root / ".git" / "refs" / "heads" / "main.lock"

    def leave(_gate: object, _session: Session) -> str:
        lock.touch()
        os.utime(lock, (time.time() - 60, time.time() - 60))
        return "approve"

    hurried = {name: value.replace("10000", "10") for name, value in command.SETTING_VARIABLES.items()}
    monkeypatch.setattr(command, "SETTING_VARIABLES", hurried)
    result = stage.run({"changeset": [leave]})
    assert result.session.outcome == "completed"
    assert [each.act for each in result.of(EnvironmentFailed)] == ["landing of cs-001"]
    assert not lock.exists()


def test_a_lock_of_the_index_that_was_left_defers_no_work(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left by a git of the person's that was killed: the landing is tried again, and it is removed before."""
    monkeypatch.setattr(landing, "INDEX_WAIT_SECONDS", 0.05)
    stage.play(task(1))
    lock = stage.root / ".git" / "index.lock"

    def leave(_gate: object, _session: Session) -> str:
        lock.touch()
        os.utime(lock, (time.time() - 60, time.time() - 60))
        return "approve"

    result = stage.run({"changeset": [leave]})

    assert result.session.outcome == "completed"
    assert [(each.act, each.cause) for each in result.of(EnvironmentFailed)] == [("landing of cs-001", "lock")]
    assert not lock.exists()


def test_an_agent_that_fails_while_git_does_is_not_blamed(stage: Stage, tmp_path: Path) -> None:
    """Its checkout borrows our objects: while they are gone it cannot commit, and we cannot fetch."""
    away, begun = tmp_path / "away", tmp_path / "begun"
    wait = {"run": f"touch '{begun}'; while [ ! -e '{away}' ]; do sleep 0.02; done"}
    stage.play(task(1), workers={1: {"1": [wait, *writes("src/1.txt", "one")], "*": writes("src/1.txt", "one")}})

    def move(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptStarted) and recorded.event.attempt.endswith(".worker.1"):
            wait_until(begun.exists, "the agent is at work")
            (stage.root / ".git").rename(away)
        if isinstance(recorded.event, EnvironmentFailed) and away.exists():
            away.rename(stage.root / ".git")

    result = stage.run(observers=[Watcher(move)])

    assert [each.ended.ending for each in result.of(AttemptEnded)] == [Ending.LOST, Ending.PASSED]
    assert result.session.tasks["task-001"].retries == 0
    assert result.session.outcome == "completed"


def find_object(stage: Stage, name: str) -> Path:
    sha = git(stage.root, "rev-parse", name).strip()
    return stage.root / ".git" / "objects" / sha[:2] / sha[2:]


@pytest.mark.parametrize("name", ["main^{tree}", "main:README.md"], ids=["tree", "file"])
def test_an_agent_whose_git_fails_by_a_damaged_object_is_not_blamed(stage: Stage, name: str) -> None:
    place = find_object(stage, name)
    content = place.read_bytes()
    place.chmod(0o644)
    damage = [{"run": f": > '{place}'"}, {"run": "git cat-file -p HEAD:README.md && git commit --allow-empty -m x"}]
    stage.play(task(1), workers={1: {"1": damage, "*": writes("src/1.txt", "one")}})

    result = stage.run(STOP)

    assert result.session.exit_code is ExitCode.WORLD
    assert result.gates[-1] == "environment"
    assert [each.ended.ending for each in result.of(AttemptEnded)] == [Ending.ENVIRONMENT]
    problems = result.of(EnvironmentFailed)
    assert {each.cause for each in problems} <= {"damage", "git"}
    assert place.name in problems[0].reason
    assert "run 'git fsck'" in problems[0].reason
    place.write_bytes(content)
    resumed = stage.resume()
    assert resumed.session.outcome == "completed"
    assert resumed.session.tasks["task-001"].retries == 0


def test_an_agent_whose_git_lacks_an_old_object_of_a_large_repository_is_not_blamed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_damage, "MAX_WHOLE_BYTES", 0)
    monkeypatch.setattr(git_damage, "CHECKED_ANCESTORS", 1)
    stage.commit("src/old.txt", "old\n")
    old = find_object(stage, "main:src/old.txt")
    stage.git("rm", "-q", "src/old.txt")
    stage.commit("src/new.txt", "new\n")
    old.unlink()
    stage.play(task(1), workers={1: {"1": [{"run": "git log -p"}], "*": writes("src/1.txt", "one")}})

    result = stage.run()

    assert [each.ended.ending for each in result.of(AttemptEnded)] == [Ending.ENVIRONMENT, Ending.PASSED]
    assert old.name in result.of(EnvironmentFailed)[0].reason


OWN_OBJECT = hashlib.sha1(b"blob 4\0one\n", usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("place", ["index", f"objects/{OWN_OBJECT[:2]}/{OWN_OBJECT[2:]}"], ids=["its git", "our fetch"])
def test_an_agent_whose_own_checkout_is_damaged_is_not_blamed(stage: Stage, place: str) -> None:
    damage = f"python3 -c \"import os; os.chmod('.git/{place}', 0o644); open('.git/{place}', 'w').write('?')\""
    begun = [] if place == "index" else writes("src/1.txt", "one")
    ways = [*begun, {"run": damage}, *([] if begun else [{"run": "git status"}])]
    stage.play(task(1), workers={1: {"1": ways, "*": writes("src/1.txt", "one")}})

    result = stage.run()

    assert [each.ended.ending for each in result.of(AttemptEnded)] == [Ending.ENVIRONMENT, Ending.PASSED]
    (problem,) = result.of(EnvironmentFailed)
    assert (problem.cause, problem.reason.startswith("the checkout ")) == ("damage", True)
    assert result.session.tasks["task-001"].retries == 0
    assert result.session.outcome == "completed"


def test_a_result_that_damage_hides_is_read_after_the_repair(stage: Stage) -> None:
    """The agent has done its work: nothing is paid twice."""
    place = find_object(stage, "main^{tree}")
    content = place.read_bytes()
    place.chmod(0o644)
    stage.play(task(1), workers={1: [*writes("src/1.txt", "one"), {"run": f": > '{place}'"}]})

    result = stage.run(STOP)

    check_hindered(result, place.name)
    place.write_bytes(content)
    check_finished(stage, attempts=1)


def test_a_removed_audit_log_loses_the_attempt_and_blames_no_one(stage: Stage) -> None:
    stage.play(task(1))

    def remove() -> None:
        shutil.rmtree(stage.root / ".blueflame" / "logs")

    result = stage.run(observers=[at(AttemptStarted, remove)])

    endings = [each.ended.ending for each in result.of(AttemptEnded)]
    assert endings in ([Ending.LOST, Ending.PASSED], [Ending.PASSED]), "it may have been removed before the first call"
    assert {record.retries for record in result.session.tasks.values()} == {0}
    assert result.session.outcome == "completed"


def test_an_agent_whose_hook_was_installed_again_is_not_blamed_and_its_work_not_continued(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "agents"
    package.mkdir()
    shutil.copy(hook.find_hook(), package)
    monkeypatch.setattr(hook, "__file__", str(package / "hook.py"))
    go = tmp_path / "go"
    wait = {"run": f"while [ ! -e {shlex.quote(str(go))} ]; do sleep 0.01; done", "rogue": "unasked"}
    work = writes("src/1.txt", "one")
    stage.play(task(1), workers={1: {"1": [wait, *work], "*": work}})

    def replace() -> None:
        package.rename(tmp_path / "aside")
        shutil.copytree(tmp_path / "aside", package)
        go.touch()

    result = stage.run(observers=[at(AttemptStarted, replace)])

    endings = [each.ended for each in result.of(AttemptEnded)]
    assert [each.ending for each in endings] == [Ending.LOST, Ending.PASSED]
    assert "installed again" in endings[0].notes
    assert endings[0].tip is None
    assert result.session.tasks["task-001"].retries == 0


def test_a_planner_that_is_lost_has_not_failed(stage: Stage) -> None:
    stage.play(planner=plan_of(task(1)))
    logs = stage.root / ".blueflame" / "logs"

    def remove() -> None:
        wait_until(lambda: any("StructuredOutput" in log.read_text() for log in logs.glob("planner-*")), "it has ended")
        shutil.rmtree(logs)

    result = stage.run(observers=[at(AttemptStarted, remove)])

    assert [each.ended.ending for each in result.of(AttemptEnded)][:2] == [Ending.LOST, Ending.PASSED]
    assert result.of(PlanFailed) == []
    assert result.session.outcome == "completed"


def test_a_repository_that_was_moved_away(stage: Stage, tmp_path: Path) -> None:
    """Everything fails; when it is back, the session goes on."""
    stage.play(task(1))
    away = tmp_path / "away"

    def move() -> None:
        (stage.root / ".git").rename(away)

    result = stage.run(STOP, observers=[at(AttemptIntended, move)])
    check_hindered(result, ".git")
    away.rename(stage.root / ".git")
    check_finished(stage, attempts=1)


def test_pruned_objects_blame_no_task(stage: Stage) -> None:
    """What a task was to start from is gone."""
    stage.play(task(1))
    objects, aside = stage.root / ".git" / "objects", stage.root / ".git" / "objects.aside"

    def prune() -> None:
        objects.rename(aside)
        for name in ("info", "pack"):
            (objects / name).mkdir(parents=True)

    result = stage.run(STOP, observers=[at(AttemptIntended, prune)])
    check_hindered(result, "git")
    shutil.rmtree(objects)
    aside.rename(objects)
    check_finished(stage, attempts=1)


def test_a_landing_that_cannot_move_the_branch_is_tried_again(stage: Stage) -> None:
    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    git(stage.root, "pack-refs", "--all")
    block = stage.root / ".git" / "refs" / "heads" / "main" / "in the way"

    def block_and_approve(_gate: object, _session: Session) -> str:
        block.parent.mkdir()
        block.touch()
        return "approve"

    result = stage.run({**STOP, "changeset": [block_and_approve]})
    check_hindered(result, "main")
    assert result.states == {"task-001": "validated"}
    block.unlink()
    block.parent.rmdir()
    check_finished(stage, attempts=1)


def test_a_checkout_that_could_not_be_removed_is_removed_at_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CLEAR_PAUSE_SECONDS", 0.0)
    stage.play(task(1))
    with ExitStack() as locks:

        def lock() -> None:
            (checkout,) = list_checkouts(stage.root / ".trees")
            locks.enter_context(immutable(checkout))

        def unlock(_gate: object, _session: Session) -> str:
            assert list_checkouts(stage.root / ".trees")
            locks.close()
            return "approve"

        result = stage.run({"changeset": [unlock]}, observers=[at(AttemptEnded, lock)])
    assert result.session.outcome == "completed"
    assert not list_checkouts(stage.root / ".trees")


def test_a_finished_reviewer_is_not_blamed_when_we_are_killed_before_its_checkout_is_gone(stage: Stage) -> None:
    """Its end is recorded before anything of it is removed; the next orchestrator removes the rest."""
    stage.play(planner=plan_of(task(1)))

    class Killed(BaseException):
        pass

    def kill(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptEnded) and f".{PLANNER}." in recorded.event.attempt:
            raise Killed

    with pytest.raises(Killed):
        stage.run(observers=[Watcher(kill)])
    assert list((stage.root / ".trees").glob("planner-*")), "nothing was removed yet"
    result = stage.resume()
    assert result.session.outcome == "completed"
    assert len(result.of(AttemptIntended)) == 2
    assert [path.name for path in (stage.root / ".trees").iterdir()] == [".git"]


@pytest.mark.parametrize(
    ("when", "act", "after"),
    [(Checked, "checks of task-002", [1]), (ChangesetsFormed, "build of cs-001", [])],
    ids=["of a task", "of a changeset"],
)
def test_checks_whose_program_vanished_blame_no_task(
    stage: Stage, tmp_path: Path, when: type, act: str, after: list[int]
) -> None:
    """They were green on the base, and are red there now as well."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    checks = {"validator_diagnostics": {"enabled": True, "commands": [str(tool)]}}
    stage.reconfigure(validation=checks, concurrency={"adaptive": False, "validation": 1})
    stage.play(task(1), task(2, after=after))

    def remove() -> None:
        tool.rename(tmp_path / "aside")

    result = stage.run(STOP, observers=[at(when, remove)])

    check_hindered(result, "checks fail on the base, too, and did not before")
    assert {each.act for each in result.of(EnvironmentFailed)} == {act}
    assert not [each for each in result.of(VerdictGiven) if not each.verdict.passed]
    assert not result.of(ChangesetTrimmed)
    (tmp_path / "aside").rename(tool)
    check_finished(stage, attempts=2)


def test_checks_whose_program_vanished_before_any_check_ran_are_not_red_before(stage: Stage, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    stage.reconfigure(validation={"validator_diagnostics": {"enabled": True, "commands": [str(tool)]}})
    stage.play(task(1))

    result = stage.run(STOP)

    check_hindered(result, "programs of checks cannot be started, on the base either")
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    check_finished(stage, attempts=1)


@pytest.mark.parametrize("works_at_first", [False, True], ids=["from the start", "when work is checked"])
def test_a_setup_that_fails_blames_no_task(stage: Stage, tmp_path: Path, works_at_first: bool) -> None:
    online = tmp_path / "online"
    setup = ["echo first", f"test -e '{online}' || {{ echo 'пакет не найден'; exit 9; }}", "echo never"]
    stage.reconfigure(
        validation={"validator_diagnostics": {"enabled": True, "commands": ["true"]}}, worktree={"setup": setup}
    )
    stage.play(task(1))
    if works_at_first:
        online.touch()

    result = stage.run(STOP, observers=[at(AttemptEnded, lambda: online.unlink(missing_ok=True))])

    assert result.session.exit_code is ExitCode.WORLD
    reasons = {each.reason for each in result.of(EnvironmentFailed)}
    assert all("пакет не найден" in each and "exit 9" in each for each in reasons), reasons
    assert not [each for each in result.of(VerdictGiven) if not each.verdict.passed]
    assert result.session.tasks["task-001"].retries == 0
    online.touch()
    assert stage.resume().session.outcome == "completed"


def test_a_check_of_a_result_that_fails_once_is_flaky(stage: Stage, tmp_path: Path) -> None:
    once = f"test ! -e src/1.txt || test -e '{tmp_path}/once' || {{ touch '{tmp_path}/once'; false; }}"
    stage.reconfigure(validation={"validator_diagnostics": {"enabled": True, "commands": [once]}})
    stage.play(task(1), workers={1: writes("src/1.txt", "one")})

    result = stage.run()

    assert result.session.outcome == "completed"
    (checked,) = result.of(Checked)
    assert [(check.passed, check.flaky) for check in checked.checks] == [(True, True)]


def test_a_task_that_breaks_a_check_is_still_blamed(stage: Stage) -> None:
    stage.reconfigure(validation={"validator_diagnostics": {"enabled": True, "commands": ["test ! -e src/2.txt"]}})
    stage.play(task(1), task(2, after=[1]), workers={2: writes("src/2.txt", "two")})

    result = stage.run({"validation": ["drop"]})

    assert result.states == {"task-001": "merged", "task-002": "dropped"}
    assert not result.of(EnvironmentFailed)


def test_an_attempt_that_is_held_gives_its_slot_to_other_work(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is where its checkout must go; the other task is done meanwhile, and never are two agents at work."""
    monkeypatch.setattr(environment, "ASK_AFTER", 1000)
    stage.reconfigure(concurrency={"adaptive": False, "development": 1})
    stage.play(task(1), task(2))
    blocked: list[Path] = []

    def disturb(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptIntended) and not blocked:
            blocked.append(stage.root / ".trees" / recorded.event.attempt.agent_id)
            blocked[0].mkdir(parents=True)
        if isinstance(recorded.event, AttemptEnded) and recorded.event.attempt.endswith(".task-002.worker.1"):
            blocked[0].rmdir()

    result = stage.run(observers=[Watcher(disturb)])

    assert result.session.outcome == "completed"
    assert {each.act for each in result.of(EnvironmentFailed)} == {"worker of task-001"}
    turns = [each.event.attempt for each in result.events if isinstance(each.event, AttemptStarted | AttemptEnded)]
    assert [name.split(".")[1] for name in turns] == ["task-002", "task-002", "task-001", "task-001"]
    assert len(result.of(AttemptIntended)) == 2


def test_a_checkout_of_checks_that_cannot_be_removed_costs_no_result(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed after its result is recorded: killed in between, or refused by the disk, no check runs again."""
    refused: list[Path] = []
    checked: list[str] = []

    def refuse(context: SessionContext, path: Path, ran: Iterable[str]) -> None:
        if path.name.startswith(f"check-{last}") and not refused:
            assert last in checked, "its result is recorded first"
            refused.append(path)
            raise OSError(errno.EBUSY, "Device or resource busy", str(path))
        spares.release_checkout(context, path, ran)

    def see(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, Checked):
            checked.append(recorded.event.task)

    last = "task-002"  # the first one also runs them on the base, and has no need of its own checkout then
    monkeypatch.setattr(check_commit, "release_checkout", refuse)
    monkeypatch.setattr(loop, "CLEAR_PAUSE_SECONDS", 0.01)
    diagnostics = {"enabled": True, "commands": ["true"]}
    stage.reconfigure(validation={"validator_diagnostics": diagnostics})
    stage.play(task(1), task(2, after=[1]))
    result = stage.run(observers=[Watcher(see)])
    assert set(result.states.values()) == {"merged"}
    assert refused
    assert not result.of(EnvironmentFailed)
    assert not refused[0].exists()
    assert list_checkouts(stage.root / ".trees") == ()


@pytest.mark.parametrize("operation", ["merge", "cherry-pick", "rebase"])
def test_an_unfinished_merge_of_the_person_costs_no_cycle(stage: Stage, operation: str) -> None:
    stage.git("checkout", "-q", "-b", "mine")
    stage.commit("README.md", "mine\n")
    stage.git("checkout", "-q", "main")
    stage.commit("README.md", "theirs\n")

    def begin() -> None:
        done = subprocess.run(["git", operation, "mine"], cwd=stage.root, check=False, capture_output=True, text=True)
        assert "CONFLICT" in done.stdout

    stage.play(task(1))
    hindered = stage.run({**STOP, "session": ["continue"] * 9}, observers=[at(Checked, begin)])
    check_hindered(hindered, f"a {operation}")
    assert hindered.session.cycle == 1
    assert git(stage.root, "status", "--porcelain").startswith(("UU", "AA")), "nothing of the person's was touched"
    stage.git(operation, "--abort")
    check_finished(stage, attempts=1)


def test_a_disk_without_room_for_more_files(stage: Stage) -> None:
    """The bytes are there, but no more files can be made: an agent that fails by that is not blamed."""
    stage.reconfigure(sandbox={"level": "off", "min_free_disk_mb": 0})
    stage.play(task(1))
    with mounted(stage.root / ".trees", 16, files=800):
        eaten = stage.root / ".trees" / "eaten"

        def eat() -> None:
            eaten.mkdir()
            with pytest.raises(OSError, match="No space"):
                for n in range(1000):
                    (eaten / str(n)).touch()

        result = stage.run(STOP, observers=[at(AttemptStarted, eat)])
        assert result.session.exit_code is ExitCode.WORLD
        assert Ending.FAILED not in [event.ended.ending for event in result.of(AttemptEnded)]
        assert result.session.tasks["task-001"].retries == 0
        shutil.rmtree(eaten)
        assert stage.resume().states == {"task-001": "merged"}


def test_an_agent_that_met_a_disk_that_was_full_for_a_moment_is_not_blamed(stage: Stage) -> None:
    stage.reconfigure(sandbox={"level": "off", "min_free_disk_mb": 0}, limits={"max_retries": 0})
    ballast = shlex.quote(str(stage.root / ".trees" / "ballast"))
    full = f"head -c 99m /dev/zero > {ballast}; cp {ballast} src/1.txt; sleep 0.6; rm {ballast} src/1.txt; exit 1"
    stage.play(task(1), workers={1: {"1": [{"run": full}], "*": writes("src/1.txt", "one")}})
    with mounted(stage.root / ".trees", 16):
        result = stage.run()
    first = result.of(AttemptEnded)[0].ended
    assert first.ending is Ending.ENVIRONMENT
    assert first.notes.startswith("the disk is full, or was while it ran")
    assert result.states == {"task-001": "merged"}
    assert result.session.tasks["task-001"].retries == 0


@pytest.mark.parametrize(("own", "ending"), [(False, Ending.LOST), (True, Ending.RESOURCES)])
def test_an_agent_is_blamed_for_a_disk_only_if_it_filled_it(stage: Stage, own: bool, ending: Ending) -> None:
    stage.reconfigure(sandbox={"level": "off", "min_free_disk_mb": 8}, limits={"max_retries": 0, "kill_grace": "1s"})
    ballast = stage.root / ".trees" / "ballast"
    fill = f"head -c 12m /dev/zero > {'src/1.txt' if own else shlex.quote(str(ballast))}; sleep 600"
    stage.play(task(1), workers={1: {"1": [{"run": fill}], "*": writes("src/1.txt", "one")}})
    with mounted(stage.root / ".trees", 16):
        result = stage.run({**STOP, "escalation": ["abort"], "session": ["stop"]})
        assert result.of(AttemptEnded)[0].ended.ending is ending
        assert result.session.tasks["task-001"].state.value == ("failed" if own else "claimed")
        if not own:
            ballast.unlink()
            assert stage.resume().states == {"task-001": "merged"}


def test_what_a_person_changes_in_the_repository_is_no_fault_of_an_agent_at_work(stage: Stage) -> None:
    """As `pre-commit install` and `git sparse-checkout set` do."""
    stage.play(task(1))
    hook = stage.root / ".git" / "hooks" / "pre-commit"

    def install() -> None:
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\n")

    result = stage.run(observers=[at(AttemptStarted, install)])
    lost, passed = (event.ended for event in result.of(AttemptEnded))
    assert (lost.ending, passed.ending) == (Ending.LOST, Ending.PASSED)
    assert "hooks/pre-commit was added while an agent ran. If it was not you" in lost.notes
    assert result.session.outcome == "completed"


@pytest.mark.parametrize("dirt", ["src/app.py", "src/1.txt"], ids=["a changed file", "an untracked file in the way"])
def test_a_checkout_that_stays_dirty_holds_the_landing_and_uses_up_no_cycle(stage: Stage, dirt: str) -> None:
    stage.play(task(1), workers={1: writes("src/1.txt", "one")})

    def edit() -> None:
        (stage.root / dirt).write_text("# mine\n")

    result = stage.run(STOP, observers=[at(ChangesetsFormed, edit)])
    assert result.gates[-2:] == ["changeset-cs-001", "environment"]
    check_hindered(result, "your checkout of main is not clean")
    assert dirt in result.of(EnvironmentFailed)[-1].reason
    assert (stage.root / dirt).read_text() == "# mine\n"
    stage.git("stash", "-q", "--include-untracked")
    check_finished(stage, attempts=1)
    assert stage.read("src/1.txt") == "one\n"


def test_a_setup_that_a_person_corrects_in_the_configuration_is_tried_as_it_is_now(stage: Stage) -> None:
    """Without a new wave, which would compare the configuration, the session would fail in the same way for ever."""
    stage.reconfigure(worktree={"setup": ["no-such-program"]})
    stage.play(task(1))
    assert stage.run(STOP).session.exit_code is ExitCode.WORLD
    stage.reconfigure(worktree={"setup": ["true"]})

    result = stage.resume({"drift": ["use"]})

    assert result.gates == ["drift", "changeset-cs-001"]
    assert result.session.outcome == "completed"
    assert result.session.tasks["task-001"].retries == 0


def test_a_stop_at_a_changed_configuration_starts_nothing_that_failed_before(stage: Stage) -> None:
    stage.reconfigure(worktree={"setup": ["no-such-program"]})
    stage.play(task(1))
    failed = len(stage.run(STOP).of(AttemptEnded))
    stage.reconfigure(worktree={"setup": ["true"]})

    stopped = stage.resume({"drift": ["stop"]})

    assert len(stopped.of(AttemptEnded)) == failed
    assert not stopped.session.ended
    assert stage.resume({"drift": ["use"]}).session.outcome == "completed"


def test_a_configuration_that_is_kept_is_asked_about_once_while_an_act_is_tried_again(stage: Stage) -> None:
    stage.reconfigure(worktree={"setup": ["no-such-program"]})
    stage.play(task(1))
    stage.run(STOP)
    stage.reconfigure(worktree={"setup": ["true"]})

    result = stage.resume({"drift": ["keep"], **STOP})

    assert result.gates == ["drift", "environment-2"]
    assert result.session.exit_code is ExitCode.WORLD


def test_a_check_that_hangs_on_the_base_as_well_blames_no_task(stage: Stage, tmp_path: Path) -> None:
    server = tmp_path / "server"
    checks = {"enabled": True, "commands": [f"test -e '{server}' || sleep 60"], "timeout": "1s"}
    stage.reconfigure(validation={"validator_diagnostics": checks})
    stage.play(task(1))

    check_hindered(stage.run(STOP), "checks do not end in time, on the base either")
    server.touch()
    check_finished(stage, attempts=1)


def test_a_check_that_hangs_on_the_base_since_it_was_green_there_blames_no_task(stage: Stage, tmp_path: Path) -> None:
    server = tmp_path / "server"
    checks = {"enabled": True, "commands": [f"test -e '{server}' || sleep 60"], "timeout": "1s"}
    stage.reconfigure(validation={"validator_diagnostics": checks})
    stage.play(task(1), task(2))
    server.touch()

    check_hindered(stage.run(STOP, observers=[at(Checked, server.unlink)]), "checks")
    server.touch()
    check_finished(stage, attempts=2)


@pytest.mark.parametrize("ends", ["false", "sleep 60"])
def test_a_check_whose_server_is_back_when_the_base_is_checked_blames_no_task(
    stage: Stage, tmp_path: Path, ends: str
) -> None:
    """As when a person stops a session whose checks have failed, starts the server, and resumes it."""
    server = tmp_path / "server"
    back = f"test -e src/2.txt || touch '{server}'"  # the checks of the second task find none, those of the base do
    checks = {"enabled": True, "commands": [f"{back}; test -e '{server}' || {ends}"], "timeout": "1s"}
    stage.reconfigure(validation={"validator_diagnostics": checks}, schedule={"dependents": "reviewed"})
    stage.play(task(1), task(2, after=[1]))
    server.touch()

    result = stage.run(observers=[at(Checked, server.unlink)], workflow="flow")

    assert result.session.outcome == "completed"
    assert {record.attempts for record in result.session.tasks.values()} == {1}


def test_a_changeset_whose_server_is_back_when_the_base_is_checked_is_built(stage: Stage, tmp_path: Path) -> None:
    server = tmp_path / "server"
    checks = {"enabled": True, "commands": [f"test -e src/2.txt || touch '{server}'; test -e '{server}'"]}
    stage.reconfigure(validation={"validator_diagnostics": checks})
    stage.play(task(1), task(2))
    server.touch()

    result = stage.run(observers=[at(Checked, server.unlink, nth=2)])

    assert result.session.outcome == "completed"
    assert {record.attempts for record in result.session.tasks.values()} == {1}
