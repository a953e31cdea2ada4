"""What a person's hook gets as input, and what its exit code means."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from blueflame.model.attempt import AttemptOutcome
from blueflame.model.changeset import ChangesetRecord
from blueflame.model.limits import Hook
from blueflame.model.task import TaskRecord, dump_task
from blueflame.session.state import HookDue, Session, list_judged

PAYLOAD_VERSION = 1


def may_veto(hook: Hook) -> bool:
    return hook is Hook.PRE_VALIDATION


def has_vetoed(hook: Hook, *, exit_code: int, timed_out: bool) -> bool:
    """Whether a hook that may veto has failed or timed out; the failure of another hook is only a warning."""
    return may_veto(hook) and (timed_out or exit_code != 0)


def build_payload(session: Session, due: HookDue) -> dict[str, Any]:
    return {
        "schema_version": PAYLOAD_VERSION,
        "hook": due.name,
        "session": session.id,
        "cycle": session.cycle,
        "project": session.project,
        "request": session.request,
        "base_branch": session.base_branch,
        "base_sha": session.base_sha,
        **_describe_subject(session, due),
    }


def _describe_subject(session: Session, due: HookDue) -> dict[str, Any]:
    match Hook(due.name):
        case Hook.POST_PLAN:
            return {"tasks": [dump_task(session.tasks[name].task) for name in session.unfinished]}
        case Hook.PRE_VALIDATION:
            names = (due.subject,) if due.subject else list_judged(session)
            return {"tasks": [_dump_record(session.tasks[name]) for name in names]}
        case Hook.POST_MERGE:
            return {"changeset": _dump_landed(session.changesets[due.subject])}
        case Hook.ON_FAILURE:  # a reviewer or a dependency may have caused it, not an attempt
            last = session.find_last_work(due.subject)
            ended = _dump_ended(last.ended) if last and last.ended else None
            return {"task": _dump_record(session.tasks[due.subject]), "attempt": ended}


def _dump_landed(record: ChangesetRecord) -> dict[str, Any]:
    changeset, build = record.changeset, record.build
    assert build is not None, f"{changeset.id} landed without a build"
    return {
        "id": changeset.id,
        "group": changeset.group,
        "title": changeset.title,
        "tasks": list(changeset.tasks),
        "missing": list(changeset.missing),
        "before": build.base,
        "after": record.landed_as or build.commit,
        "files": [asdict(file) for file in build.files],
    }


def _dump_record(record: TaskRecord) -> dict[str, Any]:
    return {
        **dump_task(record.task),
        "state": record.state.value,
        "reason": record.reason,
        "attempts": record.attempts,
        "branch": record.branch,
        "sha": record.result.sha if record.result else None,
        "base": record.result.base if record.result else None,
    }


def _dump_ended(ended: AttemptOutcome) -> dict[str, Any]:
    return {
        "ending": ended.ending.value,
        "exit_code": ended.exit_code,
        "notes": ended.notes,
        "commits": ended.commits,
        "violations": [asdict(violation) for violation in ended.violations],
        "cost_usd": ended.spend.usd,
        "tokens": ended.spend.tokens,
        "seconds": ended.seconds,
        "waited": ended.waited,
    }
