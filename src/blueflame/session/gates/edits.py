"""Tasks that a person edited, on their way into an answer and out of it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from blueflame.model.gate import Gate, GateKind
from blueflame.model.task import Task

FIELD_TYPES: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "title": (str,),
    "description": (str,),
    "priority": (int,),
    "cohesion_group": (str,),
    "dependencies": (tuple,),
    "file_locks": (tuple,),
    "model": (str, type(None)),
    "validator_model": (str, type(None)),
    "estimate_minutes": (int, float, type(None)),
}
"""An answer may come from anywhere, so it is not believed to hold what its face should have checked."""


EDIT_CHOICES = frozenset({"edit", "split"})
"""Choices that come with changed tasks."""


def build_edit_payload(tasks: Sequence[Task]) -> dict[str, Any]:
    """The payload of an `edit`: plain values only, since it travels as JSON."""
    return {"tasks": [_dump_task(task) for task in tasks]}


def _dump_task(task: Task) -> dict[str, Any]:
    values = ((field.name, getattr(task, field.name)) for field in fields(task))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def parse_edit_payload(payload: Mapping[str, Any]) -> tuple[Task, ...]:
    """The tasks of an `edit`, which a face read and judged before it sent them."""
    return tuple(_parse_task(values) for values in payload["tasks"])


def _parse_task(values: Mapping[str, Any]) -> Task:
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    task = Task(**plain)
    for name, kinds in FIELD_TYPES.items():
        if type(getattr(task, name)) not in kinds:
            raise TypeError(f"{name} of {task.id!r} cannot be {getattr(task, name)!r}")
    if not all(isinstance(name, str) for name in (*task.dependencies, *task.file_locks)):
        raise TypeError(f"dependencies and file_locks of {task.id!r} must be lists of names")
    return task


def find_edit_problems(gate: Gate, tasks: Sequence[Task]) -> tuple[str, ...]:
    """What makes an edit useless at this gate; the rules for plans are judged when it is proposed."""
    if not tasks:
        return ("there is no task in it",)
    if gate.kind is GateKind.VALIDATION and [task.id for task in tasks] != [gate.subject]:
        return (f"expected exactly the task {gate.subject}, found {', '.join(task.id for task in tasks)}",)
    if gate.kind is GateKind.OVERLAP and sorted(task.id for task in tasks) != sorted(gate.evidence["tasks"]):
        wanted = " and ".join(gate.evidence["tasks"])
        return (f"expected exactly the tasks {wanted}, found {', '.join(task.id for task in tasks)}",)
    return ()
