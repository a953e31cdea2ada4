from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.cli.console import render_text
from blueflame.cli.gates.view import build_gate_context
from blueflame.cli.render.changeset import render_changeset, render_outcome
from blueflame.model.changes import Risk, Weakening
from blueflame.model.changeset import Build, ChangesetRecord, ChangesetState, FileChange, MergeLoss
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.model.verdict import Check, StageVerdict, Verdict, VerdictStatus
from blueflame.session.gates.questions import open_changeset_gate
from blueflame.views.changeset import ChangesetView, build_changeset_json
from support.recorded_session import ID, Story


@pytest.fixture
def record() -> ChangesetRecord:
    return Story().reviewing().session.changesets["cs-1-auth"]


def test_a_changeset_is_shown_as_it_is_judged() -> None:
    story = Story().reviewing()
    (gate,) = story.session.open_gates.values()
    assert render_text(build_gate_context(story.session, gate).view, width=80) == (
        """\
Changeset review      session cost so far: $1.68 · cycle 1 · ses-20260206-143022
────────────────────────────────────────────────────────────────────────────────

Changeset 1/2: [auth] Add JWT
  [2 files changed, +520, -12]
  Tasks: task-001, task-002
  Cost: $0.84
    task-001  Add JWT middleware to API router
    task-002  Add auth tests

  internal/auth/jwt.go    +120  -3
  tests/auth/тест jwt.go  +400  -9

Checks on the commit that would land
  ✓  ruff check .         0.4 s
  ✓  pytest          1 min 15 s
"""
    )


def test_what_must_not_be_overlooked_is_noted(record: ChangesetRecord) -> None:
    short = replace(record, changeset=replace(record.changeset, missing=("task-009",)), note="built\nagain")
    api = replace(record, changeset=replace(record.changeset, group="api"), note="")
    text = render_text(render_changeset(ChangesetView(session=ID, record=short, deferred=(api,))))
    assert "! NOTE: [api] is deferred: it builds on a rejected changeset." in text
    assert "! NOTE: Of the same group, but not in it: task-009." in text
    assert "! NOTE: built again" in text


def test_a_red_check_says_how_it_ended(record: ChangesetRecord) -> None:
    checks = (
        Check(name="pytest", exit_code=1, seconds=3),
        Check(name="slow", exit_code=-9, seconds=120, timed_out=True),
    )
    text = render_text(
        render_changeset(
            ChangesetView(session=ID, record=replace(record, build=Build(base="a", commit="b", checks=checks)))
        )
    )
    assert "✗  pytest  exit 1          3.0 s" in text
    assert "✗  slow    timed out  2 min 00 s" in text


def test_tests_are_shown_beside_those_of_the_base(record: ChangesetRecord) -> None:
    checks = (
        Check(name="pytest", exit_code=0, seconds=3, tests=41, tests_before=40),
        Check(name="npm test", exit_code=0, seconds=3, tests=2, tests_before=40),
        Check(name="go test", exit_code=0, seconds=3, tests_before=7),
    )
    build = Build(base="a", commit="b", checks=checks)
    text = render_text(render_changeset(ChangesetView(session=ID, record=replace(record, build=build))), width=100)
    assert "✓  pytest    41 tests, 40 on the base" in text
    assert "!  npm test  2 tests, 40 on the base" in text
    assert "!  go test   no summary of its tests, 7 on the base" in text


def test_many_files_are_cut_and_one_file_is_singular(record: ChangesetRecord) -> None:
    files = tuple(FileChange(path=f"src/{n:03}.py", added=1, deleted=0) for n in range(40))
    many = render_text(
        render_changeset(
            ChangesetView(session=ID, record=replace(record, build=Build(base="a", commit="b", files=files)))
        )
    )
    assert "[40 files changed, +40, -0]" in many
    assert "… and 28 more, smaller: +28, -0" in many
    one = render_text(
        render_changeset(
            ChangesetView(session=ID, record=replace(record, build=Build(base="a", commit="b", files=files[:1])))
        )
    )
    assert "[1 file changed, +1, -0]" in one


def test_the_cost_so_far_is_in_the_unit_of_the_budget(record: ChangesetRecord) -> None:
    spend = Spend(micro_usd=1, input_tokens=12_450)
    text = render_text(
        render_changeset(ChangesetView(session=ID, record=record, spend=spend, budget=Budget(Unit.TOKENS, 50_000)))
    )
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
        (ChangesetState.BUILT, "  [auth] waiting: task-001, task-002"),
    ],
)
def test_what_came_of_it_is_one_line(record: ChangesetRecord, state: ChangesetState, said: str) -> None:
    note = "conflict" if state is ChangesetState.EVICTED else ""
    assert render_outcome(replace(record, state=state, landed_as="c" * 40, note=note)).plain == said


RISKS = (Risk(kind="dependency", words="adds a dependency: left-pad (package.json)"),)
WEAKENED = (
    Weakening(
        kind="assertions",
        path="tests/test_a.py",
        words="test_adds has 1 of 2 assertions left",
        line=7,
        lines=("- assert add(2, 2) == 4",),
    ),
)
LOSSES = (MergeLoss(task="task-001", path="src/a.py", count=2, lines=("x = 1", "y = 2"), by="task-002"),)


def test_the_largest_of_many_files_are_shown_in_the_order_of_their_names(record: ChangesetRecord) -> None:
    files = tuple(FileChange(path=f"{n:02}.py", added=n, deleted=0) for n in range(20))
    text = render_text(
        render_changeset(
            ChangesetView(session=ID, record=replace(record, build=Build(base="a", commit="b", files=files)))
        )
    )
    assert [line.split()[0] for line in text.splitlines() if ".py" in line] == [f"{n:02}.py" for n in range(8, 20)]
    assert "… and 8 more, smaller: +28, -0" in text


def test_weaker_tests_risks_losses_and_flaky_checks_are_called_out(record: ChangesetRecord) -> None:
    checks = (Check(name="pytest", exit_code=0, seconds=3, flaky=True),)
    build = Build(base="a", commit="b", checks=checks, risks=RISKS, weakened=WEAKENED, losses=LOSSES)
    text = render_text(render_changeset(ChangesetView(session=ID, record=replace(record, build=build))), width=120)
    assert "✓  pytest  flaky: failed at first  3.0 s" in text
    assert (
        """\
Tests check less than before
  !  tests/test_a.py:7: test_adds has 1 of 2 assertions left
       - assert add(2, 2) == 4

Review with care: this changeset
  !  adds a dependency: left-pad (package.json)
"""
        in text
    )
    assert "! NOTE: 2 lines of task-001 in src/a.py are not in the result (changed by task-002): x = 1 | y = 2." in text
    result = build_changeset_json(replace(record, build=build))["build"]
    assert result["risks"] == [{"kind": "dependency", "words": RISKS[0].words, "paths": []}]
    assert result["weakened"][0]["lines"] == ["- assert add(2, 2) == 4"]
    assert result["losses"] == [str(LOSSES[0])]


def test_why_a_task_was_wanted_what_its_reviewer_said_and_what_it_cost_stand_with_it(record: ChangesetRecord) -> None:
    tasks = dict(Story().reviewing().session.tasks)
    task = replace(tasks["task-001"].task, description="Requests without a token\nmust be refused. " + "More. " * 60)
    notes = "Does what it says.\nNo regressions \x1b[31mseen."
    given = [
        StageVerdict(stage=stage, sha="c0ffee", verdict=Verdict(status=VerdictStatus.PASS, notes=text, confidence=sure))
        for stage, text, sure in (("review-git", notes, None), ("qa", "early", 0.2), ("qa", "I saw it work.", 0.9))
    ]
    tasks["task-001"] = replace(tasks["task-001"], task=task, verdicts=tuple(given))
    costs = {"task-001": Spend(micro_usd=1_250_000), "task-009": Spend(micro_usd=9_000_000)}
    text = render_text(render_changeset(ChangesetView(session=ID, record=record, tasks=tasks, costs=costs)), width=300)
    assert "why  Requests without a token must be refused. More. " in text
    assert "…" in text
    assert "review-git  pass: Does what it says. No regressions ␛[31mseen." in text
    assert "qa  pass with confidence 0.9: I saw it work." in text
    assert "early" not in text, "the newest of each stage counts"
    assert "Cost: $1.25" in text


def test_the_gate_of_a_changeset_has_its_evidence_for_those_without_the_screen() -> None:
    story = Story().reviewing()
    (gate,) = story.session.open_gates.values()
    record = story.session.changesets[gate.subject]
    assert record.build is not None
    build = replace(record.build, risks=RISKS, weakened=WEAKENED, losses=LOSSES)
    evidence = open_changeset_gate(story.session, replace(record, build=build)).gate.evidence
    assert evidence["risks"] == [RISKS[0].words]
    assert evidence["weakened"] == ["tests/test_a.py:7: test_adds has 1 of 2 assertions left"]
    assert evidence["losses"] == [str(LOSSES[0])]
    assert [check["seconds"] for check in evidence["checks"]] == [0.4, 75]
    assert set(evidence["why"]) == {"task-001", "task-002"}
    assert evidence["cost_usd"] > 0
