"""A task moves through the stages of its workflow by position, whatever the roles are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.attempt import Attempt, Duty, Ending
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStarted,
    GateOpened,
    TaskMoved,
    VerdictGiven,
    WaveStarted,
)
from blueflame.model.gate import GateKind
from blueflame.model.limits import REVIEWED, Limits
from blueflame.model.task import Cause, TaskState
from blueflame.model.verdict import Verdict, VerdictStatus
from blueflame.model.workflow import Workflow, build_stages
from blueflame.session.consequences import consequences_of
from blueflame.testing.simulation import Simulation
from support.session_examples import Outcomes, events, reported, task

ROLES = {"backend": Duty.MAKE, "frontend": Duty.MAKE, "review-git": Duty.JUDGE, "qa": Duty.JUDGE}
NAMES = ("plan", "backend", "review-git", "frontend", "review-git", "qa", "merge")
LIMITS = Limits(dependents=REVIEWED)


def build(*names: str, barrier: bool = False) -> Workflow:
    return Workflow(name="mine", stages=names, barrier=barrier, steps=build_stages(names, ROLES))


PIPELINE = build(*NAMES)


class ByStage(Outcomes):
    """Attempts are called by their stages: `task-001.review-git-2.1`."""

    def pick_ending(self, attempt: Attempt) -> Ending:
        return self.endings.get(attempt.id.partition(".")[2], Ending.PASSED)

    def approves(self, attempt: Attempt) -> bool:
        return attempt.id.partition(".")[2] not in self.refused


def attempts(world: Simulation, name: str = "task-001") -> list[str]:
    made = (event.attempt for event in events(world, AttemptIntended) if event.attempt.subject == name)
    return [f"{attempt.label}.{attempt.n}" for attempt in made]


def bases(world: Simulation) -> dict[str, str | None]:
    return {event.attempt.partition(".")[2]: event.base for event in events(world, AttemptStarted)}


@pytest.mark.parametrize("barrier", [True, False])
def test_a_task_goes_through_all_stages_in_order_and_lands(barrier: bool) -> None:
    world = reported(ByStage(task(1)), build(*NAMES, barrier=barrier), LIMITS)
    assert world.session.outcome == "completed"
    assert attempts(world) == ["backend.1", "review-git.1", "frontend.1", "review-git-2.1", "qa.1"]


def test_a_second_check_does_not_keep_work_from_coming_again() -> None:
    """What was judged is not checked again: after the first check, tasks that waited for it start."""
    workflow = build("plan", "backend", "check", "check", "merge", barrier=True)
    world = reported(ByStage(task(1), task(2, 1)), workflow, LIMITS)
    assert (world.session.outcome, world.session.cycle) == ("completed", 1)


def test_a_making_stage_starts_from_the_tasks_own_last_commit_and_a_judge_sees_a_pinned_one() -> None:
    found = bases(reported(ByStage(task(1)), PIPELINE, LIMITS))
    assert found["task-001.backend.1"] == "base"
    assert found["task-001.review-git.1"] == "task-001@1"
    assert found["task-001.frontend.1"] == "task-001@1"
    assert found["task-001.review-git-2.1"] == found["task-001.qa.1"] == "task-001@frontend.1"


def test_the_result_of_several_stages_has_the_base_of_the_first() -> None:
    result = reported(ByStage(task(1)), PIPELINE, LIMITS).session.tasks["task-001"].result
    assert result is not None
    assert (result.base, result.sha) == ("base", "task-001@frontend.1")


def test_a_failed_review_sends_a_task_back_to_the_making_stage_before_it() -> None:
    world = reported(ByStage(task(1), refused=["task-001.review-git-2.1"]), PIPELINE, LIMITS)
    assert world.session.outcome == "completed"
    again = ["frontend.2", "review-git-2.2", "qa.1"]
    assert attempts(world) == ["backend.1", "review-git.1", "frontend.1", "review-git-2.1", *again]
    assert bases(world)["task-001.frontend.2"] == "task-001@1"


def test_a_failed_attempt_is_tried_again_in_its_own_stage() -> None:
    world = reported(ByStage(task(1), endings={"task-001.frontend.1": Ending.FAILED}), PIPELINE, LIMITS)
    assert attempts(world)[2:4] == ["frontend.1", "frontend.2"]
    assert world.session.tasks["task-001"].retries == 1
    assert attempts(world).count("backend.1") == 1


def test_a_rejected_changeset_sends_a_task_back_to_its_first_stage() -> None:
    outcomes = ByStage(task(1), answers={"changeset-cs-001": "reject"})
    world = reported(outcomes, PIPELINE, replace(LIMITS, retry_from="continue"))
    assert attempts(world)[5:] == ["backend.2", "review-git.2", "frontend.2", "review-git-2.2", "qa.2"]
    again = world.session.attempts[f"{world.session.id}.task-001.backend.2"].attempt.continues
    assert again is not None
    assert (again.base, again.tip) == ("base", "task-001@frontend.1"), "the work of all stages is continued"


def test_others_start_when_the_task_has_passed_its_last_stage_before_merge() -> None:
    world = reported(ByStage(task(1), task(2, 1)), PIPELINE, LIMITS)
    turns = {(turn.attempt.subject, turn.attempt.label): turn for turn in world.schedule}
    assert turns["task-002", "backend"].begins >= turns["task-001", "qa"].ends
    first = world.session.attempts[f"{world.session.id}.task-002.backend.1"].attempt
    assert [below.sha for below in first.built_on] == ["task-001@frontend.1"]


def test_a_task_keeps_its_locks_between_its_stages() -> None:
    world = reported(ByStage(task(1, locks=("src/",)), task(2, locks=("src/a.py",))), PIPELINE, LIMITS)
    turns = {(turn.attempt.subject, turn.attempt.label): turn for turn in world.schedule}
    assert turns["task-002", "backend"].begins >= turns["task-001", "frontend"].ends


def test_with_a_barrier_every_stage_is_a_wave() -> None:
    world = reported(ByStage(task(1), task(2)), build(*NAMES, barrier=True), LIMITS)
    waves = [(event.stage, event.position) for event in events(world, WaveStarted)]
    assert waves == [(name, n) for n, name in enumerate(NAMES[1:])]


def test_with_a_barrier_a_task_that_waited_for_locks_has_its_waves_in_the_same_cycle() -> None:
    workflow = build("plan", "backend", "frontend", "qa", "merge", barrier=True)
    world = reported(ByStage(task(1, locks=("src/",)), task(2, locks=("src/",))), workflow, LIMITS)
    assert (world.session.outcome, world.session.cycle) == ("completed", 1)
    waves = [event.stage for event in events(world, WaveStarted)]
    assert waves == ["backend", "frontend", "qa", "backend", "frontend", "qa", "merge"]


def test_work_that_was_begun_is_continued_before_other_work_begins() -> None:
    workflow = build("plan", "backend", "frontend", "qa", "merge")
    world = reported(ByStage(task(1), task(2)), workflow, replace(LIMITS, workers=1))
    made = [event.attempt for event in events(world, AttemptIntended) if event.attempt.duty is Duty.MAKE]
    assert [f"{each.subject} {each.label}" for each in made] == [
        "task-001 backend",
        "task-001 frontend",
        "task-002 backend",
        "task-002 frontend",
    ]


def test_a_stage_whose_model_is_unavailable_does_not_hold_up_others() -> None:
    """The frontend of the first task waits for its model; the backend of the second has another."""
    workflow = build("plan", "backend", "frontend", "qa", "merge")
    runtimes = {"backend": "here", "frontend": "there", "qa": "here"}
    limits = replace(LIMITS, workers=1, role_runtimes=runtimes)
    world = reported(ByStage(task(1), task(2), endings={"task-001.frontend.1": Ending.OUTAGE}), workflow, limits)
    turns = {(turn.attempt.subject, turn.attempt.label, turn.attempt.n): turn for turn in world.schedule}
    assert turns["task-002", "backend", 1].begins < turns["task-001", "frontend", 2].begins
    assert world.session.outcome == "completed"


def test_checks_between_two_making_stages_must_be_green() -> None:
    workflow = build("work", "check", "frontend", "check", "merge")
    outcomes = ByStage(task(1), red=["task-001@1"])
    world = reported(outcomes, workflow, replace(LIMITS, on_validation_failed="requeue"))
    assert attempts(world) == ["worker.1", "worker.2", "frontend.1"]
    assert world.session.outcome == "completed"


def test_the_verdicts_of_all_stages_are_kept_with_their_stage() -> None:
    world = reported(ByStage(task(1)), PIPELINE, LIMITS)
    assert [event.stage for event in events(world, VerdictGiven)] == ["review-git", "review-git-2", "qa"]


def test_a_verdict_of_an_earlier_stage_does_not_count_for_a_later_one() -> None:
    world = Simulation(ByStage(task(1)), reported(ByStage(task(1)), PIPELINE, LIMITS).journal[:1])
    while world.session.tasks.get("task-001") is None or world.session.tasks["task-001"].stage != 4:
        world.step()
    verdict = Verdict(status=VerdictStatus.PASS, notes="")
    late = VerdictGiven(task="task-001", sha="task-001@frontend.1", verdict=verdict, stage="review-git-2")
    assert list(consequences_of(world.session, late, 0.0)) == [late]


@pytest.mark.parametrize(("confidence", "passes"), [(0.8, True), (0.79, False), (None, False), (1.0, True)])
def test_a_pass_counts_only_with_the_confidence_that_the_workflow_asks_for(
    confidence: float | None, passes: bool
) -> None:
    class Sure(ByStage):
        def pick_confidence(self, _attempt: Attempt) -> float | None:
            return confidence

    limits = replace(LIMITS, review_threshold=0.8, on_validation_failed="drop")
    world = reported(Sure(task(1)), PIPELINE, limits)
    state = world.session.tasks["task-001"].state
    assert state is (TaskState.MERGED if passes else TaskState.DROPPED)
    (first, *_) = events(world, VerdictGiven)
    assert first.verdict.passed == passes
    assert passes or "the workflow asks for at least 0.8" in first.verdict.notes


def test_the_verdict_of_a_person_or_of_checks_needs_no_confidence() -> None:
    workflow = build("work", "check", "merge")
    world = reported(ByStage(task(1)), workflow, replace(LIMITS, review_threshold=0.99))
    assert world.session.outcome == "completed"


def test_a_task_made_in_part_begins_again_when_what_it_was_built_on_is_redone() -> None:
    workflow = build("plan", "backend", "frontend", "qa", "merge")
    outcomes = ByStage(task(1), task(2, 1), refused=["task-001.qa.1"], minutes={"task-001.qa.1": 3.0})
    world = reported(outcomes, workflow, Limits(dependents="passed", workers=1))
    moves = [(event.task, event.cause) for event in events(world, TaskMoved)]
    assert ("task-002", Cause.REQUEUE) in moves
    assert world.session.outcome == "completed"
    assert attempts(world, "task-002").count("backend.2") == 1


def test_a_stage_with_nothing_to_do_hands_the_task_over_as_it_was() -> None:
    workflow = build("plan", "backend", "frontend", "qa", "merge")
    world = reported(ByStage(task(1), endings={"task-001.backend.1": Ending.NO_COMMITS}), workflow, LIMITS)
    assert attempts(world) == ["backend.1", "frontend.1", "qa.1"]
    assert bases(world)["task-001.frontend.1"] == "base"
    reasons = [event.reason for event in events(world, TaskMoved) if event.cause is Cause.HAND_OVER]
    assert reasons == ["backend had nothing to do; frontend is next"]
    last = reported(ByStage(task(1), endings={"task-001.frontend.1": Ending.NO_COMMITS}), workflow, LIMITS)
    result = last.session.tasks["task-001"].result
    assert result is not None
    assert (result.sha, result.attempt) == ("task-001@1", f"{last.session.id}.task-001.backend.1")


def test_what_nothing_is_made_of_yet_is_not_judged() -> None:
    world = reported(ByStage(task(1), endings={"task-001.backend.1": Ending.NO_COMMITS}), PIPELINE, LIMITS)
    assert world.session.outcome == "completed"
    assert attempts(world) == ["backend.1", "frontend.1", "review-git-2.1", "qa.1"]
    endings = [event.ended.ending for event in events(world, AttemptEnded)][:2]
    assert endings == [Ending.PASSED, Ending.NOTHING_TO_DO], "the plan, and the stage with nothing to do"


def test_what_was_made_before_a_stage_with_nothing_to_do_is_judged() -> None:
    workflow = build("plan", "backend", "frontend", "review-git", "docs", "qa", "merge")
    world = reported(ByStage(task(1), endings={"task-001.frontend.1": Ending.NO_COMMITS}), workflow, LIMITS)
    assert attempts(world) == ["backend.1", "frontend.1", "review-git.1", "docs.1", "qa.1"]


def test_a_task_of_which_no_stage_made_anything_has_failed() -> None:
    workflow = build("plan", "backend", "frontend", "qa", "merge")
    endings = {f"task-001.{name}.1": Ending.NO_COMMITS for name in ("backend", "frontend")}
    world = reported(ByStage(task(1), endings=endings), workflow, LIMITS)
    assert attempts(world) == ["backend.1", "frontend.1", "frontend.2", "qa.1"]


def test_a_task_has_the_verdicts_of_all_its_stages() -> None:
    world = reported(ByStage(task(1), refused=["task-001.review-git-2.1"]), PIPELINE, LIMITS)
    record = world.session.tasks["task-001"]
    found = [(each.stage, each.verdict.passed) for each in record.verdicts]
    assert found == [
        ("review-git", True),
        ("review-git-2", False),
        ("review-git-2", True),
        ("qa", True),
    ]
    assert [each.stage for each in record.standing_verdicts] == ["review-git", "review-git-2", "qa"]
    (gate,) = [event.gate for event in events(world, GateOpened) if event.gate.kind is GateKind.CHANGESET]
    assert [line.partition(":")[0] for line in gate.evidence["verdicts"]["task-001"]] == [
        "review-git",
        "review-git-2",
        "qa",
    ]


BACKEND_ONLY = replace(build("backend", "qa", "merge"), name="backend_only", review_threshold=0.9, max_retries=0)


def test_a_task_goes_through_the_workflow_that_the_plan_chose_for_it() -> None:
    sure = replace(BACKEND_ONLY, review_threshold=None)
    limits = replace(LIMITS, task_workflows={"backend_only": sure}, task_models=("opus",))
    chosen = replace(task(1), workflow="backend_only", model="opus")
    world = reported(ByStage(chosen, task(2)), PIPELINE, limits)
    assert world.session.outcome == "completed"
    assert attempts(world) == ["backend.1", "qa.1"]
    assert attempts(world, "task-002") == ["backend.1", "review-git.1", "frontend.1", "review-git-2.1", "qa.1"]
    models = {(each.attempt.subject, each.attempt.role): each.attempt.model for each in events(world, AttemptIntended)}
    assert (models["task-001", "backend"], models["task-002", "backend"]) == ("opus", "")


def test_the_threshold_and_the_retries_of_a_task_are_those_of_its_workflow() -> None:
    class Unsure(ByStage):
        def pick_confidence(self, _attempt: Attempt) -> float:
            return 0.8

    limits = replace(LIMITS, task_workflows={"backend_only": BACKEND_ONLY}, on_validation_failed="drop")
    world = reported(Unsure(replace(task(1), workflow="backend_only"), task(2)), PIPELINE, limits)
    states = {name: record.state for name, record in world.session.tasks.items()}
    assert states == {"task-001": TaskState.DROPPED, "task-002": TaskState.MERGED}
    failing = ByStage(replace(task(1), workflow="backend_only"), endings={"task-001.backend.1": Ending.FAILED})
    failed = reported(failing, PIPELINE, replace(limits, max_cycles=1))
    assert attempts(failed) == ["backend.1"]


def test_a_check_that_is_passed_over_does_not_make_others_wait_for_the_next_cycle() -> None:
    workflow = build("plan", "work", "check", "check", "merge", barrier=True)
    world = reported(ByStage(task(1), task(2, 1)), workflow, LIMITS)
    assert (world.session.outcome, world.session.cycle) == ("completed", 1)
