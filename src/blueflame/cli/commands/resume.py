"""`blueflame resume`: continue an unfinished session after a stop or a crash."""

from __future__ import annotations

from pathlib import Path

from blueflame.cli.options import CONFIG, DECISIONS, JSON, QUIET, RECORD, REPLAY, SCRIPT, SESSION
from blueflame.cli.output import print_text
from blueflame.model.errors import UsageError


def resume(
    session: str | None = SESSION,
    config: Path | None = CONFIG,
    decisions: Path | None = DECISIONS,
    script: Path | None = SCRIPT,
    record: Path | None = RECORD,
    replay: Path | None = REPLAY,
    as_json: bool = JSON,
    quiet: bool = QUIET,
) -> int:
    """Continue an unfinished session: running agents are adopted, nothing is done twice."""
    from blueflame.cli.foreground import read_options, run_session
    from blueflame.orchestrator.lifecycle import lock_project
    from blueflame.orchestrator.project import open_project
    from blueflame.orchestrator.sessions import find_session, find_unfinished, load_session, open_journal

    project = open_project(config)
    options = read_options(
        config, decisions=decisions, script=script, record=record, replay=replay, as_json=as_json, quiet=quiet
    )
    with open_journal(project):
        pass  # where nothing has been run, nothing is made
    with lock_project(project) as journal:
        left = find_unfinished(journal)
        if session is not None:
            wanted = find_session(journal, session)
        elif left is not None:
            wanted = left.id
        else:
            raise UsageError("no unfinished session: start one with 'blueflame run --task \"...\"'")
        found = load_session(journal, wanted)
        if found.ended:
            raise UsageError(f"{wanted} has ended ({found.outcome}): start a new session with 'blueflame run'")
        if not as_json and not quiet:
            print_text(f"resuming {wanted}: {found.request.splitlines()[0][:100]}")
        return run_session(project, journal, found, options)
