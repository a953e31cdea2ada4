"""Beads as a mirror: how `bd` is called, how its answers are read, and what happens when it is missing or fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from blueflame.knowledge.selection import Work
from blueflame.knowledge.wording import describe_for_planner
from blueflame.memory.beads import BeadsClient, unwrap_envelope
from blueflame.memory.beads_mirror import BeadsMirror
from blueflame.memory.builtin import BuiltInMemory
from blueflame.memory.mirrored import MirroredMemory
from blueflame.memory.provider import RecallRequest
from blueflame.model.attempt import Duty
from blueflame.model.memory import Decay, Lesson, TaskFailure
from support.fake_bd import FakeBd, keys, make_bd
from support.memory_records import failure, lesson, result, session_name, summary

ASKING = RecallRequest(work=Work(duty=Duty.PLAN, text="Fix the ledger", session="ses-now"), budget=8_000)
ALL = (summary(), result(), failure(), lesson())


@pytest.fixture
def bd(tmp_path: Path, request: pytest.FixtureRequest) -> FakeBd:
    legacy = getattr(request, "param", False)
    return make_bd(tmp_path / "bin", tmp_path / ".blueflame" / "beads" / ".beads", legacy=legacy)


in_both_formats = pytest.mark.parametrize("bd", [False, True], ids=["envelope", "legacy"], indirect=True)
"""For tests that together read every kind of answer."""


def environ(bd: FakeBd) -> Mapping[str, str]:
    foreign = {"BEADS_DOLT_SERVER_PORT": "3306", "BD_ACTOR": "another", "BEADS_DIR": "/elsewhere"}
    return {**os.environ, **foreign, "PATH": f"{bd.folder}:{os.environ['PATH']}"}


def memory(bd: FakeBd, name: str = "memory.db", timeout: float = 60) -> MirroredMemory:
    state = bd.beads.parent.parent
    first = BuiltInMemory(state / name, state / f"knowledge of {name}", Decay())
    return mirror(first, BeadsClient("bd", bd.beads, environ(bd), timeout=timeout))


def mirror(first: BuiltInMemory, client: BeadsClient) -> MirroredMemory:
    return MirroredMemory(first, [BeadsMirror(client, first.store)])


def recall(mirrored: MirroredMemory) -> tuple[str, ...]:
    """What a planner is given: chosen, then loaded by its keys."""
    given = mirrored.choose(ASKING)
    found = mirrored.load([each.key for each in given.lessons])
    assert found.records == given.records
    return describe_for_planner(found.records, found.ages)


@in_both_formats
@pytest.mark.verification(38)
def test_everything_is_mirrored_once_and_closed(bd: FakeBd) -> None:
    mirrored = memory(bd)
    assert mirrored.remember(ALL).warning == ""
    assert mirrored.remember(ALL).warning == ""
    assert memory(bd).remember(ALL).warning == ""
    assert sorted(keys(bd.issues)) == sorted(record.key for record in ALL if not isinstance(record, Lesson))
    assert {issue["status"] for issue in bd.issues} == {"closed"}
    assert {issue["closed_by_session"] for issue in bd.issues} == {session_name(1)}
    labels = {frozenset(issue["labels"]) for issue in bd.issues}
    assert frozenset({"blueflame", "bf:result", "bf:failed"}) in labels
    assert list(bd.memories.values()) == ["lesson: said of a plan: begin with the parser"]
    assert len(bd.calls("create")) == 3
    assert len(bd.calls("init")) == 1


def test_it_gets_nothing_of_the_persons_own_beads(bd: FakeBd) -> None:
    memory(bd).remember(ALL)
    for call in bd.calls():
        assert call["env"] == {
            "BEADS_DIR": str(bd.beads),
            "BEADS_ACTOR": "blueflame",
            "BD_NON_INTERACTIVE": "1",
            "BD_JSON_ENVELOPE": "1",
        }


@in_both_formats
def test_what_changes_is_brought_up_to_date_and_not_made_again(bd: FakeBd) -> None:
    mirrored = memory(bd)
    mirrored.remember([failure()])
    mirrored.remember([replace(failure(), overcome=True)])
    (issue,) = bd.issues
    assert '"overcome":true' in issue["metadata"]["bf_record"]


@in_both_formats
def test_a_crash_between_making_and_noting_makes_nothing_twice(bd: FakeBd) -> None:
    legacy = bd.program.with_name("behaviour.json").read_text()
    bd.behave(die_after="create")
    assert "left out" in memory(bd).remember([failure()]).warning
    assert [issue["status"] for issue in bd.issues] == ["open"]
    bd.program.with_name("behaviour.json").write_text(legacy)
    assert memory(bd).remember([failure()]).warning == ""
    assert [issue["status"] for issue in bd.issues] == ["closed"]


@in_both_formats
@pytest.mark.verification(38)
def test_another_copy_of_the_repository_recalls_what_this_one_kept(bd: FakeBd) -> None:
    memory(bd).remember(ALL)
    text = "\n".join(recall(memory(bd, "other.db")))
    assert "FAILED BEFORE: Parse the ledger" in text
    assert "A SESSION: Do the ledger" in text
    assert "A NOTE: said of a plan: begin with the parser" in text


def test_our_own_records_are_not_recalled_twice(bd: FakeBd) -> None:
    mirrored = memory(bd)
    mirrored.remember(ALL)
    lines = recall(mirrored)
    assert sum("FAILED BEFORE" in line for line in lines) == 1
    assert sum("begin with the parser" in line for line in lines) == 1


def test_a_title_is_never_read_as_an_option(bd: FakeBd) -> None:
    nasty = failure(title="--force " + "x" * 900 + "\n; rm -rf /")
    assert memory(bd).remember([nasty, lesson(text="--delete")]).warning == ""
    (issue,) = bd.issues
    assert issue["title"].startswith(f"[{session_name(1)}] --force x")
    assert list(bd.memories.values()) == ["lesson: --delete"]


@pytest.mark.parametrize(
    ("command", "on_stdout"),
    [("version", False), ("init", False), ("list", True), ("create", False), ("close", True), ("remember", False)],
)
def test_a_failure_costs_one_warning_and_nothing_is_lost(tmp_path: Path, command: str, on_stdout: bool) -> None:
    bd = make_bd(tmp_path / "bin", tmp_path / ".blueflame" / "beads" / ".beads")
    how = {"version": "0.9.0"} if command == "version" else {"fail": command, "on_stdout": on_stdout}
    bd.behave(**how)
    mirrored = memory(bd)
    warning = mirrored.remember(ALL).warning
    assert "Beads is left out until the next session" in warning
    assert ("1.0.5 or newer" if command == "version" else "the database is locked (try later)") in warning
    assert mirrored.remember([failure(2)]).warning == ""
    assert len(mirrored.list_records()) == len(ALL) + 1
    assert "FAILED BEFORE" in "\n".join(recall(mirrored))
    bd.behave()
    assert memory(bd).remember([]).warning == ""
    assert len(bd.issues) == 4
    assert len(set(keys(bd.issues))) == 4


def test_one_that_hangs_is_ended_and_not_asked_again(tmp_path: Path) -> None:
    bd = make_bd(tmp_path / "bin", tmp_path / ".blueflame" / "beads" / ".beads", hang="create")
    mirrored = memory(bd, timeout=3)
    assert "not finished after 3 seconds" in mirrored.remember(ALL).warning
    assert mirrored.remember([failure(2)]).warning == ""
    assert len(bd.calls("create")) == 1
    assert len(mirrored.list_records()) == len(ALL) + 1


def test_an_answer_that_is_not_json_is_an_error(tmp_path: Path) -> None:
    bd = make_bd(tmp_path / "bin", tmp_path / ".blueflame" / "beads" / ".beads", babble="list")
    assert "did not answer with JSON: 'Welcome to Beads!'" in memory(bd).remember(ALL).warning


def test_without_the_program_all_is_kept_here(tmp_path: Path) -> None:
    first = BuiltInMemory(tmp_path / "memory.db", tmp_path / "knowledge", Decay())
    mirrored = mirror(first, BeadsClient("bd-that-is-not-there", tmp_path / ".beads", os.environ, timeout=5))
    assert "there is no program bd-that-is-not-there" in mirrored.remember(ALL).warning
    assert "there is no program" in mirrored.choose(ASKING).note
    assert any(isinstance(record, TaskFailure) for record in mirrored.list_records())
    assert recall(mirrored)


def test_both_forms_of_an_answer_are_opened() -> None:
    assert unwrap_envelope({"schema_version": 1, "data": [1]}) == [1]
    assert unwrap_envelope([1]) == [1]
    assert unwrap_envelope({"a": "b", "schema_version": 1}) == {"a": "b"}
    assert unwrap_envelope({"data": "x", "a": 1, "schema_version": 1}) == {"data": "x", "a": 1}


@pytest.mark.skipif(shutil.which("bd") is None, reason="there is no bd")
def test_the_real_program_keeps_and_gives_back(tmp_path: Path) -> None:
    beads = BeadsClient("bd", tmp_path / "beads" / ".beads", os.environ, timeout=120)
    assert beads.find_problem() == ""
    first = BuiltInMemory(tmp_path / "memory.db", tmp_path / "knowledge", Decay())
    assert mirror(first, beads).remember(ALL).warning == ""
    other = mirror(BuiltInMemory(tmp_path / "other.db", tmp_path / "other", Decay()), beads)
    assert "FAILED BEFORE: Parse the ledger" in "\n".join(recall(other))
