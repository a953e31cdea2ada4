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
    read_decisions,
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
    """Plan a request and ask for approval; nothing is worked on before 'blueflame resume'."""
    from blueflame.cli.foreground import RunOptions, can_planner_talk, read_cassette, run_session
    from blueflame.orchestrator import project as app
    from blueflame.session.state import Phase

    ground = app.open_project(config)
    request, tasks = read_request(text, task, plan)
    options = RunOptions(
        script=script,
        decisions=read_decisions(decisions),
        cassette=read_cassette(record, replay),
        as_json=as_json,
        quiet=quiet,
        config=config,
    )
    print_warnings(ground)
    check_request(ground, plan, tasks, workflow=workflow, script=script, replay=replay, allow_dirty=True)
    with app.lock_project(ground) as journal:
        refuse_unfinished(app.find_unfinished(journal))
        session = app.open_session(
            ground,
            journal,
            request=request,
            workflow=workflow,
            tasks=tasks,
            allow_dirty=True,
            scripted=script is not None,
            interactive=can_planner_talk(ground, options, workflow=workflow, planned=tasks is not None),
        )
        return run_session(ground, journal, session, options, until=lambda found: found.phase is Phase.WORKING)
