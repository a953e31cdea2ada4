from __future__ import annotations

from dataclasses import replace

import pytest
from story import ID, TASKS, Story

from blueflame.cli.paint import as_text
from blueflame.cli.show_changeset import changeset_json, judged_line, show_changeset, tally
from blueflame.cli.show_gate import context_of
from blueflame.model.changeset import Build, ChangesetRecord, ChangesetState, FileChange
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.model.verdict import Check


@pytest.fixture
def record() -> ChangesetRecord:
    return Story().reviewing().session.changesets["cs-1-auth"]


def test_a_changeset_is_shown_as_it_is_judged() -> None:
    story = Story().reviewing()
    (gate,) = story.session.open_gates.values()
    assert as_text(context_of(story.session, gate).view, width=80) == (
        """\
Changeset review      session cost so far: $1.68 · cycle 1 · ses-20260206-143022
────────────────────────────────────────────────────────────────────────────────

Changeset 1/2: [auth] Add JWT
  [2 files changed, +520, -12]
  Tasks: task-001, task-002
    task-001  Add JWT middleware to API router
    task-002  Add auth tests

  internal/auth/jwt.go    +120  -3
  tests/auth/тест jwt.go  +400  -9

Checks on the very commit that would land
  ✓  ruff check .         0.4 s
  ✓  pytest          1 min 15 s
"""
    )


def test_what_must_not_be_overlooked_is_noted(record: ChangesetRecord) -> None:
    short = replace(record, changeset=replace(record.changeset, missing=("task-009",)), note="built\nagain")
    text = as_text(show_changeset(short, session=ID, rejected=["api"]))
    assert "! NOTE: Depends on rejected changeset [api]: kept for the next cycle." in text
    assert "! NOTE: Not in it, though of the same group: task-009." in text
    assert "! NOTE: built again" in text


def test_a_red_check_says_how_it_ended(record: ChangesetRecord) -> None:
    checks = (
        Check(name="pytest", exit_code=1, seconds=3),
        Check(name="slow", exit_code=-9, seconds=120, timed_out=True),
    )
    text = as_text(show_changeset(replace(record, build=Build(base="a", commit="b", checks=checks)), session=ID))
    assert "✗  pytest  exit 1          3.0 s" in text
    assert "✗  slow    timed out  2 min 00 s" in text


def test_many_files_are_cut_and_one_file_is_singular(record: ChangesetRecord) -> None:
    files = tuple(FileChange(path=f"src/{n:03}.py", added=1, deleted=0) for n in range(40))
    many = as_text(show_changeset(replace(record, build=Build(base="a", commit="b", files=files)), session=ID))
    assert "[40 files changed, +40, -0]" in many
    assert "… and 28 more" in many
    one = as_text(show_changeset(replace(record, build=Build(base="a", commit="b", files=files[:1])), session=ID))
    assert "[1 file changed, +1, -0]" in one


def test_the_cost_so_far_is_in_the_unit_of_the_budget(record: ChangesetRecord) -> None:
    spend = Spend(micro_usd=1, input_tokens=12_450)
    text = as_text(show_changeset(record, session=ID, spend=spend, budget=Budget(Unit.TOKENS, 50_000)))
    assert "session cost so far: 12,450 tokens" in text


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (ChangesetState.LANDED, "✓ [auth] landed as cccccccccc: task-001, task-002"),
        (ChangesetState.APPROVED, "✓ [auth] approved: task-001, task-002"),
        (ChangesetState.REJECTED, "→ [auth] rejected, re-queued with your reason: task-001, task-002"),
        (ChangesetState.SKIPPED, "→ [auth] skipped, shown again in the next cycle: task-001, task-002"),
        (ChangesetState.DEFERRED, "→ [auth] deferred, it builds on a rejected changeset: task-001, task-002"),
        (ChangesetState.EVICTED, "✗ [auth] cannot land: conflict: task-001, task-002"),
        (ChangesetState.BUILT, "  [auth] waits: task-001, task-002"),
    ],
)
def test_what_came_of_it_is_one_line(record: ChangesetRecord, state: ChangesetState, said: str) -> None:
    note = "conflict" if state is ChangesetState.EVICTED else ""
    assert judged_line(replace(record, state=state, landed_as="c" * 40, note=note)).plain == said


def test_a_deferral_is_not_counted_as_a_requeue(record: ChangesetRecord) -> None:
    """B-02: the seeds' sample counted it as one."""
    states = [ChangesetState.LANDED, ChangesetState.REJECTED, ChangesetState.DEFERRED, ChangesetState.FORMED]
    assert tally([replace(record, state=state) for state in states]) == (
        "1 changeset approved, 1 re-queued, 1 deferred."
    )
    assert tally([replace(record, state=ChangesetState.REJECTED)] * 2) == "2 changesets re-queued."
    assert tally([]) == "No changeset has been judged."


def test_the_changeset_for_machines(record: ChangesetRecord) -> None:
    told = changeset_json(record)
    assert told["tasks"] == ["task-001", "task-002"]
    assert told["build"]["added"] == 520
    assert told["build"]["checks"][0] == {"name": "ruff check .", "passed": True, "exit_code": 0, "seconds": 0.4}
    assert changeset_json(replace(record, build=None))["build"] is None
    assert TASKS[0].id in told["tasks"]
