from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.checks.leftovers import Leftovers, describe_leftovers
from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.views.changeset import build_changeset_json, build_changeset_view, count_outcomes, list_notes
from support.recorded_session import TASKS, Story


@pytest.fixture
def record() -> ChangesetRecord:
    return Story().reviewing().session.changesets["cs-1-auth"]


def test_a_deferral_is_not_counted_as_a_requeue(record: ChangesetRecord) -> None:
    states = [ChangesetState.LANDED, ChangesetState.REJECTED, ChangesetState.DEFERRED, ChangesetState.FORMED]
    assert count_outcomes([replace(record, state=state) for state in states]) == (
        "1 changeset approved, 1 re-queued, 1 deferred"
    )
    assert count_outcomes([replace(record, state=ChangesetState.REJECTED)] * 2) == "2 changesets re-queued"
    assert count_outcomes([]) == "no changeset judged"


def test_the_json_of_a_changeset_has_its_build(record: ChangesetRecord) -> None:
    found = build_changeset_json(record)
    assert found["tasks"] == ["task-001", "task-002"]
    assert found["build"]["added"] == 520
    assert found["build"]["checks"][0] == {
        "name": "ruff check .",
        "passed": True,
        "exit_code": 0,
        "seconds": 0.4,
        "flaky": False,
        "red_before": False,
        "tests": None,
        "tests_before": None,
        "failures": [],
        "output_sha256": "",
    }
    assert build_changeset_json(replace(record, build=None))["build"] is None
    assert TASKS[0].id in found["tasks"]


def test_what_an_agent_left_uncommitted_is_shown_to_the_reviewer() -> None:
    session = Story().reviewing().session
    result = session.tasks["task-001"].result
    assert result is not None
    before = session.attempts[result.attempt]
    assert before.ended is not None
    left = describe_leftovers(Leftovers(changed=("src/a.py",), untracked=("src/b.py",)))
    for notes, shown in ((f"Done.\n{left}", 1), ("Done.", 0), ("", 0)):
        session.attempts[result.attempt] = replace(before, ended=replace(before.ended, notes=notes))
        said = [note for note in list_notes(build_changeset_view(session, "cs-1-auth")) if "task-001 left" in note]
        assert len(said) == shown
        assert all("1 changed (src/a.py); 1 untracked (src/b.py)" in note for note in said)
