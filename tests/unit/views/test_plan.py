from __future__ import annotations

from blueflame.session.estimate import CostRange
from blueflame.views.plan import PlanView, build_plan_json
from support.recorded_session import ID, TASKS


def test_the_json_of_a_plan_has_its_tasks_batches_and_cost() -> None:
    cost = CostRange(low=1_500_000, high=4_500_000)
    found = build_plan_json(PlanView(tasks=TASKS, session=ID, batches=(("task-001",),), cost=cost, warnings=("w",)))
    assert found["cost_usd"] == {"base": 1.5, "with_retries": 4.5, "learned": False}
    assert found["batches"] == [["task-001"]]
    assert found["tasks"][1]["dependencies"] == ["task-001"]
    assert found["warnings"] == ["w"]
