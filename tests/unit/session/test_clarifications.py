"""Questions of agents: how they are read, who gets the answer, and what is shown without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.attempt import Attempt, Ending
from blueflame.model.event import (
    AttemptCancelled,
    AttemptIntended,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    MessageSent,
    TaskMoved,
)
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.limits import Limits
from blueflame.model.question import MAX_OPTIONS, Question
from blueflame.model.task import Cause, Task, TaskState
from blueflame.model.workflow import Workflow
from blueflame.session.clarifications import (
    MAX_ANSWER_CHARS,
    MAX_QUESTION_CHARS,
    find_answer_text,
    list_assumptions,
    list_clarifications,
    parse_question,
)
from blueflame.session.gates.questions import answer_error
from blueflame.session.state import Session
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import Simulation, ask_questions, build_opening
from support.event_strategies import json_objects

TASKS = tuple(Task(id=f"task-00{n}", title=f"Task {n}", description="", file_locks=(f"src/{n}.py",)) for n in (1, 2))
BOUNDS = Limits(max_questions=3, question_wait=60.0, max_retries=0)
PATIENT = replace(BOUNDS, question_wait=0.0)
FLOW = Workflow(name="flow", stages=("plan", "work", "validate", "merge"), barrier=False)


class Asking(SimulatedOutcomes):
    """The first attempt of some roles at task-001 ends with a question."""

    def __init__(self, *roles: str, reply: Answer | None, times: int = 1) -> None:
        super().__init__(TASKS)
        self.roles, self.reply, self.times = roles, reply, times

    def pick_ending(self, attempt: Attempt) -> Ending:
        first = attempt.n <= self.times and attempt.subject in ("task-001", "plan")
        return Ending.QUESTION if first and attempt.role in self.roles else Ending.PASSED

    def answer(self, gate: Gate, session: Session) -> Answer | None:
        return self.reply if gate.kind is GateKind.CLARIFICATION else super().answer(gate, session)


def simulate(outcomes: SimulatedOutcomes, limits: Limits = BOUNDS, *, workflow: Workflow = FLOW) -> Simulation:
    return Simulation(outcomes, [build_opening(workflow=workflow, limits=limits)])


def list_events(world: Simulation, kind: type) -> list[Any]:
    return [recorded.event for recorded in world.journal if isinstance(recorded.event, kind)]


def read_gate(world: Simulation) -> Gate:
    return next(gate for gate in world.session.gates.values() if gate.kind is GateKind.CLARIFICATION)


@pytest.mark.parametrize("role", ["planner", "worker", "validator"])
@pytest.mark.parametrize("workflow", [FLOW, Workflow()])
def test_after_the_answer_the_next_attempt_starts_and_no_retry_is_counted(role: str, workflow: Workflow) -> None:
    world = simulate(Asking(role, reply=Answer(choice="answer", note="2")), workflow=workflow).run()
    assert world.session.outcome == "completed"
    assert {record.retries for record in world.session.tasks.values()} == {0}
    subject = "plan" if role == "planner" else "task-001"
    (settled,) = list_clarifications(world.session, subject)
    assert settled.answer == "the second"
    assert list(list_assumptions(world.session, subject)) == []
    assert max(r.attempt.n for r in world.session.attempts.values() if r.attempt.role == role) == 2


def test_other_work_continues_and_the_task_keeps_its_locks_meanwhile() -> None:
    world = simulate(Asking("worker", reply=None), replace(BOUNDS, question_wait=1000.0, workers=1))
    while world.session.count_in_state(TaskState.VALIDATED) == 0 and world.step():
        pass
    assert world.session.tasks["task-001"].state is TaskState.CLAIMED
    assert world.session.tasks["task-002"].state is TaskState.VALIDATED
    assert world.session.list_waiting_for_answer() == ("task-001",)
    assert world.run().session.outcome == "completed"


def test_without_an_answer_in_time_the_guess_counts_and_is_shown_with_the_changeset() -> None:
    world = simulate(Asking("worker", reply=None)).run()
    assert world.session.outcome == "completed"
    (answered,) = [each for each in list_events(world, GateAnswered) if "clarification" in each.gate]
    assert (answered.answer.choice, answered.answer.by) == ("guess", "default")
    shown = [
        each.gate.evidence["assumptions"]
        for each in list_events(world, GateOpened)
        if each.gate.kind is GateKind.CHANGESET
    ]
    assert ["task-001 asked 'which one?', got no answer and assumed 'the first'"] in shown


def test_a_wait_without_limit_is_never_ended_by_the_clock() -> None:
    world = simulate(Asking("worker", reply=None), PATIENT).run()
    assert world.session.is_asking(GateKind.CLARIFICATION, "task-001")
    assert not world.session.ended


def test_an_agent_that_asks_too_often_is_judged_like_any_other() -> None:
    world = simulate(Asking("worker", reply=Answer(choice="guess"), times=99), replace(BOUNDS, max_questions=2)).run()
    asked = [gate for gate in world.session.gates.values() if gate.kind is GateKind.CLARIFICATION]
    assert [gate.id for gate in asked] == ["clarification-task-001", "clarification-task-001-2"]
    assert Cause.FAIL in [moved.cause for moved in list_events(world, TaskMoved) if moved.task == "task-001"]


def test_a_task_continues_from_its_commits_after_a_question_even_where_retries_start_again() -> None:
    reply = Answer(choice="answer", note="yes")
    world = simulate(Asking("worker", reply=reply), replace(BOUNDS, retry_from="scratch")).run()
    second = [e.attempt for e in list_events(world, AttemptIntended) if e.attempt.id.endswith("task-001.worker.2")]
    assert second[0].continues is not None
    assert second[0].continues.attempt.endswith("task-001.worker.1")


def ask_live(world: Simulation, *, until: float = 0.5) -> None:
    world.send(ask_questions, at=until)
    while not world.session.is_asking(GateKind.CLARIFICATION) and world.step():
        pass


class Patient(Asking):
    def pick_minutes(self, attempt: Attempt) -> float:
        return 5.0


def answer_now(choice: str) -> Any:  # noqa: ANN401 (a message of the simulation)
    def build(session: Session) -> list[GateAnswered]:
        names = [name for name, gate in session.open_gates.items() if gate.kind is GateKind.CLARIFICATION]
        return [GateAnswered(gate=name, answer=Answer(choice=choice, note="this", by="Ада")) for name in names[:1]]

    return build


def test_an_agent_that_waits_gets_the_answer_as_a_message_and_no_attempt_ends() -> None:
    world = simulate(Patient(reply=None), PATIENT)
    ask_live(world)
    world.send(answer_now("answer"), at=world.now + 0.1)
    world.run()
    sent = list_events(world, MessageSent)[0]
    assert (sent.text, sent.by, sent.gate.startswith("clarification-")) == ("this", "Ада", True)


def test_without_an_answer_the_waiting_agent_is_asked_to_continue_with_its_guess() -> None:
    world = simulate(Patient(reply=None), replace(BOUNDS, question_wait=1.0))
    ask_live(world)
    world.run()
    words = list_events(world, MessageSent)[0].text
    assert "best guess: the first" in words
    assert world.session.outcome == "completed"


def test_a_lost_agent_leaves_its_question_open_for_the_next_attempt() -> None:
    world = simulate(Patient(reply=None), PATIENT, workflow=Workflow(stages=("work", "merge")))
    ask_live(world)
    (name,) = world.session.live
    world.send(lambda _session: world._end_attempt(world.session.attempts[name].attempt, Ending.LOST), at=world.now)
    world.send(answer_now("answer"), at=world.now + 1)
    world.step()
    assert world.session.is_asking(GateKind.CLARIFICATION)
    assert not world.session.live
    world.run()
    assert list_events(world, MessageSent) == []
    assert world.session.outcome == "completed"


@pytest.mark.parametrize("ending", [Ending.CRASHED, Ending.CANCELLED, Ending.PASSED])
def test_a_question_of_an_agent_that_ended_for_good_is_withdrawn(ending: Ending) -> None:
    world = simulate(Patient(reply=None), PATIENT, workflow=Workflow(stages=("work", "merge")))
    ask_live(world)
    (name,) = world.session.live
    attempt = world.session.attempts[name].attempt
    cancel = [AttemptCancelled(attempt=name, reason="by a person")] if ending is Ending.CANCELLED else []
    world.send(lambda _session: [*cancel, *world._end_attempt(attempt, ending)], at=world.now)
    world.run()
    assert len(list_events(world, GateWithdrawn)) == 1
    assumed = bool(list(list_assumptions(world.session, attempt.subject)))
    assert assumed == (ending is Ending.PASSED)


def test_too_long_an_answer_is_refused_and_the_gate_stays_open() -> None:
    world = simulate(Asking("worker", reply=None), PATIENT).run()
    wrong = answer_error(world.session, read_gate(world).id, Answer(choice="answer", note="x" * 2001))
    assert f"the limit is {MAX_ANSWER_CHARS:,}" in wrong
    assert "needs a note" in answer_error(world.session, read_gate(world).id, Answer(choice="answer"))


@pytest.mark.parametrize(
    ("note", "words"),
    [("1", "the first"), ("2", "the second"), ("3", "3"), ("0", "0"), ("²", "²"), (" both ", "both")],
)
def test_a_number_chooses_one_of_the_options(note: str, words: str) -> None:
    gate = read_gate(simulate(Asking("worker", reply=None), PATIENT).run())
    assert find_answer_text(gate, Answer(choice="answer", note=note)) == words


@pytest.mark.parametrize(
    "found",
    [
        None,
        {},
        {"question": ""},
        {"question": "  "},
        {"question": 5},
        {"question": "a", "guess": None},
        {"question": "a", "options": "b"},
        {"question": "a", "options": [1]},
        {"question": "a", "status": "pass"},
        {"tasks": []},
    ],
)
def test_anything_else_is_no_question(found: Mapping[str, Any] | None) -> None:
    assert parse_question(found) is None


def test_a_question_is_cut_and_says_so() -> None:
    asked = parse_question({"question": "why? " * 9000, "guess": "g" * 9000, "options": ["o" * 900] * 20})
    assert asked is not None
    assert len(asked.text) <= MAX_QUESTION_CHARS
    assert "characters cut" in asked.text
    assert "characters cut" in asked.guess
    assert len(asked.options) == MAX_OPTIONS
    assert parse_question({"question": " why? "}) == Question(text="why?")


@given(json_objects | st.fixed_dictionaries({"question": st.text()}, optional={"guess": st.text()}))
def test_whatever_an_agent_answers_is_a_question_of_limited_length_or_none(found: dict[str, Any]) -> None:
    asked = parse_question(found)
    assert asked is None or 0 < len(asked.text) <= MAX_QUESTION_CHARS
