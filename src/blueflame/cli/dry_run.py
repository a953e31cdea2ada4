"""A dry run: what would be done, in which order, by whom and for how much. Nothing is started or written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.text import Text

from blueflame.cli.console import build_columns, make_console, print_view, stack_parts
from blueflame.cli.output import print_json
from blueflame.cli.render.plan import build_plan_json, render_plan
from blueflame.model.attempt import PLANNER, VALIDATOR, WORKER
from blueflame.model.exit_codes import ExitCode
from blueflame.model.limits import Limits, Workflow
from blueflame.model.task import Task
from blueflame.orchestrator.lifecycle import build_limits
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.wiring import build_runtime_set
from blueflame.session.estimate import batches, estimate_cost
from blueflame.session.from_settings import build_workflow
from blueflame.session.plan_problems import find_plan_problems, find_plan_warnings
from blueflame.text.format import format_count

STAGE_ROLES = {"plan": PLANNER, "work": WORKER, "validate": VALIDATOR}


def show_dry_run(
    project: Project,
    request: str,
    tasks: Sequence[Task] | None,
    *,
    workflow: str | None,
    script: Path | None,
    as_json: bool,
) -> int:
    flow = build_workflow(project.settings, workflow)
    limits = build_limits(project, flow.name, scripted=script is not None)
    known = tasks if tasks is not None else build_runtime_set(project, script=script).foreseen_plan(request, flow)
    planned = known if tasks is not None or flow.has_stage("plan") else None  # our own single task is no plan
    wrong = _find_problems(planned, limits)
    if as_json:
        print_json(_build_json(request, known, wrong, flow, limits))
    else:
        _print_dry_run(request, known, wrong, flow, limits)
    return ExitCode.USAGE if wrong else ExitCode.OK


def _build_json(
    request: str, tasks: Sequence[Task] | None, wrong: Sequence[str], flow: Workflow, limits: Limits
) -> dict[str, Any]:
    shown = tuple(tasks or ())
    return {
        **build_plan_json(
            shown,
            session="dry run",
            batches=batches(shown, limits.workers),
            cost=estimate_cost(shown, limits, flow),
            problems=wrong,
            warnings=find_plan_warnings(shown) if shown else (),
        ),
        "request": request,
        "plan_known": tasks is not None,
        "workflow": {"name": flow.name, "stages": list(flow.stages), "barrier": flow.barrier},
        "would_spawn": _list_agents(shown, flow, limits),
    }


def _find_problems(tasks: Sequence[Task] | None, limits: Limits) -> tuple[str, ...]:
    if tasks is None:
        return ()
    return find_plan_problems(tasks, allowed_paths=limits.allowed_paths, blocked_paths=limits.blocked_paths)


def _list_agents(tasks: Sequence[Task], flow: Workflow, limits: Limits) -> list[dict[str, Any]]:
    """One row per role: how many at least, how many at once at most, driven by what."""
    many = {PLANNER: 1, WORKER: len(tasks), VALIDATOR: len(tasks)}
    at_once = {PLANNER: 1, WORKER: limits.workers, VALIDATOR: limits.validators}
    return [
        {
            "role": role,
            "agents": many[role],
            "at_once": min(at_once[role], max(many[role], 1)),
            "runtime": limits.get_runtime(role),
            "model": limits.get_model(role),
        }
        for role in (STAGE_ROLES[stage] for stage in flow.stages if stage in STAGE_ROLES)
    ]


def _print_dry_run(
    request: str, tasks: Sequence[Task] | None, wrong: Sequence[str], flow: Workflow, limits: Limits
) -> None:
    shown = tuple(tasks or ())
    view = render_plan(
        shown,
        session="dry run",
        request=request,
        batches=batches(shown, limits.workers),
        cost=estimate_cost(shown, limits, flow),
        problems=wrong,
        warnings=find_plan_warnings(shown) if shown else (),
    )
    unknown = Text("The plan is not known yet: the planner would make it. Give one with --plan.", "warn")
    rows = [
        (
            row["role"],
            format_count(row["agents"], "agent"),
            f"{row['at_once']} at once",
            f"{row['runtime']} {row['model']}",
        )
        for row in _list_agents(shown, flow, limits)
    ]
    spawned = Group(Text(f"Would be started by the workflow {flow.name}", "head"), build_columns(rows))
    print_view(
        make_console(),
        stack_parts(view, unknown if tasks is None else None, spawned, Text("Nothing was started.", "quiet")),
    )
