"""Changesets: one per cohesion group, in the order in which they build on each other, each judged by a person."""

from __future__ import annotations

import pytest

from blueflame.model.event import (
    BaseMoved,
    ChangesetEvicted,
    ChangesetsFormed,
    EnvironmentFailed,
    JournalEntry,
    Landed,
)
from blueflame.model.gate import Gate
from blueflame.session.state import Session
from support.commit_format import COMMIT_PATTERN
from support.sessions import SessionRun, Stage, Watcher, task, writes

GO_ON = ["continue"]


def groups(reported: SessionRun) -> list[str]:
    return [changeset.group for event in reported.of(ChangesetsFormed) for changeset in event.changesets]


@pytest.mark.verification(22)
def test_a_rejected_changeset_is_redone_with_the_reason_in_the_prompt(stage: Stage) -> None:
    redone = [{"write": {"path": "src/1.txt", "text": "polite\n"}}, {"commit": "feat({task}): be polite"}]
    stage.play(task(1), workers={1: {"1": writes("src/1.txt", "curt"), "*": redone}})
    before = stage.head()
    reported = stage.run({"changeset": ["reject: be more polite, пожалуйста"], "session": GO_ON})
    assert "be more polite, пожалуйста" in reported.prompt("task-001", n=2)
    assert "be more polite" not in reported.prompt("task-001", n=1)
    assert stage.read("src/1.txt") == "polite\n"
    assert stage.git("rev-parse", "main^1").strip() == before, "the rejected one never touched the base"
    assert reported.session.cycle == 2
    assert reported.session.outcome == "completed"
    refs = stage.git("for-each-ref", "--format=%(refname)", "refs/blueflame/").split()
    for n in (1, 2):
        assert f"refs/blueflame/attempts/{reported.session.id}/task-001/worker/{n}" in refs, (
            "every result stays reachable"
        )
        assert f"refs/blueflame/changesets/{reported.session.id}/cs-00{n}" in refs


@pytest.mark.verification(25)
def test_groups_land_one_by_one_in_the_order_of_their_dependencies(stage: Stage) -> None:
    """With the commit format that configurations had before the style was detected."""
    stage.reconfigure(validation={"commit_format": {"pattern": COMMIT_PATTERN}})
    stage.play(
        task(1, cohesion_group="zeta"),
        task(2, cohesion_group="alpha", after=[1]),
        task(3, cohesion_group="zeta"),
    )
    reported = stage.run()
    assert groups(reported) == ["zeta", "alpha"]
    assert reported.gates == ["plan", "changeset-cs-001", "changeset-cs-002"]
    first, second = reported.of(Landed)
    assert second.before == first.after
    assert stage.git("log", "--first-parent", "--format=%s", "-2").splitlines() == [
        "feat(task-002): Task 2",
        "feat(task-001,task-003): Task 1 (and 1 more)",
    ]


def test_a_changeset_that_conflicts_with_what_landed_is_evicted_and_redone(stage: Stage) -> None:
    stage.reconfigure(validation={"file_scope": {"enforce": False}})
    same = [{"write": {"path": "src/same.txt", "text": "only {task}\n"}}, {"commit": "feat({task}): same"}]
    again = [{"expect": {"path": "src/same.txt", "contains": "only task-001"}}, *writes("src/2.txt", "two")]
    stage.play(task(1, cohesion_group="a"), task(2, cohesion_group="b"), workers={1: same, 2: {"1": same, "*": again}})
    reported = stage.run({"session": GO_ON})
    (evicted,) = reported.of(ChangesetEvicted)
    assert evicted.paths == ("src/same.txt",)
    assert "conflict in src/same.txt" in reported.prompt("task-002", n=2)
    assert stage.read("src/same.txt") == "only task-001\n"
    assert stage.read("src/2.txt") == "two\n"
    assert reported.session.outcome == "completed"


def test_a_base_that_moved_before_approval_means_a_new_build_and_a_new_question(stage: Stage) -> None:
    def meanwhile(_gate: Gate, _session: Session) -> str:
        stage.commit("docs/own.md", "mine\n")
        return "approve"

    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    reported = stage.run({"changeset": [meanwhile]})
    assert len(reported.of(BaseMoved)) == 1
    assert reported.gates == ["plan", "changeset-cs-001", "changeset-cs-001-2"]
    assert reported.answers.asked[1].evidence["commit"] != reported.answers.asked[2].evidence["commit"]
    assert stage.read("docs/own.md") == "mine\n"
    assert stage.read("src/1.txt") == "one\n"
    assert reported.session.outcome == "completed"


def test_a_base_that_moved_into_a_conflict_evicts_the_changeset(stage: Stage) -> None:
    def meanwhile(_gate: Gate, _session: Session) -> str:
        stage.commit("src/1.txt", "mine\n")
        return "approve"

    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    reported = stage.run({"changeset": [meanwhile], "session": ["stop"]})
    assert reported.states == {"task-001": "requeued"}
    assert stage.read("src/1.txt") == "mine\n"
    assert stage.git("status", "--porcelain") == ""


@pytest.mark.parametrize("dirt", ["src/app.py", "src/1.txt"], ids=["a changed file", "an untracked file in the way"])
def test_a_dirty_checkout_is_reported_and_not_touched(stage: Stage, dirt: str) -> None:
    def scribble(_gate: Gate, _session: Session) -> str:
        (stage.root / dirt).write_text("my own\n")
        return "approve"

    def tidy(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, EnvironmentFailed):
            assert "not clean" in recorded.event.reason
            assert dirt in recorded.event.reason
            assert (stage.root / dirt).read_text() == "my own\n"
            stage.git("checkout", "-q", "--", "src/app.py")
            (stage.root / "src/1.txt").unlink(missing_ok=True)

    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    before = stage.head()
    reported = stage.run({"changeset": [scribble]}, observers=[Watcher(tidy)])
    assert len(reported.of(EnvironmentFailed)) == 1
    assert stage.git("rev-parse", "main^1").strip() == before
    assert (reported.session.outcome, reported.session.cycle) == ("completed", 1)
    assert (stage.root / "src/1.txt").read_text() == "one\n"


def test_a_base_that_is_not_checked_out_is_moved_and_the_checkout_is_not_touched(stage: Stage) -> None:
    stage.git("checkout", "-q", "--detach")
    (stage.root / "scribble.txt").write_text("in the middle of something\n")
    head = stage.head("HEAD")
    stage.play(task(1), workers={1: writes("src/1.txt", "one")})
    reported = stage.run(allow_dirty=True)
    assert reported.session.outcome == "completed"
    assert stage.read("src/1.txt") == "one\n"
    assert stage.head("HEAD") == head
    assert stage.git("status", "--porcelain") == "?? scribble.txt\n"
    assert not (stage.root / "src/1.txt").exists()
