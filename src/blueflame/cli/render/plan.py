"""The plan as a person reviews it: what will be done, where, in which order, for how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from blueflame.cli.console import Heading, columns, facts, stack
from blueflame.model.task import Task
from blueflame.session.estimate import CostRange
from blueflame.text.marks import BAD, NOTE
from blueflame.text.sanitize import clean, one_line

SHOWN_TASKS, SHOWN_BATCHES = 60, 20


def show_plan(
    tasks: Sequence[Task],
    *,
    session: str,
    request: str = "",
    round: int = 1,
    batches: Sequence[Sequence[str]] = (),
    cost: CostRange | None = None,
    problems: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> RenderableType:
    about: dict[str, RenderableType] = {"Request:": one_line(request)} if request else {}
    about["Tasks:"] = f"{len(tasks):,}"
    if cost is not None:
        about["Estimated cost:"] = Text.assemble(cost.show, (f"\n{cost.grounds}", "quiet"))
    return stack(
        Group(Heading("Plan review", f"round {round}" if round > 1 else "", session), facts(about)),
        _tasks(tasks),
        _schedule(batches) if batches else None,
        _listed("Warnings", NOTE, "warn", warnings) if warnings else None,
        _listed("Problems: the plan cannot be approved as it is", BAD, "bad", problems) if problems else None,
    )


def plan_json(
    tasks: Sequence[Task],
    *,
    session: str,
    batches: Sequence[Sequence[str]] = (),
    cost: CostRange | None = None,
    problems: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "session": session,
        "tasks": [task_json(task) for task in tasks],
        "batches": [list(batch) for batch in batches],
        "cost_usd": cost_json(cost),
        "problems": list(problems),
        "warnings": list(warnings),
    }


def task_json(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "priority": task.priority,
        "cohesion_group": task.cohesion_group,
        "dependencies": list(task.dependencies),
        "file_locks": list(task.file_locks),
    }


def cost_json(cost: CostRange | None) -> dict[str, Any] | None:
    return None if cost is None else {"base": cost.low / 1e6, "with_retries": cost.high / 1e6, "learned": cost.learned}


def _tasks(tasks: Sequence[Task]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(width=0)
    grid.add_column(no_wrap=True, style="id")
    grid.add_column(ratio=1, overflow="fold")
    grid.add_column(no_wrap=True, justify="right")
    for task in tasks[:SHOWN_TASKS]:
        title = Text.assemble((f"[{one_line(task.cohesion_group)}]", "group"), " ", one_line(task.title))
        grid.add_row("", clean(task.id), title, f"priority {task.priority}")
        grid.add_row("", "", _pair("locks", ", ".join(task.file_locks) or "none"), "")
        grid.add_row("", "", _pair("after", ", ".join(task.dependencies) or "nothing"), "")
    if len(tasks) <= SHOWN_TASKS:
        return grid
    return Group(
        grid, Text(f"  … and {len(tasks) - SHOWN_TASKS:,} more, all of them in .blueflame/tasks.yaml", "quiet")
    )


def _pair(name: str, value: str) -> Text:
    return Text.assemble((f"{name}  ", "quiet"), one_line(value))


def _schedule(batches: Sequence[Sequence[str]]) -> RenderableType:
    rows = [(Text(f"{n}", "quiet"), _names(batch)) for n, batch in enumerate(batches[:SHOWN_BATCHES], start=1)]
    more = len(batches) - SHOWN_BATCHES
    rest = [Text(f"  … and {more:,} more", "quiet")] if more > 0 else []
    return Group(Text("Schedule, by batch", "head"), columns(rows, right=(0,)), *rest)


def _names(batch: Sequence[str]) -> str:
    shown = ", ".join(clean(name) for name in batch[:SHOWN_BATCHES])
    return shown if len(batch) <= SHOWN_BATCHES else f"{shown}, … ({len(batch):,} tasks)"


def _listed(title: str, mark: str, style: str, lines: Sequence[str]) -> RenderableType:
    rows = [(Text(mark, style), clean(line)) for line in lines]
    return Group(Text(title, style), columns(rows))
