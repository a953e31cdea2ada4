from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.event import BaseLost, ConfigDrifted, PlanFailed
from blueflame.model.gate import FORMS, Answer, Gate, GateKind
from blueflame.model.limits import Limits
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.session.gates.answers import HANDLERS
from blueflame.session.gates.edits import build_edit_payload
from blueflame.session.gates.questions import (
    answer_error,
    open_base_gate,
    open_drift_gate,
    open_plan_gate,
    parse_raised_limit,
)
from blueflame.session.replay import replay
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation, build_opening
from support.session_examples import SINGLE, Outcomes, events, reported, task


def waiting_at(kind: GateKind, **outcomes: object) -> Simulation:
    """A session that stops at the first gate of this kind."""
    return reported(Outcomes(task(1), task(2, 1), answers={kind.value: None}, **outcomes))  # type: ignore[arg-type]  # by name


def offered(gate: Gate) -> list[str]:
    return [option.name for option in gate.options]


@pytest.mark.parametrize("kind", GateKind)
def test_every_safe_default_is_an_option_and_keys_differ(kind: GateKind) -> None:
    assert FORMS[kind].safe in {option.name for option in FORMS[kind].options}
    keys = [option.key for option in FORMS[kind].options]
    assert len(set(keys)) == len(keys)


BEFORE = (GateKind.RESUME, GateKind.STALE)  # asked before there is a session


def test_every_option_that_can_be_chosen_leads_somewhere() -> None:
    asked_elsewhere = {GateKind.RESUME, GateKind.STALE, GateKind.REQUEST}  # before a session, and by the house
    options = {
        (kind, option.name) for kind in GateKind for option in FORMS[kind].options if kind not in asked_elsewhere
    }
    assert set(HANDLERS) == options


@pytest.mark.verification(41)
def test_an_empty_plan_is_shown_and_cannot_be_approved() -> None:
    """T41."""
    world = reported(Outcomes(answers={"plan": None}))
    (gate,) = world.session.open_gates.values()
    (problem,) = gate.evidence["problems"]
    assert problem.startswith("the plan has no tasks")
    assert offered(gate) == ["edit", "replan", "quit"]


@pytest.mark.verification(30)
def test_a_plan_that_was_rejected_three_times_is_to_be_written_by_hand() -> None:
    """T30."""
    answers: dict[str, str | Answer | None] = {"plan": "replan", "plan-2": "replan", "plan-3": "replan", "plan-4": None}
    (gate,) = reported(Outcomes(task(1), answers=answers)).session.open_gates.values()
    assert gate.id == "plan-4"
    assert offered(gate) == ["approve", "edit", "quit"]
    assert gate.title.endswith("asked 3 times: write the plan by hand (edit) or quit.")


def test_a_planner_that_gives_no_plan_twice_leads_to_a_question() -> None:
    (gate,) = reported(
        Outcomes(plans={1: "nonsense", 2: "more nonsense"}, answers={"plan": None})
    ).session.open_gates.values()
    assert gate.title == "The plan cannot be used."
    assert gate.evidence["problems"] == ["nonsense", "more nonsense"]
    assert offered(gate) == ["edit", "replan", "quit"]


def test_a_planner_that_gives_no_plan_is_asked_again() -> None:
    world = reported(Outcomes(task(1), plans={1: "nonsense"}))
    assert [failed.round for failed in events(world, PlanFailed)] == [1]
    assert next(iter(world.session.gates.values())).evidence["problems"] == []
    assert world.session.outcome == "completed"


def test_a_new_plan_needs_a_note() -> None:
    session = waiting_at(GateKind.PLAN).session
    assert "needs a note" in answer_error(session, "plan", Answer(choice="replan"))


def test_without_a_planner_replan_is_not_offered() -> None:
    world = reported(Outcomes(answers={"changeset": "skip", "session": None}), SINGLE)
    assert offered(world.session.open_gates["session-cycle-1"]) == ["continue", "stop"]


def test_a_configuration_that_cannot_be_read_cannot_be_used() -> None:
    session = replay([build_opening()])
    broken = ConfigDrifted(digest="", changes=("line 3: no such key",), limits=session.limits)
    assert offered(open_drift_gate(session, broken).gate) == ["keep", "stop"]
    changed = ConfigDrifted(digest="d", changes=("limits",), limits=Limits(workers=9))
    assert offered(open_drift_gate(session, changed).gate) == ["use", "keep", "stop"]


def test_a_question_asked_again_has_a_name_of_its_own() -> None:
    session = replay([build_opening()])
    session.gate_counts[GateKind.PLAN, "plan"] = 1
    assert open_plan_gate(session).gate.id == "plan-2"


def test_an_answer_to_a_gate_that_is_not_there_names_those_that_are() -> None:
    session = waiting_at(GateKind.CHANGESET).session
    assert answer_error(session, "changeset-cs-009", Answer(choice="approve")) == (
        "there is no open gate changeset-cs-009; open gates: changeset-cs-001"
    )
    assert answer_error(session, "cs-001", Answer(choice="approve")) == (
        "there is no open gate cs-001: the one about it is changeset-cs-001"
    )


def test_a_late_answer_is_refused_with_the_first_answer() -> None:
    session = reported(Outcomes(task(1))).session
    wrong = answer_error(session, "plan", Answer(choice="quit", by="Телеграм"))
    assert wrong == "gate plan was already answered: approve (by terminal)"


def test_an_option_that_is_not_offered_is_refused() -> None:
    session = waiting_at(GateKind.CHANGESET).session
    wrong = answer_error(session, "changeset-cs-001", Answer(choice="drop"))
    assert wrong == "gate changeset-cs-001 does not offer 'drop'; choose one of: approve, reject, skip"


@pytest.mark.parametrize("note", ["", "  \n"])
def test_a_rejection_needs_a_reason(note: str) -> None:
    session = waiting_at(GateKind.CHANGESET).session
    assert "needs a note" in answer_error(session, "changeset-cs-001", Answer(choice="reject", note=note))
    assert not answer_error(session, "changeset-cs-001", Answer(choice="reject", note="нет"))
    assert not answer_error(session, "changeset-cs-001", Answer(choice="skip"))


def validation() -> Session:
    return waiting_at(GateKind.VALIDATION, refused={"task-002.validator.1"}).session


BAD_EDITS = {
    "nothing": {},
    "no tasks": {"tasks": []},
    "not a list": {"tasks": 7},
    "not a task": {"tasks": [7]},
    "unknown field": {"tasks": [{"id": "task-002", "title": "t", "description": "d", "colour": "red"}]},
    "field missing": {"tasks": [{"id": "task-002"}]},
    "another task": build_edit_payload([task(1)]),
    "one too many": build_edit_payload([task(2, 1), task(1)]),
    "wrong type": {"tasks": [{"id": "task-002", "title": "t", "description": "d", "priority": "high"}]},
    "wrong locks": {"tasks": [{"id": "task-002", "title": "t", "description": "d", "file_locks": "src/a.py"}]},
    "climbing lock": build_edit_payload([task(2, locks=("../x",))]),
    "unknown need": build_edit_payload([task(2, 9)]),
    "a ring": build_edit_payload([task(2, 2)]),
}


@pytest.mark.parametrize("payload", BAD_EDITS.values(), ids=BAD_EDITS.keys())
def test_an_edit_that_will_not_do_changes_nothing_and_is_explained(payload: dict[str, object]) -> None:
    assert answer_error(validation(), "validation-task-002", Answer(choice="edit", payload=payload))


def test_an_edit_that_makes_a_ring_with_another_task_is_refused() -> None:
    outcomes = Outcomes(task(1), task(2, 1), task(3, 2), refused={"task-001.validator.1"}, answers={"validation": None})
    session = reported(outcomes).session
    wrong = answer_error(
        session, "validation-task-001", Answer(choice="edit", payload=build_edit_payload([task(1, 3)]))
    )
    assert "task-001" in wrong
    assert "task-003" in wrong


def test_an_edit_of_the_one_task_will_do() -> None:
    payload = build_edit_payload([task(2, 1, locks=("src/new dir/",))])
    assert not answer_error(validation(), "validation-task-002", Answer(choice="edit", payload=payload))


def money(unit: Unit = Unit.USD, limit: int = 5_000_000, spend: Spend | None = None) -> Session:
    world = reported(
        Outcomes(
            task(1), spends={"planner": spend or Spend(micro_usd=limit, input_tokens=limit)}, answers={"budget": None}
        ),
        limits=Limits(session_budget=Budget(unit, limit)),
    )
    assert "budget" in world.session.open_gates
    return world.session


@pytest.mark.parametrize(
    ("text", "limit"),
    [("25", 25_000_000), ("$6.50", 6_500_000), ("1,000", 10**9), ("1_000", 10**9), ("0", 0), (" 7 ", 7_000_000)],
)
def test_a_raise_is_read_as_people_write_it(text: str, limit: int) -> None:
    session, answer = money(), Answer(choice="raise", note=text)
    assert parse_raised_limit(session.open_gates["budget"], answer) == limit
    assert not answer_error(session, "budget", answer)


@pytest.mark.parametrize("text", ["", "much", "-3", "nan", "inf", "-inf", "1e400", "0.0000001", "5", "4.99"])
def test_a_raise_that_is_none_is_refused(text: str) -> None:
    assert answer_error(money(), "budget", Answer(choice="raise", note=text))


def test_a_limit_in_tokens_is_raised_in_tokens() -> None:
    session = money(Unit.TOKENS, 100)
    gate = session.open_gates["budget"]
    assert parse_raised_limit(gate, Answer(choice="raise", note="2,500")) == 2_500
    assert parse_raised_limit(gate, Answer(choice="raise", payload={"limit": 300})) == 300
    assert answer_error(session, "budget", Answer(choice="raise", note="0.4"))  # would be rounded to no limit at all
    assert "tokens" in answer_error(session, "budget", Answer(choice="raise", note="x"))


def test_a_raised_budget_reads_well_afterwards() -> None:
    session = money()
    assert session.open_gates["budget"].evidence["budget"] == "$5.00 / $5.00"
    assert replace(session.limits.session_budget, limit=0).unlimited


@pytest.mark.parametrize(
    ("found", "way"),
    [("", "git branch main ffffffffffff"), ("e" * 40, "git switch main && git reset --keep ffffffffffff")],
)
def test_the_way_back_to_a_base_works_also_where_it_is_checked_out(found: str, way: str) -> None:
    """`git branch -f` refuses that."""
    session = waiting_at(GateKind.PLAN).session
    opened = open_base_gate(session, BaseLost(branch="main", expected="f" * 40, found=found))
    assert opened.gate.evidence["ways"][0] == f"put it back: {way}"
