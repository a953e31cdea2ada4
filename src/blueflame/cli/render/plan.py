"""The plan, drawn for review."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.model.task import Task
from blueflame.text.format import format_count
from blueflame.text.marks import BAD, NOTE
from blueflame.text.sanitize import clean_line, clean_text, shorten_line
from blueflame.views.parts import NamedValue
from blueflame.views.plan import DryRunView, PlanView, describe_choices
from blueflame.views.triage import list_triage_facts

MAX_TASKS, MAX_BATCHES = 60, 20
FEW_TASKS = 8  # so few are shown with their descriptions; of more, the first line
MAX_LINES, MAX_CHARS = 12, 400


def render_plan(view: PlanView) -> RenderableType:
    facts = [NamedValue("Request", clean_line(view.request))] if view.request else []
    facts += list_triage_facts(view.triage) if view.triage else ()
    facts.append(NamedValue("Tasks", f"{len(view.tasks):,}" if view.tasks else "none planned yet"))
    if view.cost is not None:
        only = "" if view.tasks else ", for planning only"
        facts.append(NamedValue("Estimated cost", view.cost.text + only, note=view.cost.basis))
    heading = Heading("Plan review", f"round {view.round}" if view.round > 1 else "", view.session)
    return stack_parts(
        Group(heading, build_facts(facts)),
        _render_tasks(view.tasks),
        _render_list("Changed since the plan before", NOTE, "id", view.changes),
        _render_schedule(view.batches) if view.batches else None,
        _render_list("Warnings", NOTE, "warn", view.warnings),
        _render_list("Problems: the plan cannot be approved as it is", BAD, "bad", view.problems),
    )


def render_dry_run(view: DryRunView) -> RenderableType:
    unknown = Text("No plan yet: the planner would make it. Give one with --plan.", "warn")
    rows = [
        (
            each.role,
            format_count(each.agents, "agent") if each.agents else "by the plan",
            f"{each.at_once} at once",
            f"{each.runtime} {each.model}",
        )
        for each in view.agents
    ]
    return stack_parts(
        render_plan(view.plan),
        None if view.is_plan_known else unknown,
        Group(Text(f"The workflow {view.workflow.name} would start", "head"), build_columns(rows)),
        Text("Nothing was started.", "quiet"),
    )


def _render_tasks(tasks: Sequence[Task]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(width=0)
    grid.add_column(no_wrap=True, style="id")
    grid.add_column(ratio=1, overflow="fold")
    grid.add_column(no_wrap=True, justify="right")
    shown = MAX_LINES if len(tasks) <= FEW_TASKS else 1
    for task in tasks[:MAX_TASKS]:
        grid.add_row("", clean_text(task.id), _build_title(task), f"priority {task.priority}")
        if len(task.description) > 1 and task.description.strip() != task.title:
            grid.add_row("", "", _render_description(task, shown), "")
        grid.add_row("", "", _build_pair("locks", ", ".join(task.file_locks) or "none"), "")
        grid.add_row("", "", _build_pair("after", ", ".join(task.dependencies) or "nothing"), "")
        if chosen := describe_choices(task):
            grid.add_row("", "", _build_pair("runs", chosen), "")
    if len(tasks) <= MAX_TASKS:
        return grid
    return Group(grid, Text(f"  … and {len(tasks) - MAX_TASKS:,} more, all of them in .blueflame/tasks.yaml", "quiet"))


def _build_title(task: Task) -> Text:
    group = "" if task.cohesion_group == task.id else f"[{clean_line(task.cohesion_group)}] "
    return Text.assemble((group, "group"), clean_line(task.title))


def _render_description(task: Task, most: int) -> Text:
    lines = [clean_line(line) for line in task.description.strip().splitlines() if line.strip()]
    shown = "\n".join(shorten_line(line, MAX_CHARS) for line in lines[:most])
    cut = len(lines) > most or any(len(line) > MAX_CHARS for line in lines[:most])
    rest = f"\n… the rest: blueflame show {task.id}" if cut else ""
    return Text.assemble(shown, (clean_text(rest), "quiet"))


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


def _render_list(title: str, mark: str, style: str, lines: Sequence[str]) -> RenderableType | None:
    rows = [(Text(mark, style), clean_text(line)) for line in lines]
    return Group(Text(title, style), build_columns(rows)) if rows else None
