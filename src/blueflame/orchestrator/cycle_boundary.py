"""The boundary between waves: pin the base, re-read the configuration and the tasks file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from blueflame.documents.tasks_file import EditedTasksFile, archive_edit, read_edited_tasks
from blueflame.model.errors import BlueFlameError, ConfigError, WorldError
from blueflame.model.event import (
    BaseLost,
    ConfigDrifted,
    CycleStarted,
    EditDismissed,
    EditRefused,
    Event,
    GateWithdrawn,
    TasksImported,
    WaveStarted,
)
from blueflame.orchestrator.base_branch import read_base
from blueflame.orchestrator.context import Emit, SessionContext
from blueflame.orchestrator.session_settings import save_settings
from blueflame.session.effects import AwaitConfig, CrossBoundary
from blueflame.session.foundations import find_conflicting_requests
from blueflame.session.from_settings import build_session_limits, list_differences
from blueflame.session.requests.task_file import compare_tasks
from blueflame.session.state import Session

SAVE_SECONDS = 1.0  # between two looks at a configuration that cannot be used


async def cross_boundary(
    context: SessionContext, session: Session, effect: CrossBoundary, _emit: Emit
) -> Sequence[Event]:
    drift = await find_drift(context, session)
    if drift is not None:
        return [drift]
    edit = None if effect.stage else await asyncio.to_thread(_read_edit, context, session)
    if edit is not None:
        return [edit]
    if effect.stage:
        return [WaveStarted(cycle=effect.cycle, stage=effect.stage, position=effect.position)]
    base = await asyncio.to_thread(read_base, context.repo, session)
    if base == session.base_sha and (requests := find_conflicting_requests(session)):  # the cycle would do nothing
        conflict = f"the pull requests of {', '.join(requests)} conflict with each other"
        raise WorldError(f"{conflict}: nothing can be built on them. Merge them, and pull {session.base_branch}")
    return [base if isinstance(base, BaseLost) else CycleStarted(cycle=effect.cycle, base_sha=base)]


async def await_config(context: SessionContext, session: Session, effect: AwaitConfig, _emit: Emit) -> Sequence[Event]:
    """Withdraw the gate when the person has repaired the file; the boundary then compares it with the session's."""
    while effect.gate in session.open_gates:
        drift = await asyncio.to_thread(detect_drift, context, session)
        if drift is None or drift.digest:
            return [GateWithdrawn(gate=effect.gate, reason="the configuration can be used again")]
        await context.clock.sleep(SAVE_SECONDS)
    return []


def _read_edit(context: SessionContext, session: Session) -> Event | None:
    """The person's edit of the tasks file; None without an edit, or with one that is out of date."""
    found = read_edited_tasks(context.paths.tasks_file)
    if found is None:
        return None
    written_before = session.plan_approved_at is not None and found.changed_at < session.plan_approved_at
    if written_before or found.session not in ("", session.id) or found.digest in session.edits_seen:
        archive_edit(found)
        return None
    if found.problems:
        return EditRefused(digest=found.digest, problems=found.problems)
    edit = compare_tasks(session, found.tasks)
    if edit.problems:
        problems = tuple(f"{found.path}{_find_line(found, problem)}: {problem}" for problem in edit.problems)
        return EditRefused(digest=found.digest, problems=problems)
    if not edit.changes:
        return EditDismissed(digest=found.digest)
    return TasksImported(digest=found.digest, added=edit.added, edited=edit.edited, dropped=edit.dropped)


def _find_line(found: EditedTasksFile, problem: str) -> str:
    """The line of the task that a problem names."""
    named = next((name for name in found.lines if name in problem), None)
    return f":{found.lines[named]}" if named else ""


async def find_drift(context: SessionContext, session: Session) -> ConfigDrifted | None:
    """Compare the file with the session's configuration, and once more if an editor may be about to write the rest."""
    drift = await asyncio.to_thread(detect_drift, context, session)
    if drift is not None and not drift.digest:
        await context.clock.sleep(SAVE_SECONDS)
        drift = await asyncio.to_thread(detect_drift, context, session)
    return drift


def detect_drift(context: SessionContext, session: Session) -> ConfigDrifted | None:
    """None while the file is the session's configuration, or one that a person has already decided on."""
    try:
        loaded = context.read_config()
        if loaded.digest == session.config_digest or loaded.digest in session.drift_kept:
            return None  # a program that is missing meanwhile is no change of it: its attempts are held
        limits = build_session_limits(
            loaded.settings,
            session.workflow.name,
            scripted=context.scripted,
            interactive=session.limits.interactive_planning,
        )
        # what tasks go through stays as it was at the begin
        limits = replace(limits, figures=session.limits.figures, task_workflows=session.limits.task_workflows)
        context.make_runtimes(loaded.settings)
    except ConfigError as error:
        return _report_unusable(session, error.problems)
    except BlueFlameError as error:
        return _report_unusable(session, (str(error),))
    changes = list_differences(context.settings, loaded.settings, session.list_used_settings())
    if not changes:
        return None  # a newer version has more settings, with their defaults
    save_settings(context.paths, session.id, loaded.settings)
    return ConfigDrifted(digest=loaded.digest, changes=changes, limits=limits)


def _report_unusable(session: Session, problems: tuple[str, ...]) -> ConfigDrifted | None:
    if "" in session.drift_kept:
        return None
    return ConfigDrifted(digest="", changes=problems, limits=session.limits)
