"""The plan as a person reviews it: what will be done, where, in which order, for how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.model.task import Task
from blueflame.session.estimate import CostRange
from blueflame.text.marks import BAD, NOTE
from blueflame.text.sanitize import clean_line, clean_text

MAX_TASKS, MAX_BATCHES = 60, 20


def render_plan(
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
    about: dict[str, RenderableType] = {"Request:": clean_line(request)} if request else {}
    about["Tasks:"] = f"{len(tasks):,}"
    if cost is not None:
        about["Estimated cost:"] = Text.assemble(cost.text, (f"\n{cost.basis}", "quiet"))
    return stack_parts(
        Group(Heading("Plan review", f"round {round}" if round > 1 else "", session), build_facts(about)),
        _render_tasks(tasks),
        _render_schedule(batches) if batches else None,
        _render_list("Warnings", NOTE, "warn", warnings) if warnings else None,
        _render_list("Problems: the plan cannot be approved as it is", BAD, "bad", problems) if problems else None,
    )


def build_plan_json(
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
        "tasks": [build_task_json(task) for task in tasks],
        "batches": [list(batch) for batch in batches],
        "cost_usd": build_range_json(cost),
        "problems": list(problems),
        "warnings": list(warnings),
    }


def build_task_json(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "priority": task.priority,
        "cohesion_group": task.cohesion_group,
        "dependencies": list(task.dependencies),
        "file_locks": list(task.file_locks),
    }


def build_range_json(cost: CostRange | None) -> dict[str, Any] | None:
    return None if cost is None else {"base": cost.low / 1e6, "with_retries": cost.high / 1e6, "learned": cost.learned}


def _render_tasks(tasks: Sequence[Task]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(width=0)
    grid.add_column(no_wrap=True, style="id")
    grid.add_column(ratio=1, overflow="fold")
    grid.add_column(no_wrap=True, justify="right")
    for task in tasks[:MAX_TASKS]:
        title = Text.assemble((f"[{clean_line(task.cohesion_group)}]", "group"), " ", clean_line(task.title))
        grid.add_row("", clean_text(task.id), title, f"priority {task.priority}")
        grid.add_row("", "", _build_pair("locks", ", ".join(task.file_locks) or "none"), "")
        grid.add_row("", "", _build_pair("after", ", ".join(task.dependencies) or "nothing"), "")
    if len(tasks) <= MAX_TASKS:
        return grid
    return Group(grid, Text(f"  … and {len(tasks) - MAX_TASKS:,} more, all of them in .blueflame/tasks.yaml", "quiet"))


def _build_pair(name: str, value: str) -> Text:
    return Text.assemble((f"{name}  ", "quiet"), clean_line(value))


def _render_schedule(batches: Sequence[Sequence[str]]) -> RenderableType:
    rows = [(Text(f"{n}", "quiet"), _list_names(batch)) for n, batch in enumerate(batches[:MAX_BATCHES], start=1)]
    more = len(batches) - MAX_BATCHES
    rest = [Text(f"  … and {more:,} more", "quiet")] if more > 0 else []
    return Group(Text("Schedule, by batch", "head"), build_columns(rows, right=(0,)), *rest)


def _list_names(batch: Sequence[str]) -> str:
    shown = ", ".join(clean_text(name) for name in batch[:MAX_BATCHES])
    return shown if len(batch) <= MAX_BATCHES else f"{shown}, … ({len(batch):,} tasks)"


def _render_list(title: str, mark: str, style: str, lines: Sequence[str]) -> RenderableType:
    rows = [(Text(mark, style), clean_text(line)) for line in lines]
    return Group(Text(title, style), build_columns(rows))
