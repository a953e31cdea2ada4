"""`blueflame plan`: plan a request and have the plan approved; the work waits for `blueflame resume`."""

from __future__ import annotations

from pathlib import Path

from blueflame.cli.commands.run import (
    PLAN,
    TASK,
    TEXT,
    WORKFLOW,
    check_request,
    print_warnings,
    read_request,
    refuse_unfinished,
)
from blueflame.cli.options import CONFIG, DECISIONS, JSON, QUIET, RECORD, REPLAY, SCRIPT


def plan(
    text: str | None = TEXT,
    task: str | None = TASK,
    config: Path | None = CONFIG,
    plan: Path | None = PLAN,
    workflow: str | None = WORKFLOW,
    decisions: Path | None = DECISIONS,
    script: Path | None = SCRIPT,
    record: Path | None = RECORD,
    replay: Path | None = REPLAY,
    as_json: bool = JSON,
    quiet: bool = QUIET,
) -> int:
    """Plan a request and ask for approval; 'blueflame resume' starts the work."""
    from blueflame.cli.foreground import begin_session, read_options, run_session
    from blueflame.orchestrator.lifecycle import lock_project
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_unfinished
    from blueflame.session.state import Phase

    project = open_project(config)
    request, tasks = read_request(text, task, plan)
    options = read_options(
        config, decisions=decisions, script=script, record=record, replay=replay, as_json=as_json, quiet=quiet
    )
    print_warnings(project)
    check_request(project, plan, tasks, workflow=workflow, script=script, replay=replay, allow_dirty=True)
    with lock_project(project) as journal:
        refuse_unfinished(find_unfinished(journal))
        session = begin_session(
            project, journal, options, request=request, tasks=tasks, workflow=workflow, allow_dirty=True
        )
        return run_session(project, journal, session, options, until=lambda found: found.phase is Phase.WORKING)
