"""`blueflame plan`: plan a request and have the plan approved; the work waits for `blueflame resume`."""

from __future__ import annotations

from pathlib import Path

from blueflame.cli.commands.run import (
    PLAN,
    TASK,
    TEXT,
    WORKFLOW,
    read_decisions,
    read_request,
    refuse_early,
    refuse_unfinished,
    say_warnings,
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
    from blueflame.cli.foreground import Manner, carry, planner_talks, read_cassette
    from blueflame.orchestrator import project as app
    from blueflame.session.state import Phase

    ground = app.grounds(config)
    request, tasks = read_request(text, task, plan)
    manner = Manner(
        script=script,
        decisions=read_decisions(decisions),
        cassette=read_cassette(record, replay),
        as_json=as_json,
        quiet=quiet,
        config=config,
    )
    say_warnings(ground)
    refuse_early(ground, plan, tasks, workflow=workflow, script=script, replay=replay, allow_dirty=True)
    with app.orchestrating(ground) as journal:
        refuse_unfinished(app.unfinished(journal))
        session = app.begin(
            ground,
            journal,
            request=request,
            workflow=workflow,
            tasks=tasks,
            allow_dirty=True,
            scripted=script is not None,
            interactive=planner_talks(ground, manner, workflow=workflow, planned=tasks is not None),
        )
        return carry(ground, journal, session, manner, until=lambda found: found.phase is Phase.WORKING)
