"""A dry run: the plan, its schedule, cost and agents. Nothing is started or written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blueflame.cli.console import make_console, print_view
from blueflame.cli.output import print_json
from blueflame.cli.render.plan import render_dry_run
from blueflame.model.exit_codes import ExitCode
from blueflame.model.task import Task
from blueflame.orchestrator.lifecycle import build_limits
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.wiring import build_runtime_set
from blueflame.session.from_settings import build_workflow
from blueflame.views.plan import build_dry_run_json, build_dry_run_view


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
    known = tasks if tasks is not None else build_runtime_set(project, script=script).find_known_plan(request, flow)
    is_plan = known is not None and (tasks is not None or flow.has_stage("plan"))
    view = build_dry_run_view(request, known, flow, limits, is_plan=is_plan)
    if as_json:
        print_json(build_dry_run_json(view))
    else:
        print_view(make_console(), render_dry_run(view))
    return ExitCode.USAGE if view.plan.problems else ExitCode.OK
