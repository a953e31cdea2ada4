from __future__ import annotations

import pytest

from blueflame.model.limits import Limits
from blueflame.model.task import Task
from blueflame.model.workflow import Workflow
from blueflame.session.estimate import CostRange
from blueflame.views.plan import PlanView, build_dry_run_view, build_plan_json
from support.recorded_session import ID, TASKS


def test_the_json_of_a_plan_has_its_tasks_batches_and_cost() -> None:
    cost = CostRange(low=1_500_000, high=4_500_000)
    found = build_plan_json(PlanView(tasks=TASKS, session=ID, batches=(("task-001",),), cost=cost, warnings=("w",)))
    assert found["cost_usd"] == {"base": 1.5, "with_retries": 4.5, "learned": False}
    assert found["batches"] == [["task-001"]]
    assert found["tasks"][1]["dependencies"] == ["task-001"]
    assert found["warnings"] == ["w"]


@pytest.mark.parametrize(("tasks", "at_once"), [(None, [1, 3, 2]), (TASKS[:2], [1, 2, 2]), ((), [1, 1, 1])])
def test_a_dry_run_has_as_many_agents_at_once_as_the_plan_needs_or_as_there_may_be_before_it(
    tasks: tuple[Task, ...] | None, at_once: list[int]
) -> None:
    flow, limits = Workflow(), Limits(workers=3, validators=2)
    view = build_dry_run_view("Do it", tasks, flow, limits, is_plan=True)
    assert [each.at_once for each in view.agents] == at_once


def test_a_dry_run_of_a_persons_plan_starts_no_planner() -> None:
    view = build_dry_run_view("Do it", TASKS, Workflow(), Limits(), is_plan=True, is_planned=True)
    assert [each.role for each in view.agents] == ["worker", "validator"]
