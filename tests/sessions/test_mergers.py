"""Merger agents behind the walls, with the real Claude Code, and with orchestrators that die on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from blueflame.model.attempt import MERGER, Ending
from blueflame.model.event import AttemptEnded, ChangesetEvicted, ConflictResolved, EnvironmentFailed, Landed
from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems
from blueflame.testing import LoopbackModel
from support.model_scripts import KEY, build_model_script
from support.real_agents import needs_claude
from support.sessions import SessionRun, Stage, make_stage, start_orchestrator, task

needs_sandbox = pytest.mark.skipif(bool(find_sandbox_problems("standard")), reason="this machine can hold no sandbox")
Step = Mapping[str, Any]

BASE = "one\ntwo\nthree\n"
BOTH = "one\nfirst\nsecond\nthree\n"
RESOLVES: Sequence[Step] = [
    {"write": {"path": "src/same.txt", "text": BOTH}},
    {"commit": "fix(task-002): keep both lines"},
    {"verdict": {"status": "pass", "notes": "both lines are kept"}},
]


def line(text: str) -> Sequence[Step]:
    content = BASE.replace("two", text)
    return [{"write": {"path": "src/same.txt", "text": content}}, {"commit": "feat({task}): a line"}]


WORKERS = {1: line("first"), 2: line("second")}
CLAUDE_MERGES = {
    **{name: {"runtime": "scripted"} for name in ("planner", "worker", "validator")},
    MERGER: {"runtime": "claude"},
}


def clash(repo: Path, merger: object = None, **sections: object) -> Stage:
    """Two groups whose tasks change the same line of a file."""
    stage = make_stage(repo)
    stage.commit("src/same.txt", BASE)
    stage.reconfigure(
        validation={
            "file_scope": {"enforce": False},
            "validator_diagnostics": {"commands": ["grep -q three src/same.txt"]},
        },
        **sections,
    )

    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b"),
        workers=WORKERS,
        merger=merger,
    )
    return stage


def merger_of(reported: SessionRun) -> Ending:
    (ended,) = (event.ended for event in reported.of(AttemptEnded) if f".{MERGER}." in event.attempt)
    return ended.ending


@needs_sandbox
def test_a_merger_works_behind_the_same_walls_as_everybody(repo: Path) -> None:
    nosy: Step = {"write": {"path": "src/other.txt", "text": "mine\n"}, "rogue": True}
    stage = clash(repo, [nosy, *RESOLVES], sandbox={"level": "standard"})
    reported = stage.run({"session": ["stop"]})
    assert merger_of(reported) is Ending.POSTCHECK
    agent = next(r.attempt.agent_id for r in reported.session.attempts.values() if r.attempt.role == MERGER)
    audit = (stage.root / ".blueflame" / "logs" / f"{agent}.audit.jsonl").read_text()
    assert "src/other.txt" in audit
    assert stage.read("src/same.txt") == BASE.replace("two", "first")


@needs_sandbox
def test_an_honest_merger_does_not_notice_the_walls(repo: Path) -> None:
    reported = clash(repo, RESOLVES, sandbox={"level": "standard"}).run()
    assert merger_of(reported) is Ending.PASSED
    assert reported.stage.read("src/same.txt") == BOTH
    assert reported.session.outcome == "completed"


@needs_sandbox
@needs_claude
def test_claude_resolves_a_conflict_with_its_own_tools(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    stage = clash(
        repo,
        sandbox={"level": "standard"},
        limits={"kill_grace": "2s", "agent_timeout": "120s"},
        roles=CLAUDE_MERGES,
    )
    turns = [
        {"tool": {"write": "{{cwd}}/src/same.txt", "content": BOTH}},
        {"tool": {"shell": "git add src/same.txt && git commit -q -m 'fix(task-002): keep both lines'"}},
        {"structured": {"status": "pass", "notes": "both lines are kept", "issues": []}},
        {"text": "done"},
    ]
    with LoopbackModel(build_model_script({"when": {"user": "You are a release engineer"}, "turns": turns})) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        reported = stage.run({"session": ["stop"]})
    assert merger_of(reported) is Ending.PASSED, [event.ended for event in reported.of(AttemptEnded)][-1]
    assert reported.of(ConflictResolved)[0].resolution.notes == "both lines are kept"
    assert stage.read("src/same.txt") == BOTH


def test_a_merger_that_cannot_be_started_sends_the_task_back(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(repo.parent))
    stage = clash(repo, roles=CLAUDE_MERGES)
    reported = stage.run({"session": ["stop"]})
    assert merger_of(reported) is Ending.SETUP
    assert reported.of(ChangesetEvicted)
    assert reported.states == {"task-001": "merged", "task-002": "requeued"}


@pytest.mark.parametrize("kind", ["ChangesetConflicted", "ConflictResolved"])
def test_a_conflict_is_resolved_once_however_the_orchestrator_dies(
    repo: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    ledger = repo.parent / "ledger"
    monkeypatch.setenv("BLUEFLAME_LEDGER", str(ledger))
    stage = clash(repo, RESOLVES)
    stage.play(planner=[{"plan": {"tasks": list(stage.tasks or ())}}], workers=WORKERS, merger=RESOLVES)
    running = start_orchestrator(stage)
    running.until(kind)
    running.kill()
    reported = stage.resume()
    assert reported.session.outcome == "completed"
    assert stage.read("src/same.txt") == BOTH
    starts = Counter(line.split()[1] for line in ledger.read_text().splitlines() if line.startswith("start"))
    assert {name: n for name, n in starts.items() if f".{MERGER}." in name} == {
        f"{reported.session.id}.cs-002.{MERGER}.1": 1
    }
    assert len(reported.of(Landed)) == 2


def test_a_conflict_is_resolved_once_although_a_person_commits_something_else(repo: Path) -> None:
    stage = clash(repo)
    stage.play(planner=[{"plan": {"tasks": list(stage.tasks or ())}}], workers=WORKERS, merger=RESOLVES)
    running = start_orchestrator(stage)
    running.until("ConflictResolved")
    running.kill()
    stage.commit("README.md", "written meanwhile\n")

    reported = stage.resume()

    assert reported.session.outcome == "completed"
    assert (stage.read("src/same.txt"), stage.read("README.md")) == (BOTH, "written meanwhile\n")
    assert len(reported.of(ConflictResolved)) == 1


@pytest.mark.parametrize("kind", ["ChangesetConflicted", "ConflictResolved"])
def test_a_resolution_whose_commit_is_gone_from_git_is_made_again(repo: Path, kind: str) -> None:
    """Refs deleted and objects pruned: before, every try to build the changeset failed for ever."""
    stage = clash(repo)
    stage.play(planner=[{"plan": {"tasks": list(stage.tasks or ())}}], workers=WORKERS, merger=RESOLVES)
    running = start_orchestrator(stage)
    running.until(kind)
    running.kill()
    delete_refs(stage, "/cs-")
    stage.git("gc", "-q", "--prune=now")

    reported = stage.resume()

    assert (reported.session.outcome, reported.session.cycle) == ("completed", 1)
    assert stage.read("src/same.txt") == BOTH
    assert not reported.of(EnvironmentFailed)


def test_the_ref_of_a_resolution_that_is_gone_is_set_again(repo: Path) -> None:
    stage = clash(repo)
    stage.play(planner=[{"plan": {"tasks": list(stage.tasks or ())}}], workers=WORKERS, merger=RESOLVES)
    running = start_orchestrator(stage)
    running.until("ConflictResolved")
    running.kill()
    gone = delete_refs(stage, "/cs-002/1")

    reported = stage.resume()

    assert len(reported.of(ConflictResolved)) == 1
    assert gone <= {*stage.git("for-each-ref", "--format=%(refname)").split()}


def delete_refs(stage: Stage, part: str) -> set[str]:
    found = stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame").split()
    for ref in (deleted := {ref for ref in found if part in ref}):
        stage.git("update-ref", "-d", ref)
    return deleted
