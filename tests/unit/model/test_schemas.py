from __future__ import annotations

import json
import re
from dataclasses import fields

from blueflame.model.schemas import HAND_OFF_SCHEMA, PLAN_SCHEMA, RESOLUTION_SCHEMA, VERDICT_SCHEMA
from blueflame.model.task import Task
from blueflame.model.verdict import Verdict, VerdictStatus


def test_the_plan_schema_asks_for_what_a_task_has() -> None:
    task = PLAN_SCHEMA["properties"]["tasks"]["items"]
    assert set(task["properties"]) == {field.name for field in fields(Task)}
    assert task["required"] == ["id", "title", "description", "priority", "file_locks"]
    assert re.search(task["properties"]["id"]["pattern"], "task-001")
    assert not re.search(task["properties"]["id"]["pattern"], "../task-001")


def test_the_verdict_schema_asks_for_what_a_verdict_has() -> None:
    assert set(RESOLUTION_SCHEMA["properties"]) == {field.name for field in fields(Verdict)} - {"by"}
    more = set(VERDICT_SCHEMA["properties"]) - set(RESOLUTION_SCHEMA["properties"])
    assert more == {"learnings", "recommendations"}, "for the next agent; they decide nothing"
    assert VERDICT_SCHEMA["properties"]["status"]["enum"] == [status.value for status in VerdictStatus]
    assert VERDICT_SCHEMA["required"] == ["status", "notes"]


def test_the_schemas_can_be_handed_to_an_agent() -> None:
    for schema in (PLAN_SCHEMA, VERDICT_SCHEMA, RESOLUTION_SCHEMA, HAND_OFF_SCHEMA):
        assert json.loads(json.dumps(schema)) == schema
