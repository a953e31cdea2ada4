"""Whole sessions behind all three walls: honest agents do not notice them, others do not get past."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from blueflame.git import checkouts
from blueflame.git.checkouts import count_spares
from blueflame.git.repository import open_repository
from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.errors import Refused
from blueflame.model.event import AttemptEnded, AttemptStarted, Checked, JournalEntry
from blueflame.orchestrator.attempts import spares
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.sandbox import probe as probing
from blueflame.session.state import Session
from support.disks import immutable
from support.fake_secrets import MAKERS, SecretGenerator
from support.sessions import SessionRun, Stage, Watcher, make_stage, plan_of, start_orchestrator, task, writes

needs_sandbox = pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox")
ONCE = {"max_retries": 0, "kill_grace": "1s"}
STOP = {"session": ["stop"]}
KEPT = "test $(grep -c ran target/log) = 2"  # from the setup on the base, and from that of this checkout
PLACE = 'test "$PWD" = "$BLUEFLAME_WORKTREE" -a "${PWD%/*}" = /work'


@pytest.fixture
def walled(repo: Path) -> Stage:
    bash = {"allowed_commands": ["*"], "blocked_patterns": []}
    stage = make_stage(repo, sandbox={"level": "standard"}, limits=ONCE)
    stage.reconfigure(
        sandbox={"level": "standard"},
        limits=ONCE,
        permissions={"allowed_paths": ["src/**"], "blocked_paths": [".env*", "go.mod"], "bash_rules": bash},
    )
    return stage


@needs_sandbox
def test_a_large_checkout_is_taken_over_without_what_ran_in_it_before(
    walled: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (checkouts, spares):
        monkeypatch.setattr(module, "MIN_FILES", 1)
    clean = "test ! -e left.txt -a ! -e .git/left && grep -q . README.md"
    leave = "echo hostile | tee left.txt .git/left >>README.md; stat -c 'inode %i' src/app.py"
    walled.reconfigure(
        sandbox={"level": "standard"},
        limits=ONCE,
        concurrency={"development": 1},
        validation={"validator_diagnostics": {"commands": [f"{clean} && ! grep hostile README.md && {leave}"]}},
    )
    walled.play(
        task(1), task(2, after=[1]), task(3, after=[2]), workers={n: writes(f"src/{n}.txt", "x") for n in (1, 2, 3)}
    )
    reported = walled.run(workflow="lean-flow")
    assert reported.session.outcome == "completed"
    assert "hostile" not in walled.read("README.md")
    runs = [check for event in reported.of(Checked) for check in event.checks]
    inodes = {line for check in runs for line in check.output.splitlines() if line.startswith("inode")}
    assert len(runs) == 3
    assert len(inodes) < 3  # files were taken over
    assert count_spares(open_repository(walled.root, base_branch="main"), walled.root / ".trees") == 3


@needs_sandbox
@pytest.mark.parametrize("locked", [True, False], ids=["by an attribute", "by its mode"])
def test_an_agent_is_blamed_for_a_home_that_it_can_close_itself(walled: Stage, locked: bool) -> None:
    """An agent can change the mode of its home. It cannot set an attribute."""
    ends = "echo > ~/x && test -w ~ || exit 1"
    waits = "while [ ! -e src/go ]; do sleep 0.02; done; rm src/go" if locked else "chmod 500 ~; false"
    walled.play(task(1), workers={1: {"1": [{"run": f"{waits}; {ends}"}], "*": writes("src/1.txt", "one")}})
    with ExitStack() as held:

        def lock(_session: Session, recorded: JournalEntry) -> None:
            event = recorded.event
            if locked and isinstance(event, AttemptStarted) and event.attempt.endswith(".worker.1"):
                held.enter_context(immutable(walled.root / ".blueflame/attempts" / event.attempt / "home"))
                Path(event.worktree or "", "src/go").touch()

        result = walled.run(STOP | {"escalation": ["abort"]}, observers=[Watcher(lock)])
    first = result.of(AttemptEnded)[0].ended
    assert first.ending is (Ending.ENVIRONMENT if locked else Ending.FAILED)
    assert result.states == {"task-001": "merged" if locked else "failed"}
    if locked:
        assert re.match(r"cannot write in .*/home: Operation not permitted; .*\(lsattr\)", first.notes)


def last(reported: SessionRun, name: str = "task-001", role: str = "worker") -> AttemptOutcome:
    found = [event for event in reported.of(AttemptEnded) if event.attempt.split(".")[1:3] == [name, role]]
    return found[-1].ended


def audit(reported: SessionRun, name: str = "task-001", role: str = "worker", n: int = 1) -> list[dict[str, str]]:
    agent = reported.session.attempts[f"{reported.session.id}.{name}.{role}.{n}"].attempt.agent_id
    lines = (reported.stage.root / ".blueflame" / "logs" / f"{agent}.audit.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.verification(12, 15)
@needs_sandbox
def test_an_honest_session_lands_behind_all_walls(walled: Stage) -> None:
    walled.reconfigure(
        sandbox={"level": "standard"},
        worktree={"setup": ["test -e src/app.py", "mkdir -p target; echo ran >>target/log"]},
        validation={"validator_diagnostics": {"commands": ["grep -q one src/1.txt", PLACE, KEPT]}},
    )
    with (walled.root / ".git" / "info" / "exclude").open("a") as ignored:
        ignored.write("target/\n")
    walled.play(task(1), workers={1: writes("src/1.txt", "one")})
    reported = walled.run(workflow="waves")
    assert reported.session.outcome == "completed"
    assert walled.read("src/1.txt") == "one\n"
    asked = audit(reported)
    assert [(line["tool"], line["decision"]) for line in asked] == [
        ("BlueflameCanary", "block"),
        ("Write", "allow"),
        ("Bash", "allow"),
    ]
    assert "Files written" in reported.prompt("task-001", "validator")
    assert {started.inside for started in reported.of(AttemptStarted)} == {"/work/repo"}


@pytest.mark.verification(11)
@needs_sandbox
def test_a_refused_step_is_not_done_and_the_agent_goes_on(walled: Stage) -> None:
    walled.play(task(1), workers={1: [{"write": {"path": ".env", "text": "KEY=1\n"}}, *writes("src/1.txt", "one")]})
    reported = walled.run()
    assert reported.session.outcome == "completed"
    assert ".env" not in walled.files()
    assert [line["rule"] for line in audit(reported) if line["decision"] == "block"][1:] == ["blocked_path"]


@pytest.mark.verification(17)
@needs_sandbox
def test_what_a_rogue_commits_out_of_scope_is_kept_and_does_not_land(walled: Stage) -> None:
    step = {"write": {"path": "src/other.txt", "text": "not mine\n"}, "rogue": True}
    walled.play(task(1), workers={1: [step, *writes("src/1.txt", "one")]})
    reported = walled.run(STOP)
    ended = last(reported)
    assert ended.ending is Ending.POSTCHECK
    assert [(found.rule, found.path) for found in ended.violations] == [("outside_file_scope", "src/other.txt")]
    assert (
        walled.read("src/other.txt", f"refs/blueflame/failed/{reported.session.id}/task-001/worker/1") == "not mine\n"
    )
    assert "src/other.txt" not in walled.files()


@pytest.mark.parametrize("level", [pytest.param("standard", marks=needs_sandbox), "off"])
def test_what_a_setup_changed_and_an_agent_committed_is_put_back(walled: Stage, level: str) -> None:
    walled.reconfigure(
        sandbox={"level": level},
        limits=ONCE,
        permissions={"allowed_paths": ["src/**"], "blocked_paths": []},
        worktree={"setup": ["echo rewritten >>README.md; echo new >new.txt", "mv src/app.py src/main.py"]},
    )
    before = walled.files()
    commit = "git commit -qam 'feat(task-001): all at once'"
    alone = {"run": commit, "rogue": True}
    beside = {"run": f"echo own >>README.md; echo two >>src/1.txt; {commit}", "rogue": True}
    walled.play(task(1), workers={1: [alone, *writes("src/1.txt", "one"), beside]})
    reported = walled.run()
    assert reported.session.outcome == "completed"
    assert last(reported).put_back == ("README.md", "src/app.py")
    assert set(walled.files()) == {*before, "src/1.txt"}
    assert walled.read("src/1.txt") == "one\ntwo\n"
    assert "rewritten" not in walled.read("README.md")
    assert last(reported).commits == 2, "a commit of nothing else is left out"


def test_an_agent_that_commits_only_what_a_setup_changed_has_done_nothing(walled: Stage) -> None:
    walled.reconfigure(limits=ONCE, worktree={"setup": ["echo rewritten >>README.md"]}, sandbox={"level": "off"})
    commit = {"run": "git commit -qam 'feat(task-001): all at once'", "rogue": True}
    walled.play(task(1), workers={1: [commit]})
    assert last(walled.run(STOP)).ending is Ending.NO_COMMITS


@needs_sandbox
@pytest.mark.parametrize("how", [True, "hidden"])
def test_a_rogue_reaches_nothing_outside_of_its_box(walled: Stage, how: object) -> None:
    outside = walled.root.parent / "canary"
    inside = walled.root / "canary"
    words = f"echo x > '{outside}'; echo x > '{inside}'; echo x > ~/canary; rm -rf '{walled.root}/.git'; true"
    walled.play(task(1), workers={1: [{"run": words, "rogue": how}, *writes("src/1.txt", "one")]})
    reported = walled.run()
    assert reported.session.outcome == "completed"
    assert not outside.exists()
    assert not inside.exists()
    assert not (Path.home() / "canary").exists()


@needs_sandbox
def test_an_unwatched_call_fails_the_attempt(walled: Stage) -> None:
    step = {"append": {"path": "src/1.txt", "text": "quick\n"}, "rogue": "unasked"}
    walled.play(task(1), workers={1: [step, *writes("src/1.txt", "one")]})
    ended = last(walled.run(STOP))
    assert ended.ending is Ending.UNWATCHED
    assert "not every call was watched" in ended.notes


@needs_sandbox
def test_an_agent_cannot_change_its_earlier_output(walled: Stage) -> None:
    unasked = {"append": {"path": "src/1.txt", "text": "quick\n"}, "rogue": "unasked"}
    erase = {"run": "for p in /proc/[0-9]*; do : > $p/fd/1; truncate -s 0 $p/fd/1; done 2>/dev/null; true"}
    walled.play(task(1), workers={1: [unasked, erase, *writes("src/1.txt", "one")]})
    assert last(walled.run(STOP)).ending is Ending.UNWATCHED


@needs_sandbox
def test_a_blocked_file_that_is_there_cannot_be_changed_by_anybody(walled: Stage) -> None:
    walled.commit("go.mod", "module sample\n")
    step = {"run": "echo evil >> go.mod; rm -f go.mod; mv go.mod x; true", "rogue": True}
    walled.play(task(1), workers={1: [step, *writes("src/1.txt", "one")]})
    reported = walled.run()
    assert reported.session.outcome == "completed"
    assert walled.read("go.mod") == "module sample\n"


@needs_sandbox
@pytest.mark.usefixtures("quick_retries")
def test_a_setup_that_writes_a_blocked_file_is_held_with_the_fix(walled: Stage) -> None:
    walled.commit("go.mod", "module sample\n")
    walled.reconfigure(
        sandbox={"level": "standard"},
        limits=ONCE,
        permissions={"allowed_paths": ["src/**"], "blocked_paths": ["go.mod"]},
        worktree={"setup": ["echo more >>go.mod"]},
    )
    walled.play(task(1), workers={1: writes("src/1.txt", "one")})
    reported = walled.run({"environment": ["stop"]})
    assert last(reported).ending is Ending.ENVIRONMENT
    assert "nothing can write what permissions.blocked_paths names" in last(reported).notes


@needs_sandbox
def test_checks_run_the_agents_code_in_a_box_as_well(walled: Stage) -> None:
    canary = walled.root.parent / "canary"
    walled.reconfigure(
        sandbox={"level": "standard"},
        limits=ONCE,
        validation={"validator_diagnostics": {"commands": ["sh src/1.txt"]}},
    )
    walled.play(task(1), workers={1: writes("src/1.txt", f"echo x > '{canary}'; test -e src/app.py")})
    reported = walled.run()
    assert reported.session.outcome == "completed"
    assert not canary.exists()


@pytest.mark.verification(44)
@needs_sandbox
def test_uncommitted_files_are_reported(walled: Stage) -> None:
    walled.play(
        task(1), workers={1: [*writes("src/1.txt", "one"), {"append": {"path": "src/1.txt", "text": "more\n"}}]}
    )
    reported = walled.run()
    assert "left uncommitted: 1 changed (src/1.txt)" in last(reported).notes


@needs_sandbox
def test_a_secret_that_was_taken_back_in_the_next_commit_is_found(walled: Stage) -> None:
    leak = [
        {"write": {"path": "src/1.txt", "text": f"{MAKERS['aws-access-key-id'](SecretGenerator())}\n"}},
        {"commit": "feat({task}): a"},
    ]
    clean = [{"write": {"path": "src/1.txt", "text": "nothing\n"}}, {"commit": "fix({task}): b"}]
    walled.play(task(1), workers={1: [*leak, *clean]})
    ended = last(walled.run(STOP))
    assert ended.ending is Ending.POSTCHECK
    assert {found.rule for found in ended.violations} == {"sensitive_content"}


@needs_sandbox
def test_a_reviewer_that_changes_what_it_reviews_is_not_believed(walled: Stage) -> None:
    change = {"run": "echo better >> src/1.txt; git commit -qam 'fix(task-001): better'", "rogue": True}
    walled.play(task(1), workers={1: writes("src/1.txt", "one")}, validators={1: [change, {"verdict": "pass"}]})
    reported = walled.run({"validator": ["skip"], **STOP}, workflow="waves")
    ended = last(reported, role="validator")
    assert ended.ending is Ending.POSTCHECK
    assert {found.rule for found in ended.violations} == {"validator_changed_tree"}


@needs_sandbox
def test_an_agent_that_takes_too_much_memory_is_ended(walled: Stage) -> None:
    walled.reconfigure(sandbox={"level": "standard", "max_memory_mb": 100}, limits=ONCE)
    hog = {"run": "python3 -c 'x = bytearray(400 << 20); import time; time.sleep(20)'", "rogue": True}
    walled.play(task(1), workers={1: [hog, *writes("src/1.txt", "one")]})
    ended = last(walled.run(STOP))
    assert ended.ending is Ending.RESOURCES
    assert "memory limit 100 MB reached: " in ended.notes
    assert "raise sandbox.max_memory_mb" in ended.notes


@needs_sandbox
def test_a_killed_orchestrator_finds_its_walled_agents_again(walled: Stage) -> None:
    walled.play(planner=plan_of(task(1)), workers={1: [{"sleep": 1.0}, *writes("src/1.txt", "one")]})
    running = start_orchestrator(walled)
    running.until("AttemptStarted", 2)
    running.kill()
    reported = walled.resume()
    assert reported.session.outcome == "completed"
    assert reported.session.tasks["task-001"].attempts == 1


@pytest.mark.verification(18)
def test_a_session_does_not_start_without_the_sandbox_it_asks_for(
    walled: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_the_sandbox: Callable[[], None]
) -> None:
    lean = tmp_path / "bin"
    lean.mkdir()
    for name in ("git", "sh", "rm"):
        (lean / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(lean))
    forget_the_sandbox()
    walled.play(task(1))
    with pytest.raises(Refused, match="bubblewrap"):
        walled.run()
    assert not any((walled.root / ".blueflame" / "attempts").iterdir())


@pytest.fixture
def forget_the_sandbox() -> Iterator[Callable[[], None]]:
    """What was tried is remembered for the life of a process; a test about another machine has to forget it."""

    def forget() -> None:
        for each in vars(probing).values():
            getattr(each, "cache_clear", lambda: None)()

    yield forget
    forget()
