"""Tasks that a person edited, on their way into an answer and out of it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from blueflame.model.gate import Gate, GateKind
from blueflame.model.task import Task


def edited(tasks: Sequence[Task]) -> dict[str, Any]:
    """The payload of an `edit`: plain values only, since it travels as JSON."""
    return {"tasks": [_plain(task) for task in tasks]}


def _plain(task: Task) -> dict[str, Any]:
    values = ((field.name, getattr(task, field.name)) for field in fields(task))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def tasks_in(payload: Mapping[str, Any]) -> tuple[Task, ...]:
    """The tasks of an `edit`, which a face read and judged before it sent them."""
    return tuple(_task(values) for values in payload["tasks"])


def _task(values: Mapping[str, Any]) -> Task:
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Task(**plain)


def edit_problems(gate: Gate, tasks: Sequence[Task]) -> tuple[str, ...]:
    """What makes an edit useless at this gate; the rules for plans are judged when it is proposed."""
    if not tasks:
        return ("there is no task in it",)
    if gate.kind is GateKind.VALIDATION and [task.id for task in tasks] != [gate.subject]:
        return (f"expected exactly the task {gate.subject}, found {', '.join(task.id for task in tasks)}",)
    return ()
