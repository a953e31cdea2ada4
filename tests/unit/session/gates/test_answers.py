"""What people answer, and what comes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.attempt import Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import (
    AttemptIntended,
    ChangesetJudged,
    ConfigAdopted,
    ConfigDrifted,
    ConfigKept,
    CycleStarted,
    GateOpened,
    JournalEntry,
    Landed,
    PlanApproved,
    PlanProposed,
    ReplanRequested,
    SessionEnded,
    TaskEdited,
    VerdictGiven,
)
from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.model.task import HistoryResult, TaskState
from blueflame.model.workflow import Workflow
from blueflame.session.gates.edits import build_edit_payload
from blueflame.testing.simulated_outcomes import SimulatedOutcomes
from blueflame.testing.simulation import Simulation, build_opening
from support.session_examples import (
    BARRIER,
    FLOW,
    SINGLE,
    Outcomes,
    begun,
    events,
    moves,
    reported,
    states,
    task,
)

EITHER = pytest.mark.parametrize("workflow", [BARRIER, FLOW], ids=["barrier", "flow"])

REDO = ["claim", "complete", "validate", "land"]


def attempts(world: Simulation, name: str, role: str = "worker") -> int:
    return world.session.attempts_on.get((name, role), 0)


# --- the plan ---


def test_quitting_at_the_plan_ends_the_session_with_nothing_touched() -> None:
    """SESS-09."""
    world = reported(Outcomes(task(1), answers={"plan": "quit"}))
    assert events(world, SessionEnded) == [SessionEnded(outcome="plan_rejected", reason="because")]
    assert not world.session.tasks


def test_a_new_plan_is_asked_for_with_the_persons_words() -> None:
    outcomes = Outcomes(task(1), answers={"plan": "replan", "plan-2": "approve"}, plans={2: (task(1), task(2))})
    world = reported(outcomes)
    assert events(world, ReplanRequested) == [ReplanRequested(notes="because")]
    assert set(states(world)) == {"task-001", "task-002"}


def test_a_rejected_plan_is_remembered_until_another_is_approved() -> None:
    world = reported(Outcomes(task(1), answers={"plan": "replan", "plan-2": None}))
    assert world.session.rejected_plan == (task(1),)
    assert world.session.replan_notes == ("because",)
    world = reported(Outcomes(task(1), answers={"plan": "replan", "plan-2": "approve"}))
    assert world.session.rejected_plan == ()
    assert world.session.replan_notes == ()
    assert world.session.outcome == "completed"


def test_an_edited_plan_is_judged_like_a_planners_and_needs_approval() -> None:
    """TASK-24."""
    better = build_edit_payload([task(1), task(2, 1)])
    world = reported(Outcomes(task(1), answers={"plan": Answer(choice="edit", payload=better), "plan-2": "approve"}))
    first, second = events(world, PlanProposed)
    assert (first.origin, second.origin) == ("planner", "edit")
    assert events(world, PlanApproved) == [PlanApproved(tasks=(task(1), task(2, 1)))]


def test_an_edited_plan_with_a_ring_is_shown_with_its_problems() -> None:
    ring = build_edit_payload([task(1, 2), task(2, 1)])
    world = reported(Outcomes(task(1), answers={"plan": Answer(choice="edit", payload=ring), "plan-2": None}))
    gate = world.session.open_gates["plan-2"]
    assert gate.evidence["problems"]
    assert gate.find_option("approve") is None


def test_a_plan_from_a_file_is_shown_in_a_workflow_without_a_planner() -> None:
    brought = JournalEntry(2, 0.0, PlanProposed(round=1, tasks=(task(1), task(2)), origin="file"))
    world = Simulation(SimulatedOutcomes(), [build_opening(workflow=SINGLE), brought]).run()
    assert next(iter(world.session.gates)) == "plan"
    assert set(states(world)) == {"task-001", "task-002"}


# --- changesets ---


@EITHER
def test_a_rejected_changeset_sends_its_tasks_back_with_the_reason(workflow: Workflow) -> None:
    """T22, MERGE-09, TASK-19."""
    world = reported(Outcomes(task(1), answers={"changeset-cs-001": "reject"}), workflow)
    record = world.session.tasks["task-001"]
    assert record.state is TaskState.MERGED
    assert [(entry.result, entry.rejection_reason) for entry in record.history] == [(HistoryResult.REJECTED, "because")]
    assert moves(world, "task-001") == ["claim", "complete", "validate", "requeue", "renew", *REDO]


@pytest.mark.verification(26)
@EITHER
def test_what_builds_on_a_rejected_changeset_is_deferred_with_a_note(workflow: Workflow) -> None:
    """T26, MERGE-06, GATE-08."""
    outcomes = Outcomes(task(1, group="a"), task(2, 1, group="b"), answers={"changeset": "reject", "session": None})
    world = reported(outcomes, workflow)
    assert states(world) == {"task-001": TaskState.REQUEUED, "task-002": TaskState.DEFERRED}
    note = "depends on the rejected changeset [a]"
    if workflow.barrier:
        assert [(event.choice, event.note) for event in events(world, ChangesetJudged)][1] == ("defer", note)
        assert world.session.changesets["cs-002"].state is ChangesetState.DEFERRED
    assert world.session.tasks["task-002"].reason == note
    assert attempts(world, "task-002") == 1


@pytest.mark.verification(26)
def test_what_was_deferred_on_rejected_work_is_done_again_on_the_new_work() -> None:
    outcomes = Outcomes(task(1, group="a"), task(2, 1, group="b"), answers={"changeset-cs-001": "reject"})
    world = reported(outcomes)
    assert world.session.outcome == "completed"
    record = world.session.tasks["task-002"]
    assert [entry.result for entry in record.history] == [HistoryResult.STALE]
    assert record.result is not None
    assert [below.sha for below in record.result.built_on] == ["task-001@2"]


@EITHER
def test_a_skipped_changeset_is_shown_again_and_not_done_again(workflow: Workflow) -> None:
    """MERGE-10, B-15: neither approval nor rejection."""
    world = reported(Outcomes(task(1), answers={"changeset-cs-001": "skip"}), workflow)
    assert world.session.outcome == "completed"
    assert attempts(world, "task-001") == attempts(world, "task-001", "validator") == 1
    assert not world.session.tasks["task-001"].history
    assert moves(world, "task-001") == ["claim", "complete", "validate", "defer", "present", "validate", "land"]


def test_what_builds_on_a_skipped_changeset_waits_with_it_and_is_not_done_again() -> None:
    world = reported(Outcomes(task(1, group="a"), task(2, 1, group="b"), answers={"changeset-cs-001": "skip"}))
    assert world.session.outcome == "completed"
    assert attempts(world, "task-002") == 1
    assert [event.changeset for event in events(world, Landed)] == ["cs-003", "cs-004"]


def test_work_that_was_deferred_before_anybody_judged_it_is_judged_when_it_comes_back() -> None:
    """In flow: 1 is skipped while 2, built on it, is still being worked on."""
    outcomes = Outcomes(
        task(1, group="a"),
        task(2, 1, group="b"),
        minutes={"task-002.worker.1": 50},
        refused={"task-002.validator.1"},
        answers={"changeset-cs-001": "skip"},
    )
    world = reported(outcomes, FLOW)
    assert world.session.outcome == "completed"
    assert moves(world, "task-002")[:5] == ["claim", "complete", "defer", "present", "requeue"]
    assert attempts(world, "task-002", "validator") == 2


def test_a_base_that_moved_is_built_on_and_asked_about_again() -> None:
    world = reported(Outcomes(task(1), landings={("cs-001", "base"): "moved"}))
    assert list(world.session.gates) == ["plan", "changeset-cs-001", "changeset-cs-001-2"]
    assert world.session.outcome == "completed"


def test_a_changeset_that_conflicts_with_what_landed_is_done_again() -> None:
    """MERGE-08."""
    outcomes = Outcomes(task(1, group="a"), task(2, group="b"), evicted={"cs-002": "conflict in src/2.py"})
    world = reported(outcomes)
    assert world.session.outcome == "completed"
    assert world.session.changesets["cs-002"].state is ChangesetState.EVICTED
    assert world.session.tasks["task-002"].history[0].result is HistoryResult.CONFLICT
    assert world.session.tasks["task-002"].history[0].notes == "conflict in src/2.py"
    assert attempts(world, "task-001") == 1


# --- the session ---


def test_stop_ends_the_session_where_it_is() -> None:
    world = reported(Outcomes(task(1), task(2, group="b"), answers={"changeset-cs-002": "skip", "session": "stop"}))
    assert events(world, SessionEnded) == [SessionEnded(outcome="stopped", reason="because")]
    assert states(world) == {"task-001": TaskState.MERGED, "task-002": TaskState.DEFERRED}


def test_a_new_plan_for_the_rest_goes_back_to_the_first_wave() -> None:
    """T31, SESS-08: landed work stays landed, the rest is replaced, and a person must approve."""
    outcomes = Outcomes(
        task(1, group="a"),
        task(2, group="b"),
        answers={"changeset-cs-002": "reject", "session-cycle-1": "replan", "plan-2": "approve"},
        plans={2: (task(3, 1, group="c"),)},
    )
    world = reported(outcomes)
    assert states(world) == {
        "task-001": TaskState.MERGED,
        "task-002": TaskState.DROPPED,
        "task-003": TaskState.MERGED,
    }
    assert world.session.outcome == "completed"
    assert [event.cycle for event in events(world, CycleStarted)] == [1, 2]


def test_a_new_plan_for_the_rest_keeps_verified_work() -> None:
    outcomes = Outcomes(
        task(1, group="a"),
        task(2, group="b"),
        answers={"changeset-cs-001": "skip", "changeset-cs-002": "reject", "session-cycle-1": "replan"},
        plans={2: (task(3, group="c"),)},
    )
    world = reported(outcomes)
    assert states(world) == {
        "task-001": TaskState.MERGED,
        "task-002": TaskState.DROPPED,
        "task-003": TaskState.MERGED,
    }
    assert world.session.tasks["task-001"].attempts == 1


def test_leaving_the_second_plan_does_not_claim_that_nothing_was_changed() -> None:
    answers = {"changeset-cs-001": "reject", "session-cycle-1": "replan", "plan-2": "quit"}
    assert reported(Outcomes(task(1), answers=answers)).session.outcome == "stopped"
    assert reported(Outcomes(task(1), answers={"plan": "quit"})).session.outcome == "plan_rejected"


def test_a_new_plan_may_keep_a_task_and_its_memory() -> None:
    outcomes = Outcomes(
        task(1), answers={"changeset-cs-001": "reject", "session-cycle-1": "replan"}, plans={2: (task(1),)}
    )
    world = reported(outcomes)
    record = world.session.tasks["task-001"]
    assert (record.state, record.attempts, len(record.history)) == (TaskState.MERGED, 2, 1)


def test_after_a_new_plan_old_foundations_are_forgotten() -> None:
    """2 was built on 1; in the new plan it is not, so 1 may fall alone."""
    outcomes = Outcomes(
        task(1, group="a"),
        task(2, 1, group="b"),
        answers={"changeset-cs-001": "reject", "session-cycle-1": "replan", "session-cycle-2": None},
        plans={2: (task(1, group="a"), task(2, group="b"))},
        refused={"task-001.validator.2"},
    )
    world = reported(outcomes)
    assert states(world) == {"task-001": TaskState.REQUEUED, "task-002": TaskState.MERGED}


@pytest.mark.verification(10)
@EITHER
def test_a_failed_task_blocks_its_dependants_and_a_new_cycle_frees_them(workflow: Workflow) -> None:
    """T10, TASK-20, SCHED-10; B-18: blocked has a way out."""
    endings = {f"task-001.worker.{n}": Ending.FAILED for n in (1, 2, 3)}
    outcomes = Outcomes(task(1), task(2, 1), task(3, 2), task(4), endings=endings, answers={"session-cycle-1": None})
    world = reported(outcomes, workflow)
    assert states(world) == {
        "task-001": TaskState.FAILED,
        "task-002": TaskState.BLOCKED,
        "task-003": TaskState.BLOCKED,
        "task-004": TaskState.MERGED,
    }
    assert world.session.tasks["task-003"].reason == "dependency task-001 failed"
    outcomes.answers = {}
    again = world.resume().run()
    assert again.session.outcome == "completed"
    assert again.session.tasks["task-001"].retries == 2  # a new cycle gives one more attempt, not all of them again


# --- verdicts ---


REFUSED = {"task-001.validator.1"}


@EITHER
def test_a_refused_task_goes_back_with_the_reviewers_notes(workflow: Workflow) -> None:
    """VAL-09."""
    answers: dict[str, str | Answer | None] = {"validation": Answer(choice="requeue", note="и тесты тоже")}
    world = reported(Outcomes(task(1), refused=REFUSED, answers=answers), workflow)
    (entry,) = world.session.tasks["task-001"].history
    assert entry.result is HistoryResult.VALIDATION_FAILED
    assert entry.notes.endswith("says fail\nи тесты тоже")
    assert world.session.outcome == "completed"


def test_a_refused_task_can_be_edited_on_its_way_back() -> None:
    """VAL-09."""
    better = replace(task(1), description="do it well", file_locks=("src/",))
    answers: dict[str, str | Answer | None] = {
        "validation": Answer(choice="edit", payload=build_edit_payload([better]))
    }
    world = reported(Outcomes(task(1), task(2), refused=REFUSED, answers=answers))
    assert events(world, TaskEdited) == [TaskEdited(task=better)]
    assert world.session.tasks["task-001"].task == better
    assert world.session.outcome == "completed"


def test_an_edit_may_change_what_a_task_waits_for() -> None:
    better = task(1, 2)
    outcomes = Outcomes(
        task(1),
        task(2, group="b"),
        refused=REFUSED,
        answers={"validation": Answer(choice="edit", payload=build_edit_payload([better])), "changeset-cs-001": "skip"},
    )
    world = reported(outcomes)
    assert world.session.outcome == "completed"
    assert [group.changeset.tasks for group in world.session.changesets.values()][-1] == ("task-001",)


@EITHER
def test_a_dropped_task_takes_those_behind_it_along(workflow: Workflow) -> None:
    outcomes = Outcomes(
        task(1),
        task(2, 1),
        task(3, 2, locks=("src/2.py",)),
        task(4),
        refused=REFUSED,
        answers={"validation": "drop", "session": None},
        minutes={"task-002.worker.1": 30},
    )
    world = reported(outcomes, workflow)
    assert states(world)["task-001"] is TaskState.DROPPED
    assert states(world)["task-002"] is TaskState.DEFERRED
    assert states(world)["task-004"] is TaskState.MERGED
    outcomes.answers = {"validation": "drop", "session-cycle-2": None}
    again = world.resume().run()
    assert states(again)["task-002"] is TaskState.BLOCKED
    assert states(again)["task-003"] is TaskState.BLOCKED
    assert attempts(again, "task-002") == 1


@pytest.mark.parametrize(("rule", "state"), [("requeue", TaskState.REQUEUED), ("drop", TaskState.DROPPED)])
@EITHER
def test_the_configuration_can_decide_about_refused_tasks(workflow: Workflow, rule: str, state: TaskState) -> None:
    outcomes = Outcomes(task(1), task(2), refused=REFUSED, answers={"session": None})
    world = reported(outcomes, workflow, Limits(on_validation_failed=rule))
    assert states(world) == {"task-001": state, "task-002": TaskState.MERGED}
    assert not [event for event in events(world, GateOpened) if event.gate.kind.value == "validation"]


def test_red_checks_refuse_without_asking_a_reviewer() -> None:
    """T57: exit codes count."""
    world = reported(Outcomes(task(1), red={"task-001@1"}, answers={"validation": None}))
    gate = world.session.open_gates["validation-task-001"]
    assert gate.evidence["issues"] == ["`make test` exited with 1"]
    assert attempts(world, "task-001", "validator") == 0


# --- validators that fail ---


WEAK = {"task-001.validator.1": Ending.CRASHED, "task-001.validator.2": Ending.TIMEOUT}


@pytest.mark.verification(21)
def test_a_validator_is_retried_once_then_a_person_is_asked() -> None:
    """T21, VAL-07."""
    world = reported(Outcomes(task(1), endings=WEAK, answers={"validator": None}))
    gate = world.session.open_gates["validator-task-001"]
    assert gate.title.endswith("failed 2 times.")
    assert gate.evidence["reason"] == "timeout"
    assert [option.name for option in gate.options] == ["accept", "retry", "skip"]


def test_a_person_can_review_it_instead() -> None:
    world = reported(Outcomes(task(1), endings=WEAK, answers={"validator": "accept"}))
    assert world.session.outcome == "completed"
    assert [event.verdict.by for event in events(world, VerdictGiven)] == ["Ада"]


def test_a_person_can_have_the_task_done_again() -> None:
    """VAL-08."""
    world = reported(Outcomes(task(1), endings=WEAK, answers={"validator": Answer(choice="retry")}))
    (entry,) = world.session.tasks["task-001"].history
    assert entry.notes == "validator failed, human requested retry"
    assert world.session.outcome == "completed"


@EITHER
def test_a_person_can_give_it_up(workflow: Workflow) -> None:
    """VAL-08: the task fails, work built on it is deferred, dependants that have not begun are blocked."""
    answers: dict[str, str | Answer | None] = {"validator": "skip", "session": None}
    outcomes = Outcomes(task(1), task(2, 1), endings=WEAK, answers=answers, minutes={"task-002.worker.1": 9})
    world = reported(outcomes, workflow)
    assert states(world) == {"task-001": TaskState.FAILED, "task-002": TaskState.DEFERRED}
    assert world.session.tasks["task-001"].reason == "validator_failed_exhausted"
    assert world.session.tasks["task-001"].history[-1].result is HistoryResult.FAILED


@pytest.mark.parametrize("choice", ["accept", "retry", "skip"])
def test_a_question_about_work_that_is_deferred_meanwhile_can_still_be_answered(choice: str) -> None:
    """2 is built on 1; while its validator is asked about, 1 is refused, so 2 has to wait."""
    weak = {"task-002.validator.1": Ending.CRASHED, "task-002.validator.2": Ending.CRASHED}
    outcomes = Outcomes(
        task(1),
        task(2, 1),
        endings=weak,
        refused=REFUSED,
        minutes={"task-001.validator.1": 20},
        answers={"validator": None, "validation": "requeue"},
    )
    world = reported(outcomes)
    assert states(world)["task-002"] is TaskState.DEFERRED
    assert list(world.session.open_gates) == ["validator-task-002"]
    outcomes.answers = {"validator": choice}
    again = world.resume().run()
    assert again.session.outcome == "completed"


# --- drift ---


NEW = Limits(workers=1, allowed_paths=("**",))


def drifting(answer: str | None) -> Simulation:
    drift = ConfigDrifted(digest="new", changes=("limits.workers: 4 -> 1",), limits=NEW)
    return reported(
        Outcomes(task(1), task(2), drifts={(1, "work"): drift, (1, "merge"): drift}, answers={"drift": answer})
    )


def test_a_changed_configuration_is_asked_about_and_used() -> None:
    """T46."""
    world = drifting("use")
    assert events(world, ConfigAdopted) == [ConfigAdopted(digest="new", limits=NEW)]
    assert world.session.limits.workers == 1
    assert list(world.session.gates).count("drift") == 1
    assert world.session.outcome == "completed"


def test_a_changed_configuration_can_be_left_alone() -> None:
    world = drifting("keep")
    assert events(world, ConfigKept) == [ConfigKept(digest="new")]
    assert world.session.limits.workers == 4
    assert "drift-2" not in world.session.gates


def test_nothing_begins_while_the_question_is_open() -> None:
    world = drifting(None)
    assert list(world.session.open_gates) == ["drift"]
    assert not [event for event in events(world, AttemptIntended) if event.attempt.role == "worker"]


def test_a_session_stopped_over_a_drift_asks_again_when_it_is_resumed() -> None:
    world = drifting("stop")
    assert world.session.stopping == "drift gate answered stop by Ада"
    again = world.resume().run()
    assert "drift-2" in again.session.gates


def test_a_hook_that_a_new_configuration_no_longer_has_is_not_called() -> None:
    drift = ConfigDrifted(digest="new", changes=("hooks",), limits=NEW)

    class Slow(Outcomes):
        def pick_pause(self, effect: object) -> float:
            return 5.0 if type(effect).__name__ == "RunHook" else 0.0

    outcomes = Slow(task(1), drifts={(1, ""): drift}, answers={"drift": "use"})
    world = begun(outcomes, limits=Limits(hooks=("post_plan",)))
    while not world.session.config_digest:
        assert world.step()
    assert not world.session.hooks_due
