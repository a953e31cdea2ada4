from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.cli.console import render_text
from blueflame.cli.gates.view import build_gate_context
from blueflame.cli.render.session import render_summary
from blueflame.cli.render.status import render_commands, render_gates, render_status
from blueflame.model.activity import Health, HealthReport
from blueflame.model.attempt import Ending
from blueflame.model.event import CycleEnded, Event, GateAnswered, SessionEnded
from blueflame.model.gate import FORMS, Answer, Gate, GateKind
from blueflame.model.spend import Spend
from blueflame.orchestrator.engine.presence import RunningCommand
from blueflame.session.consequences import consequences_of
from blueflame.session.estimate import estimate_cost
from blueflame.views.session import build_status_view, build_summary_view
from support.recorded_session import Story


def tell(story: Story, event: Event) -> None:
    """The event with all that follows from it, as the conductor records them."""
    story.tell(*tuple(consequences_of(story.session, event, story.now)), seconds=0)


@pytest.fixture
def cycle_over() -> Story:
    """One changeset landed, one was rejected."""
    story = Story().reviewing()
    tell(story, GateAnswered(gate="changeset-cs-1-auth", answer=Answer(choice="skip")))
    story = Story().reviewing()
    del story.session.open_gates["changeset-cs-1-auth"]
    story.lands("cs-1-auth").presents("cs-1-api")
    (gate,) = story.session.open_gates
    tell(story, GateAnswered(gate=gate, answer=Answer(choice="reject", note="примеры не работают")))
    tell(story, CycleEnded(cycle=1))
    return story


def test_a_cycle_is_summed_up_before_the_next(cycle_over: Story) -> None:
    (gate,) = cycle_over.session.open_gates.values()
    assert gate.kind is GateKind.SESSION
    assert render_text(build_gate_context(cycle_over.session, gate).view, width=80) == (
        """\
Wave cycle 1 complete    1 changeset approved, 1 re-queued · ses-20260206-143022
────────────────────────────────────────────────────────────────────────────────
  Approved:        1 changeset (merged to main)
  Re-queued:       1 task (task-003)
  Blocked:         0 tasks
  Session budget:  $1.68 / $10.00 USD limit

  ✓ [auth] landed as cccccccccc: task-001, task-002
  → [api] rejected, re-queued with your reason: task-003

  To change what has not landed, edit .blueflame/tasks.yaml, then continue.
"""
    )


def test_the_summary_tells_what_landed_what_did_not_and_what_it_cost(cycle_over: Story) -> None:
    session = cycle_over.session
    cycle_over.tell(SessionEnded(outcome="stopped", reason="by terminal"))
    estimate = estimate_cost([record.task for record in session.tasks.values()], session.limits)
    assert render_text(render_summary(build_summary_view(session, now=0.0, estimate=estimate)), width=100) == (
        """\
Session summary                                                                  ses-20260206-143022
────────────────────────────────────────────────────────────────────────────────────────────────────
  Outcome:   stopped (by terminal)
  Tasks:     2 of 3 landed in 1 cycle
  Attempts:  4 (3 passed, 1 timeout)
  Checks:    ruff check . passed; pytest passed
  Time:      4 min 26 s (4 min 08 s of agents' work)
  Cost:      $1.68 / $10.00 USD limit; estimated $1.15 - $9.15 (base - with retries)

Landed on main
  ✓  cccccccccc  [auth] Add JWT  task-001, task-002

Not landed
  ↻  task-003  requeued  Обновить документацию маршрутов  rejected: примеры не работают

Cost by role
  role    attempts  tokens   cost      estimated
  worker         4  49,800  $1.68  $0.60 - $6.75

Cost by agent
  agent            for          ending         time  tokens   cost  budget
  worker-992ee207  task-001 #1  passed   1 min 02 s  12,450  $0.42   $1.50
  worker-6207378b  task-003 #1  timeout  1 min 02 s  12,450  $0.42   $1.50
  worker-53e2ed57  task-003 #2  passed   1 min 02 s  12,450  $0.42   $1.50
  worker-cfca1dc8  task-002 #1  passed   1 min 02 s  12,450  $0.42   $1.50
"""
    )


def test_a_summary_without_landings_says_so() -> None:
    assert "Nothing has landed." in render_text(render_summary(build_summary_view(Story().planned().session, now=0.0)))


def test_status_says_that_a_planner_talks_with_a_person() -> None:
    story = Story().working()
    name = next(iter(story.session.live))
    record = story.session.attempts[name]
    story.session.attempts[name] = replace(record, attempt=replace(record.attempt, interactive=True))
    shown = render_text(render_status(build_status_view(story.session, now=story.now), now=story.now), width=100)
    assert f"talks with a person at its terminal: blueflame attach {record.attempt.agent_id}" in shown
    assert shown.count("blueflame attach") == 1


def test_status_shows_who_is_at_work() -> None:
    story = Story().working()
    now = story.now + 10
    (first, second) = story.session.live
    checkups = {
        first: HealthReport(
            state=Health.WORKING,
            agent_pid=4711,
            last_output=now - 3,
            said="editing \x1b[31mjwt.go\nnow",
            spend=Spend(micro_usd=420_000, input_tokens=12_449),
        ),
        second: HealthReport(state=Health.LOST, why="its warden is gone"),
    }
    assert render_text(
        render_status(build_status_view(story.session, now=now, checkups=checkups), now=now), width=80
    ) == (
        """\
Session status                                               ses-20260206-143022
────────────────────────────────────────────────────────────────────────────────
  Request:  Add authentication to the API, with tests and documentation
  State:    cycle 1, work
  Started:  16 s ago
  Budget:   ~$0.42 / $10.00 USD limit

Running agents
  agent            for           pid   age  silent  tokens   cost  state
  worker-992ee207  task-001 #1  4711  0:11    0:03   12.4k  $0.42  working
    editing ␛[31mjwt.go now
  worker-6207378b  task-003 #1        0:10               0  $0.00  lost
    its warden is gone

Locks held
  task      agent             for  locks
  task-001  worker-992ee207  12 s  pkg/middleware/, internal/auth/
  task-003  worker-6207378b  11 s  docs/api reference/

Tasks
  ▸  task-001  claimed  Add JWT middleware to API router
  ·  task-002  pending  Add auth tests  waits for task-001
  ▸  task-003  claimed  Обновить документацию маршрутов
"""
    )


def test_gates_are_listed_with_the_way_to_answer_them() -> None:
    story = Story().planned()
    assert render_text(render_gates(list(story.session.open_gates.values())), width=80) == (
        """\
Waiting for an answer
  plan  plan  Approve the plan of 3 tasks?  approve | edit | replan | quit
  Answer with: blueflame answer plan CHOICE
"""
    )
    assert render_text(render_gates([])) == "No open gates.\n"


@pytest.mark.parametrize("kind", list(GateKind))
def test_every_kind_of_gate_has_a_view(kind: GateKind) -> None:
    story = Story().reviewing()
    subject = {GateKind.CHANGESET: "cs-1-auth", GateKind.VALIDATION: "task-003", GateKind.VALIDATOR: "task-003"}
    gate = Gate(
        id="g",
        kind=kind,
        subject=subject.get(kind, kind.value),
        title="?",
        options=FORMS[kind].options,
        default="",
        evidence={"notes": "плохо\n\x1b[31m" * 30, "issues": ["no tests"], "reason": "crashed", "changes": ["workers"]}
        | {
            "agent": "worker-1",
            "attempt": "a",
            "question": "Which\x1b[31m port?",
            "guess": "8080",
            "options": ["8080", "9090"],
        },
    )
    text = render_text(build_gate_context(story.session, gate).view)
    assert text.strip()
    assert "\x1b" not in text


def test_a_kind_of_gate_without_a_view_of_its_own_shows_all_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blueflame.views.gates.BUILDERS", {})
    evidence = {"paths": ["a.py", "b\x1b[31m.py"], "cost_usd": 3}
    form = FORMS[GateKind.OVERLAP]
    gate = Gate(
        id="g", kind=GateKind.OVERLAP, subject="x", title="Why?", options=form.options, default="", evidence=evidence
    )
    text = render_text(build_gate_context(Story().session, gate).view)
    for words in ("Overlap", "Why?", "Paths:", "a.py, b␛[31m.py", "Cost usd:", "3"):
        assert words in text


def test_a_failed_validation_shows_the_verdict_and_what_was_tried_before() -> None:
    story = Story().working().ends("task-003", Ending.STALLED)
    gate = Gate(
        id="g",
        kind=GateKind.VALIDATION,
        subject="task-003",
        title="?",
        options=FORMS[GateKind.VALIDATION].options,
        default="requeue",
        evidence={"notes": "The examples\ndo not run.", "issues": ["docs/a.md: broken"], "by": "validator-1a2b3c4d"},
    )
    context = build_gate_context(story.session, gate)
    assert render_text(context.view) == (
        """\
Validation failed                               by validator-1a2b3c4d · task-003
────────────────────────────────────────────────────────────────────────────────

  │  The examples
  │  do not run.

  ✗  docs/a.md: broken

Earlier attempts
  ·  attempt 1  failed  stalled
"""
    )
    assert [task.id for task in context.tasks] == ["task-003"]


def test_checks_and_hooks_are_shown_while_they_run() -> None:
    now = 1_770_000_000.0
    each = RunningCommand(name="check.task-001-01.1", pid=12, warden_pid=11, since=now - 90, last_output=now - 4)
    shown = render_text(render_commands([each], now=now), width=80)
    assert shown == (
        "\n"
        "Running checks and hooks\n"
        "  command              pid         age  silent\n"
        "  check.task-001-01.1   12  1 min 30 s   4.0 s\n"
    )
