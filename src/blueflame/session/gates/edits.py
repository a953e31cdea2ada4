"""Tasks that a person edited, written to the payload of an answer and read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
    "workflow": (str, type(None)),
}
"""Checked again here: an answer can come from any program, not only from one that checked the edit."""


EDIT_CHOICES = frozenset({"edit", "split"})
"""Choices whose answer has changed tasks in its payload."""


def build_edit_payload(tasks: Sequence[Task]) -> dict[str, Any]:
    """Build the payload of an edit: values that JSON can hold."""
    return {
        "tasks": [
            {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(task).items()}
            for task in tasks
        ]
    }


def parse_edit_payload(payload: Mapping[str, Any]) -> tuple[Task, ...]:
    """Parse the tasks of an edit."""
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
    """Check that an edit has the tasks that this gate asks about; the rules for plans are checked elsewhere."""
    found = [task.id for task in tasks]
    if not tasks:
        return ("it has no task",)
    if gate.kind is GateKind.VALIDATION and found != [gate.subject]:
        return (f"expected exactly the task {gate.subject}, found {', '.join(found)}",)
    if gate.kind is GateKind.OVERLAP and sorted(found) != sorted(gate.evidence["tasks"]):
        return (f"expected exactly the tasks {' and '.join(gate.evidence['tasks'])}, found {', '.join(found)}",)
    return ()
