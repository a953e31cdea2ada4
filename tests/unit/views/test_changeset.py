from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.views.changeset import build_changeset_json, count_outcomes
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
