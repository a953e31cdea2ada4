from __future__ import annotations

from collections.abc import Sequence

import pytest

from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.errors import InternalError
from blueflame.model.event import (
    Checked,
    Event,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    HookRan,
    TaskMoved,
    VerdictGiven,
)
from blueflame.model.gate import Answer
from blueflame.model.limits import Limits
from blueflame.model.task import Cause, TaskState
from blueflame.model.verdict import Check, Verdict, VerdictStatus, Violation
from blueflame.model.workflow import Workflow
from blueflame.session.consequences import consequences_of
from blueflame.session.consequences.attempts import describe_ending
from blueflame.session.consequences.verdicts import build_failed_verdict
from blueflame.session.effects import AskGate, DiagnoseTask, Effect, RunHook
from blueflame.testing.simulation import Simulation
from support.session_examples import BARRIER, FLOW, Outcomes, begun, events, moves, reported, states, task

EITHER = pytest.mark.parametrize("workflow", [BARRIER, FLOW], ids=["barrier", "flow"])


def until(world: Simulation, name: str, state: TaskState) -> Simulation:
    while world.session.tasks.get(name) is None or world.session.tasks[name].state is not state:
        assert world.step(), f"{name} never was {state}"
    return world


def following(world: Simulation, event: Event) -> Sequence[Event]:
    return tuple(consequences_of(world.session, event, 7.0))


def test_an_illegal_move_is_found_before_it_is_written() -> None:
    world = reported(Outcomes(task(1)))
    with pytest.raises(InternalError, match="a merged task cannot claim"):
        following(world, TaskMoved(task="task-001", cause=Cause.CLAIM))


def test_an_event_without_consequences_is_returned_alone() -> None:
    world = reported(Outcomes(task(1)))
    event = HookRan(hook="post_merge", key="post_merge:cs-001", exit_code=1)
    assert following(world, event) == (event,)


@pytest.mark.parametrize(
    "late",
    [GateAnswered(gate="plan", answer=Answer(choice="approve", by="Ада")), GateWithdrawn(gate="plan", reason="why")],
)
def test_the_second_answer_to_a_gate_changes_nothing(late: Event) -> None:
    """A person and a time limit, or two terminals, may answer at the same moment."""
    assert following(reported(Outcomes(task(1))), late) == ()


@pytest.mark.parametrize("status", VerdictStatus)
def test_a_verdict_on_another_commit_changes_nothing(status: VerdictStatus) -> None:
    world = until(begun(Outcomes(task(1))), "task-001", TaskState.DONE)
    event = VerdictGiven(task="task-001", sha="an older one", verdict=Verdict(status=status, notes=""))
    assert following(world, event) == (event,)
    world._append([event])
    assert world.session.tasks["task-001"].verdict is None
    assert world.run().session.outcome == "completed"


def test_checks_of_another_commit_change_nothing() -> None:
    world = until(begun(Outcomes(task(1))), "task-001", TaskState.DONE)
    red = Check(name="make test", exit_code=1, seconds=0.0)
    event = Checked(task="task-001", sha="an older one", checks=(red,))
    assert following(world, event) == (event,)


def test_without_checks_a_workflow_that_only_checks_passes_what_is_done() -> None:
    world = until(
        begun(Outcomes(task(1)), Workflow(stages=("plan", "work", "check", "merge"))), "task-001", TaskState.DONE
    )
    _, verdict, moved = following(world, Checked(task="task-001", sha="task-001@1", checks=()))
    assert isinstance(verdict, VerdictGiven)
    assert verdict.verdict.notes == "no checks are configured"
    assert moved == TaskMoved(task="task-001", cause=Cause.VALIDATE)


def test_a_red_verdict_names_every_command_and_how_it_failed() -> None:
    slow = Check(name="make lint", exit_code=0, seconds=9.0, timed_out=True, output="…")
    wrong = Check(name="make test", exit_code=2, seconds=1.0, output="тест упал")
    verdict = build_failed_verdict([slow, wrong])
    assert verdict.issues == ("`make lint` timed out", "`make test` exited with 2")
    assert "тест упал" in verdict.notes
    assert not verdict.passed


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (AttemptOutcome(ending=Ending.NO_COMMITS), "no commits"),
        (AttemptOutcome(ending=Ending.FAILED, exit_code=3), "failed, exit code 3"),
        (AttemptOutcome(ending=Ending.FAILED, exit_code=3, notes="boom"), "failed, exit code 3: boom"),
        (
            AttemptOutcome(ending=Ending.POSTCHECK, notes="said", violations=(Violation(rule="scope", path="a b.py"),)),
            "postcheck: scope: a b.py",
        ),
    ],
)
def test_an_ending_is_described(ended: AttemptOutcome, words: str) -> None:
    assert describe_ending(ended) == words


def test_an_ending_with_a_thousand_violations_stays_short() -> None:
    many = tuple(Violation(rule="scope", path=f"{n}.py") for n in range(1_000))
    assert len(describe_ending(AttemptOutcome(ending=Ending.POSTCHECK, violations=many))) < 2_100


VETO = Limits(hooks=("pre_validation",))


def vetoed(workflow: Workflow) -> dict[str, int]:
    return {"pre_validation:1": 1} if workflow.barrier else {"pre_validation:task-001:1": 1}


@EITHER
def test_a_hook_can_veto_what_is_done(workflow: Workflow) -> None:
    world = reported(Outcomes(task(1), hooks=vetoed(workflow), answers={"validation": None}), workflow, VETO)
    gate = world.session.open_gates["validation-task-001"]
    assert gate.evidence["by"] == "pre_validation hook"
    assert gate.evidence["notes"].startswith("the pre_validation hook exited with 1")
    assert not events(world, Checked)


@EITHER
@pytest.mark.parametrize("rule", ["ask", "requeue", "drop"])
def test_a_veto_of_work_and_of_what_is_built_on_it_moves_each_task_once(workflow: Workflow, rule: str) -> None:
    """2 is built on 1, 3 on both, and 4 needs 3: each may fall only once."""
    shared = ("src/",)
    plan = (task(1, locks=shared), task(2, 1, locks=shared), task(3, 1, 2, locks=shared), task(4, 3))
    limits = Limits(hooks=("pre_validation",), on_validation_failed=rule, workers=1)
    keys = dict.fromkeys(["pre_validation:1", *(f"pre_validation:task-00{n}:1" for n in (1, 2, 3, 4))], 1)
    answers = {"session": "stop", "validation": "drop"}
    outcomes = Outcomes(
        *plan, hooks=keys, answers=answers, endings={f"task-004.worker.{n}": Ending.FAILED for n in range(9)}
    )
    world = reported(outcomes, workflow, limits)
    assert world.session.outcome == ("stopped" if rule != "drop" or not world.session.all_finished else "completed")
    assert not {TaskState.DONE, TaskState.VALIDATED, TaskState.MERGED} & set(states(world).values())


def test_no_review_starts_before_the_hook_has_run() -> None:
    class Slow(Outcomes):
        def pick_pause(self, effect: Effect) -> float:
            return 9.0 if isinstance(effect, RunHook) and effect.hook.name == "pre_validation" else 0.0

    world = reported(Slow(task(1), task(2)), BARRIER, VETO)
    spoken = next(each.at for each in world.journal if isinstance(each.event, HookRan))
    assert min(turn.begins for turn in world.schedule if turn.attempt.role == "validator") >= spoken


def test_a_veto_of_work_that_is_deferred_meanwhile_is_not_forgotten() -> None:
    """In flow: 1 is skipped while 2 is worked on; the hook vetoes 2, which waits. It must be done again."""
    outcomes = Outcomes(
        task(1, group="a"),
        task(2, 1, group="b"),
        minutes={"task-002.worker.1": 50},
        hooks={"pre_validation:task-002:1": 1},
        answers={"changeset-cs-001": "skip"},
    )
    world = reported(outcomes, FLOW, VETO)
    assert world.session.outcome == "completed"
    assert moves(world, "task-002")[:6] == ["claim", "complete", "defer", "requeue", "renew", "claim"]


def test_other_hooks_only_warn() -> None:
    keys = {"post_plan:1": 1, "post_merge:cs-001": 1}
    world = reported(Outcomes(task(1), hooks=keys), limits=Limits(hooks=("post_plan", "post_merge")))
    assert world.session.outcome == "completed"
    assert [event.key for event in events(world, HookRan)] == ["post_plan:1", "post_merge:cs-001"]


def test_the_failure_hook_is_called_for_tasks_that_failed_for_good() -> None:
    endings = {"task-001.worker.1": Ending.FAILED, **{f"task-002.worker.{n}": Ending.FAILED for n in (1, 2, 3)}}
    outcomes = Outcomes(task(1), task(2), endings=endings, answers={"session": "stop"})
    world = reported(outcomes, limits=Limits(hooks=("on_failure",)))
    assert [event.key for event in events(world, HookRan)] == ["on_failure:task-002:3"]


def test_a_task_that_fails_after_its_dependency_was_dropped_is_blocked() -> None:
    """2 was begun on the work of 1; 1 is dropped, then 2 fails and could be retried."""
    outcomes = Outcomes(
        task(1),
        task(2, 1),
        refused={"task-001.validator.1"},
        endings={"task-002.worker.1": Ending.FAILED},
        minutes={"task-002.worker.1": 30},
        answers={"validation": "drop", "session": None},
    )
    world = reported(outcomes, FLOW)
    assert states(world) == {"task-001": TaskState.DROPPED, "task-002": TaskState.BLOCKED}
    assert world.session.tasks["task-002"].reason == "dependency task-001 was dropped"


def test_work_that_comes_in_after_its_foundation_fell_waits() -> None:
    outcomes = Outcomes(
        task(1),
        task(2, 1),
        refused={"task-001.validator.1"},
        minutes={"task-002.worker.1": 30},
        answers={"session": None},
    )
    world = reported(outcomes, FLOW)
    assert states(world) == {"task-001": TaskState.REQUEUED, "task-002": TaskState.DEFERRED}
    assert world.session.tasks["task-002"].reason == "what it was built on is no longer valid"


def test_checks_of_deferred_work_are_run_again_when_it_comes_back() -> None:
    """Else a red result would go to the reviewers, who are asked only about green ones."""

    class Slow(Outcomes):
        def pick_pause(self, effect: Effect) -> float:
            if isinstance(effect, AskGate) and effect.gate.startswith("session"):
                return 90.0
            return 40.0 if isinstance(effect, DiagnoseTask) and effect.task == "task-002" else 0.0

    outcomes = Slow(task(1, group="a"), task(2, 1, group="b"), red={"task-002@1"}, answers={"changeset-cs-001": "skip"})
    world = reported(outcomes, FLOW)
    checked = [event.sha for event in events(world, Checked) if event.task == "task-002"]
    assert checked == ["task-002@1", "task-002@1", "task-002@2"]
    assert world.session.outcome == "completed"


def test_gates_of_one_veto_are_asked_one_per_task() -> None:
    world = reported(
        Outcomes(task(1), task(2), hooks={"pre_validation:1": 1}, answers={"validation": None}), limits=VETO
    )
    opened = [event.gate.id for event in events(world, GateOpened)]
    assert opened == ["plan", "validation-task-001", "validation-task-002"]
