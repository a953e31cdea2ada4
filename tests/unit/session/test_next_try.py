"""When a task that failed is tried again, by whom, and how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.attempt import Attempt, Duty, Ending
from blueflame.model.event import (
    AttemptIntended,
    BackoffEnded,
    ConfigDrifted,
    CycleStarted,
    GateOpened,
    JournalEntry,
    OrchestratorStarted,
    RuntimeParked,
    TaskMoved,
    TasksImported,
)
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.limits import Limits
from blueflame.model.task import Assignment, Cause, TaskRecord, TaskState
from blueflame.model.workflow import Workflow, build_stages
from blueflame.session.gates.questions import answer_error
from blueflame.session.next_try import JITTER, MAX_BACKOFF_SECONDS, find_retry_moment, is_backoff_over
from blueflame.session.replay import replay
from blueflame.session.requests.tasks import find_retry_problem
from blueflame.session.retries import retry_task
from blueflame.session.state import Session
from blueflame.testing.simulation import Simulation
from blueflame.views.session import build_session_json, build_status_view, find_wait_reason
from support.session_examples import FLOW, Outcomes, begun, events, moves, reported, states, task

OPUS, CODEX = Assignment(model="opus"), Assignment(runtime="codex", model="gpt-5.5")
BASE = Limits(max_retries=3, retry_wait=30.0)
MODELS = {"role_models": {"worker": "sonnet"}, "role_runtimes": {"worker": "claude"}}
LADDER = Limits(max_retries=1, ladder=(OPUS, CODEX), makers=("worker", "backend"), **MODELS)  # type: ignore[arg-type] # the values fit
ASKING = replace(LADDER, on_exhausted="ask", max_retries=0, ladder=())


def fail(*attempts: int, n: int = 1) -> dict[str, Ending]:
    return {f"task-{n:03}.worker.{each}": Ending.FAILED for each in attempts}


def made(world: Simulation, name: str = "task-001") -> list[Attempt]:
    intended = (event.attempt for event in events(world, AttemptIntended))
    return [each for each in intended if each.subject == name and each.duty is Duty.MAKE]


def at(world: Simulation, kind: type) -> list[float]:
    return [recorded.at for recorded in world.journal if isinstance(recorded.event, kind)]


def retries(world: Simulation) -> list[TaskMoved]:
    return [event for event in events(world, TaskMoved) if event.cause is Cause.RETRY]


# --- the wait


def test_the_wait_before_a_retry_is_the_base_and_doubles() -> None:
    world = reported(Outcomes(task(1), endings=fail(1, 2, 3)), limits=BASE)
    assert world.session.outcome == "completed"
    begins = [each.begins for each in world.schedule if each.attempt.duty is Duty.MAKE]
    ends = [each.ends for each in world.schedule if each.attempt.duty is Duty.MAKE]
    waits = [begin - end for begin, end in zip(begins[1:], ends, strict=False)]
    for wait, plain in zip(waits, (30.0, 60.0, 120.0), strict=True):
        assert plain <= wait <= plain * (1 + JITTER)
    assert at(world, BackoffEnded) == [event.until for event in retries(world)] == begins[1:]


def test_without_a_base_a_retry_begins_at_once() -> None:
    world = reported(Outcomes(task(1), endings=fail(1)), limits=Limits())
    assert [event.until for event in retries(world)] == [0.0]
    assert events(world, BackoffEnded) == []


def test_a_wait_is_never_longer_than_an_hour_or_the_base() -> None:
    record = TaskRecord(task=task(1), retries=40)
    limits = Limits(max_retries=100, retry_wait=30.0)
    assert find_retry_moment(limits, record, 0.0) <= MAX_BACKOFF_SECONDS * (1 + JITTER)
    assert find_retry_moment(replace(limits, retry_wait=7200.0), record, 0.0) >= 7200.0


def test_a_clock_that_was_set_back_does_not_make_a_task_wait_for_years() -> None:
    until = find_retry_moment(BASE, TaskRecord(task=task(1)), 1_000_000.0)
    assert not is_backoff_over(BASE, until, 1_000_000.0)
    assert is_backoff_over(BASE, until, until)
    assert is_backoff_over(BASE, until, 0.0)


@pytest.mark.parametrize("workflow", [Workflow(), FLOW])
def test_other_tasks_start_meanwhile_also_with_its_slot_and_its_locks(workflow: Workflow) -> None:
    same = ("src/same.py",)
    first, second = task(1, locks=same, priority=1), task(2, locks=same)
    world = reported(Outcomes(first, second, endings=fail(1)), workflow, replace(BASE, workers=1))
    assert world.session.outcome == "completed"
    order = [event.attempt.id.partition(".")[2] for event in events(world, AttemptIntended)]
    assert order.index("task-001.worker.1") < order.index("task-002.worker.1") < order.index("task-001.worker.2")


def test_a_barrier_waits_for_a_task_that_is_tried_again_later() -> None:
    world = reported(Outcomes(task(1), task(2), endings=fail(1)), limits=BASE)
    assert (world.session.outcome, world.session.cycle) == ("completed", 1)


def waiting() -> Simulation:
    """A world in which task 1 failed and waits."""
    world = begun(Outcomes(task(1), endings=fail(1)), limits=BASE)
    while not world.session.waiting:
        assert world.step()
    return world


@pytest.mark.parametrize("later", [0.0, 20.0, 500.0])
def test_after_a_crash_it_waits_only_for_the_rest(later: float) -> None:
    world = waiting()
    until = world.session.waiting["task-001"]
    cut = [*world.journal, JournalEntry(len(world.journal) + 1, world.now + later, OrchestratorStarted(pid=2))]
    again = Simulation(world.outcomes, cut)
    assert again.session.waiting == {"task-001": until}
    again.run()
    assert at(again, BackoffEnded) == [max(until, world.now + later)]
    assert again.session.outcome == "completed"


def test_every_view_says_when_it_is_tried_again() -> None:
    world = waiting()
    session, until = world.session, world.session.waiting["task-001"]
    assert find_wait_reason(session, "task-001", until - 25) == "is tried again in 25 s: retry 1 of 3"
    assert find_wait_reason(session, "task-001", until + 1) == "is tried again now: retry 1 of 3"
    (line,) = build_status_view(session, now=until - 25).tasks
    assert line.note.startswith("is tried again in 25 s: retry 1 of 3; failed")
    (shown,) = build_session_json(session, now=until - 25)["tasks"]
    assert (shown["retry_at"], shown["retries"]) == (until, 1)


def test_a_person_can_end_the_wait() -> None:
    world = waiting()
    assert find_retry_problem(world.session, "task-001") == ""
    world.send(lambda session: tuple(retry_task(session, "task-001", "", 0.0)), at=world.now)
    begins = world.now
    world.run()
    assert at(world, BackoffEnded)[0] == begins
    assert world.session.outcome == "completed"


def test_a_task_that_was_dropped_or_blocked_waits_no_more() -> None:
    world = waiting()
    for cause in (Cause.BLOCK, Cause.DROP):
        entry = JournalEntry(world.session.seq + 1, world.now, TaskMoved(task="task-001", cause=cause))
        assert replay([*world.journal, entry]).waiting == {}


# --- the ladder


def who(attempt: Attempt) -> tuple[str, str, int]:
    return attempt.runtime, attempt.model, attempt.rung


def test_after_the_retries_each_rung_is_tried_once() -> None:
    world = reported(Outcomes(task(1), endings=fail(1, 2, 3)), limits=LADDER)
    assert world.session.outcome == "completed"
    assert list(map(who, made(world))) == [
        ("claude", "sonnet", 0),
        ("claude", "sonnet", 0),
        ("claude", "opus", 1),
        ("codex", "gpt-5.5", 2),
    ]


def test_a_rung_waits_as_the_first_retry_did() -> None:
    limits = replace(LADDER, max_retries=2, retry_wait=30.0)
    world = reported(Outcomes(task(1), endings=fail(1, 2, 3, 4)), limits=limits)
    ends = [each.ends for each in world.schedule if each.attempt.duty is Duty.MAKE]
    waits = [event.until - end for event, end in zip(retries(world), ends, strict=False)]
    assert waits[2:] == pytest.approx([waits[0], waits[0]])
    assert waits[1] == pytest.approx(2 * waits[0])


def test_a_rung_goes_before_the_model_that_the_plan_chose() -> None:
    world = reported(Outcomes(replace(task(1), model="haiku"), endings=fail(1, 2)), limits=LADDER)
    assert [attempt.model for attempt in made(world)] == ["haiku", "haiku", "opus"]


def test_a_rung_whose_model_is_unavailable_does_not_hold_up_others() -> None:
    limits = replace(LADDER, workers=1, max_retries=0, ladder=(CODEX,))
    world = begun(Outcomes(task(1, priority=1), task(2), task(3), endings=fail(1)), limits=limits)
    parked = RuntimeParked(runtime="codex", kind="outage", reason="overloaded", until=100.0)
    world.send(lambda _session: (parked,), at=0.0)
    world.run()
    assert world.session.outcome == "completed"
    assert made(world)[-1].runtime == "codex"
    later = {each.attempt.subject: each.begins for each in world.schedule if each.attempt.duty is Duty.MAKE}
    assert later["task-002"] < later["task-003"] < 100.0 <= later["task-001"]


def test_work_that_reviews_refuse_climbs_the_ladder() -> None:
    limits = replace(LADDER, on_validation_failed="requeue")
    refused = [f"task-001.validator.{n}" for n in (1, 2, 3)]
    world = reported(Outcomes(task(1), refused=refused), limits=limits)
    assert world.session.outcome == "completed"
    assert [attempt.model for attempt in made(world)] == ["sonnet", "sonnet", "opus", "gpt-5.5"]


def test_each_making_stage_begins_with_its_own_role_and_its_own_retries() -> None:
    names = ("backend", "review-git", "worker", "check", "merge")
    duties = {"backend": Duty.MAKE, "worker": Duty.MAKE, "review-git": Duty.JUDGE}
    workflow = Workflow(name="mine", stages=names, barrier=False, steps=build_stages(names, duties))
    ends = {f"task-001.{role}.{n}": Ending.FAILED for role in ("backend", "worker") for n in (1, 2)}
    world = reported(Outcomes(endings=ends), workflow, replace(LADDER, max_attempts=8))
    assert world.session.outcome == "completed"
    assert [(each.role, each.rung) for each in made(world)] == [
        (r, n) for r in ("backend", "worker") for n in (0, 0, 1)
    ]


def test_a_task_whose_workflow_the_plan_chose_has_the_waits_and_the_ladder_of_that_one() -> None:
    own = replace(FLOW, name="own", stages=("work", "check", "merge"), steps=())
    chosen = replace(own, steps=build_stages(own.stages), max_retries=0, retry_wait=7.0, ladder=(OPUS,))
    limits = replace(LADDER, ladder=(), max_retries=0, task_workflows={"own": chosen})
    outcomes = Outcomes(replace(task(1), workflow="own"), task(2), endings={**fail(1), **fail(1, n=2)})
    world = reported(outcomes, FLOW, limits)
    assert list(map(who, made(world))) == [("claude", "sonnet", 0), ("claude", "opus", 1)]
    assert 7.0 <= retries(world)[0].until - 2.0 <= 7.0 * (1 + JITTER)
    assert [event.task for event in retries(world)] == ["task-001"]


# --- the gate


def asked(world: Simulation) -> list[Gate]:
    return [event.gate for event in events(world, GateOpened) if event.gate.kind is GateKind.ESCALATION]


def answered(*replies: Answer, endings: dict[str, Ending], limits: Limits = ASKING) -> Simulation:
    names = ("escalation-task-001", "escalation-task-001-2", "escalation-task-001-3")
    given: dict[str, str | Answer | None] = {"session": "stop", **dict(zip(names, replies, strict=False))}
    return reported(Outcomes(task(1), task(2, 1), endings=endings, answers=given), limits=limits)


def test_a_task_without_a_retry_left_is_asked_about_and_its_dependents_wait() -> None:
    outcomes = Outcomes(task(1), task(2, 1), task(3), endings=fail(1), answers={"escalation": None})
    world = reported(outcomes, FLOW, ASKING)
    assert states(world) == {
        "task-001": TaskState.FAILED,
        "task-002": TaskState.PENDING,
        "task-003": TaskState.MERGED,
    }
    (gate,) = asked(world)
    assert gate.evidence["tried"] == ["worker claude sonnet"]
    assert [option.name for option in gate.options] == ["retry", "reassign", "abort"]


def test_a_retry_at_the_gate_is_one_attempt_with_the_note_and_then_it_is_asked_again() -> None:
    again = Answer(choice="retry", note="the port is 8080")
    world = answered(again, again, endings=fail(1, 2))
    assert world.session.outcome == "completed"
    assert len(asked(world)) == 2
    assert moves(world, "task-001") == ["claim", "fail", "renew"] * 2 + ["claim", "complete", "validate", "land"]
    notes = [entry.notes for entry in world.session.tasks["task-001"].history]
    assert notes == ["failed", "the port is 8080"] * 2


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("model=opus think harder", ("worker", "claude", "opus")),
        ("role=backend", ("backend", "codex", "gpt-5.5")),
        ("runtime=codex", ("worker", "codex", "gpt-5.5")),
        ("runtime=codex, model=gpt-6; more", ("worker", "codex", "gpt-6")),
    ],
)
def test_a_task_can_be_given_to_another(note: str, expected: tuple[str, str, str]) -> None:
    limits = replace(
        ASKING,
        role_models={"worker": "sonnet", "backend": "gpt-5.5"},
        role_runtimes={"worker": "claude", "backend": "codex"},
    )
    world = answered(Answer(choice="reassign", note=note), endings=fail(1), limits=limits)
    assert world.session.outcome == "completed"
    last = made(world)[-1]
    assert (last.role, last.runtime, last.model) == expected
    assert [entry.notes for entry in world.session.tasks["task-001"].history][1:] in (
        [[]] if "=" in note.rsplit(maxsplit=1)[-1] else [["think harder"], ["more"]]
    )


def test_an_assignment_takes_the_place_of_the_ladder() -> None:
    limits = replace(LADDER, max_retries=0, on_exhausted="ask")
    world = answered(Answer(choice="reassign", note="model=fable"), endings=fail(1, 2, 3), limits=limits)
    assert who(made(world)[-1]) == ("claude", "fable", 0)


def test_giving_up_fails_the_task_and_blocks_its_dependents() -> None:
    world = answered(Answer(choice="abort"), endings=fail(1))
    assert states(world) == {"task-001": TaskState.FAILED, "task-002": TaskState.BLOCKED}
    assert world.session.outcome == "stopped"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(choice="retry"), "needs a note"),
        (Answer(choice="reassign", note="try harder"), "role=NAME, model=NAME or runtime=NAME"),
        (Answer(choice="reassign", note="role=bakend"), "no role 'bakend' in this session: did you mean backend?"),
        (Answer(choice="reassign", note="runtime=vi"), "no runtime 'vi' in this session"),
        (Answer(choice="reassign", payload={"model": "opus"}), ""),
        (Answer(choice="reassign", payload={"runtime": "codex"}), "no runtime 'codex'"),
        (Answer(choice="r"), "choose one of: retry, reassign, abort"),
    ],
)
def test_an_answer_that_names_no_one_is_refused(answer: Answer, problem: str) -> None:
    world = reported(Outcomes(task(1), endings=fail(1), answers={"escalation": None}), limits=ASKING)
    found = answer_error(world.session, "escalation-task-001", answer)
    assert (problem in found) if problem else found == ""


def test_the_question_about_a_task_that_a_person_left_out_is_withdrawn() -> None:
    world = reported(Outcomes(task(1), endings=fail(1), answers={"escalation": None}), limits=ASKING)
    world.send(lambda _session: (TasksImported(digest="1", dropped=("task-001",)),), at=world.now)
    world.run()
    assert not world.session.open_gates
    assert states(world) == {"task-001": TaskState.DROPPED}


# --- the ceiling


def count_failures(session: Session, name: str = "task-001") -> int:
    return session.tasks[name].failures


def test_continuing_with_the_next_cycle_does_not_raise_the_ceiling() -> None:
    limits = Limits(max_retries=1, max_attempts=3, max_cycles=9)
    world = reported(Outcomes(task(1), task(2, 1), endings=fail(*range(1, 50))), limits=limits)
    assert world.session.outcome == "max_cycles"
    assert [attempt.n for attempt in made(world)] == [1, 2, 3]
    assert states(world) == {"task-001": TaskState.FAILED, "task-002": TaskState.BLOCKED}
    titles = [each.gate.title for each in events(world, GateOpened) if each.gate.subject.startswith("cycle-")]
    assert "2 tasks left. Continue?" in titles[0]
    assert "'blueflame retry' grants one: task-001" in titles[-1]


def test_a_task_at_its_ceiling_is_asked_about_when_the_session_continues() -> None:
    limits = replace(ASKING, max_attempts=2, on_validation_failed="requeue", max_cycles=4)
    refused = [f"task-001.validator.{n}" for n in range(1, 9)]
    once = Answer(choice="retry", note="read the test first")
    answers: dict[str, str | Answer | None] = {"escalation-task-001": once}
    world = reported(Outcomes(task(1), refused=refused, answers=answers), limits=limits)
    assert [gate.id for gate in asked(world)] == ["escalation-task-001", "escalation-task-001-2"]
    assert len(made(world)) == 3, "two, and the one that a person asked for"


def test_attempts_that_say_nothing_about_the_work_are_not_counted() -> None:
    ends = {f"task-001.worker.{n}": Ending.LOST if n % 2 else Ending.OUTAGE for n in range(1, 7)}
    world = reported(Outcomes(task(1), endings={**ends, **fail(7)}), limits=Limits(max_retries=1, max_attempts=2))
    assert world.session.outcome == "completed"
    assert (count_failures(world.session), len(made(world))) == (1, 8)


def test_a_new_plan_for_the_same_task_does_not_raise_the_ceiling() -> None:
    limits = Limits(max_retries=5, max_attempts=2, max_cycles=2)
    answers: dict[str, str | Answer | None] = {"session": "replan"}
    world = reported(Outcomes(task(1), endings=fail(1, 2, 3, 4), answers=answers), limits=limits)
    assert len(made(world)) == 3, "a new plan tries it once, not as often as at first"
    assert count_failures(world.session) == 3


def test_another_cycle_tries_a_task_once_more_and_gives_it_no_new_retries() -> None:
    world = reported(Outcomes(task(1), endings=fail(*range(1, 9))), limits=Limits(max_retries=1, max_cycles=3))
    assert [len(events(world, CycleStarted)), len(made(world))] == [3, 4], "two in the first, one in each further cycle"


def test_a_task_that_is_unblocked_keeps_its_retries() -> None:
    """Journals of earlier versions have moves that do not say so: those start again with all."""
    limits = Limits(max_retries=1, max_cycles=3)
    world = reported(Outcomes(task(1), task(2, 1), endings=fail(*range(1, 9))), limits=limits)
    unblocked = [event for event in events(world, TaskMoved) if event.cause is Cause.UNBLOCK]
    assert unblocked and all(event.keeps_retries for event in unblocked)


def test_a_task_at_its_ceiling_is_asked_about_also_where_the_task_it_waited_for_is_retried() -> None:
    """It was given up, then blocked with what it depends on: a person's word about that one is not about this one."""
    limits = replace(ASKING, max_attempts=1, on_validation_failed="requeue", max_cycles=4)
    answers: dict[str, str | Answer | None] = {
        "changeset-cs-001": "reject",
        "escalation-task-002-2": Answer(choice="retry", note="once more"),
    }
    refused = ["task-001.validator.1", "task-001.validator.2"]
    world = reported(Outcomes(task(1, 2), task(2), refused=refused, answers=answers), limits=limits)
    assert [len(made(world, name)) for name in ("task-001", "task-002")] == [1, 2]
    assert "unblock" in moves(world, "task-001")
    assert "escalation-task-001-2" in [gate.id for gate in asked(world)]


def test_a_ceiling_that_was_lowered_holds_for_what_is_next() -> None:
    limits = replace(ASKING, max_attempts=8, max_cycles=3, on_validation_failed="requeue")
    lower = ConfigDrifted(digest="lower", changes=("limits.max_attempts: 1",), limits=replace(limits, max_attempts=1))
    refused = ["task-001.validator.1", "task-001.validator.2"]
    world = reported(Outcomes(task(1), refused=refused, drifts={(2, "work"): lower}), limits=limits)
    assert len(made(world)) == 1
    assert [gate.id for gate in asked(world)][:1] == ["escalation-task-001"]


def test_a_verdict_on_work_that_was_deferred_meanwhile_counts_as_one() -> None:
    limits = Limits(max_attempts=3, max_cycles=3, on_validation_failed="requeue")
    slow = {"task-002.validator.1": 9.0}
    answers: dict[str, str | Answer | None] = {"changeset-cs-001": "reject"}
    tasks = (task(1), task(2, 1, group="other"))
    outcomes = Outcomes(*tasks, refused=["task-002.validator.1"], answers=answers, minutes=slow)
    world = reported(outcomes, FLOW, limits)
    assert "defer" in moves(world, "task-002")
    assert count_failures(world.session, "task-002") == 1


def test_in_a_journal_from_before_it_was_recorded_what_a_person_wanted_is_asked_again() -> None:
    limits = replace(ASKING, max_attempts=1)
    once = Answer(choice="retry", note="read the test first")
    world = reported(Outcomes(task(1), endings=fail(1), answers={"escalation": once}), limits=limits)
    (wanted,) = [n for n, each in enumerate(world.journal) if getattr(each.event, "granted", False)]
    renewed = world.journal[wanted]
    assert isinstance(renewed.event, TaskMoved)
    earlier = [*world.journal[:wanted], replace(renewed, event=replace(renewed.event, granted=False))]
    again = Simulation(Outcomes(task(1), answers={"escalation": once}), earlier).run()
    assert [gate.id for gate in asked(again)] == ["escalation-task-001", "escalation-task-001-2"]
    assert again.session.outcome == "completed"
