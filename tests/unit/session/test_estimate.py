from __future__ import annotations

from dataclasses import replace

from blueflame.model.limits import AttemptCostRange, Limits
from blueflame.model.spend import Budget, Unit, to_micro_usd
from blueflame.model.task import Assignment, Task
from blueflame.model.workflow import Workflow
from blueflame.session.estimate import estimate_cost, plan_batches


def task(name: str, *locks: str, needs: tuple[str, ...] = (), minutes: float | None = None) -> Task:
    return Task(id=name, title=name, description="", dependencies=needs, file_locks=locks, estimate_minutes=minutes)


THREE = [task("a", "1"), task("b", "2"), task("c", "3")]


def test_batches_follow_dependencies_locks_and_slots() -> None:
    plan = [task("a", "src"), task("b", "src/x"), task("c", "docs", needs=("a",)), task("d", "lib"), task("e", "etc")]
    assert tuple(plan_batches(plan, 2)) == (("a", "d"), ("b", "c"), ("e",))
    assert tuple(plan_batches(plan, 9)) == (("a", "d", "e"), ("b", "c"))


def test_a_task_that_can_never_start_is_in_no_batch() -> None:
    assert tuple(plan_batches([task("a", "1", needs=("gone",)), task("b", "2")], 4)) == (("b",),)
    assert tuple(plan_batches([], 4)) == ()


def test_three_tasks_cost_an_attempt_each_at_least() -> None:
    cost = estimate_cost(THREE, Limits())
    assert cost.low == to_micro_usd(0.20 + 3 * 0.20 + 3 * 0.05 + 0.20)
    assert cost.high == to_micro_usd(0.40 + 3 * 3 * 0.75 + 3 * 2 * 0.25 + 0.50)
    assert cost.text == "$1.15 - $9.15 (base - with retries)"
    assert [role.role for role in cost.roles] == ["planner", "worker", "validator", "merger"]


def test_budgets_cap_the_estimate() -> None:
    limits = Limits(
        role_budgets={"worker": Budget(Unit.USD, to_micro_usd(0.10))}, session_budget=Budget(Unit.USD, to_micro_usd(1))
    )
    cost = estimate_cost(THREE, limits)
    (worker,) = [role for role in cost.roles if role.role == "worker"]
    assert (worker.low, worker.high) == (to_micro_usd(0.30), to_micro_usd(0.90))
    assert (cost.low, cost.high) == (to_micro_usd(0.85), to_micro_usd(1))


def test_a_budget_in_tokens_says_nothing_about_money() -> None:
    tokens = Budget(Unit.TOKENS, 5)
    assert estimate_cost(THREE, Limits(session_budget=tokens, role_budgets={"worker": tokens})) == estimate_cost(
        THREE, Limits()
    )


FIGURES = {"worker": AttemptCostRange(1.0, 2.0)}


def test_only_the_stages_of_the_workflow_cost() -> None:
    single = Workflow(name="single", stages=("work", "check"), barrier=False)
    cost = estimate_cost(THREE[:1], Limits(max_retries=0, figures=FIGURES), single)
    assert cost.text == "$1.00 - $2.00 (base - with retries)"


def test_a_ladder_costs_a_further_attempt_for_each_rung() -> None:
    single = Workflow(name="single", stages=("work", "check"), barrier=False)
    models, ladder = {"worker": "claude-haiku-4-5"}, (Assignment(runtime="tmux"),)
    limits = Limits(max_retries=0, role_models=models, ladder=ladder, figures=FIGURES)
    assert estimate_cost(THREE[:1], limits, single).text == "$1.00 - $4.00 (base - with retries)"
    dearer = replace(limits, ladder=(Assignment(model="claude-opus-4-5"),))
    assert estimate_cost(THREE[:1], dearer, single).high > to_micro_usd(4)


def test_a_plan_by_hand_pays_no_planner() -> None:
    with_planner, by_hand = (estimate_cost([task("a")], Limits(), is_planned=known) for known in (False, True))
    assert "planner" in {role.role for role in with_planner.roles}
    assert "planner" not in {role.role for role in by_hand.roles}
    assert by_hand.low < with_planner.low


def test_a_task_with_a_dearer_model_costs_more() -> None:
    limits = Limits(role_models={"worker": "claude-haiku-4-5"})
    models = (None, "claude-opus-4-1", "a-model-of-ours")
    costs = (estimate_cost([replace(task("a"), model=model)], limits) for model in models)
    usual, dearer, unknown = (next(role.low for role in cost.roles if role.role == "worker") for cost in costs)
    assert dearer > usual == unknown


def test_so_does_one_with_the_short_name_of_a_dearer_model() -> None:
    limits = Limits(role_models={"worker": "sonnet"})
    costs = (estimate_cost([replace(task("a"), model=model)], limits) for model in ("haiku", None, "opus"))
    cheaper, usual, dearer = (next(role.low for role in cost.roles if role.role == "worker") for cost in costs)
    assert cheaper < usual < dearer
