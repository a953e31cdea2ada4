"""What a person's hook gets as input, and what its exit code means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import AttemptOutcome
from blueflame.model.changeset import Changeset, FileChange
from blueflame.model.task import Task, TaskRecord, dump_task

PAYLOAD_VERSION = 1


class Hook(StrEnum):
    POST_PLAN = "post_plan"  # the plan was approved, nothing has started
    PRE_VALIDATION = "pre_validation"  # work is done and not reviewed yet: may veto
    POST_MERGE = "post_merge"  # a changeset landed
    ON_FAILURE = "on_failure"  # a task failed and has no retries left


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """What every hook gets."""

    session: str
    cycle: int
    project: str
    request: str
    base_branch: str
    base_sha: str


def has_vetoed(hook: Hook, *, exit_code: int, timed_out: bool) -> bool:
    """Whether a hook that may veto has failed or timed out; the failure of another hook is only a warning."""
    return hook is Hook.PRE_VALIDATION and (timed_out or exit_code != 0)


def build_post_plan_payload(context: HookContext, tasks: Sequence[Task]) -> dict[str, Any]:
    return _build_payload(Hook.POST_PLAN, context, tasks=[dump_task(task) for task in tasks])


def build_pre_validation_payload(context: HookContext, records: Sequence[TaskRecord]) -> dict[str, Any]:
    return _build_payload(Hook.PRE_VALIDATION, context, tasks=[_dump_record(record) for record in records])


def build_post_merge_payload(
    context: HookContext, changeset: Changeset, *, before: str, after: str, files: Sequence[FileChange] = ()
) -> dict[str, Any]:
    landed = {
        "id": changeset.id,
        "group": changeset.group,
        "title": changeset.title,
        "tasks": list(changeset.tasks),
        "missing": list(changeset.missing),
        "before": before,
        "after": after,
        "files": [asdict(file) for file in files],
    }
    return _build_payload(Hook.POST_MERGE, context, changeset=landed)


def build_on_failure_payload(context: HookContext, record: TaskRecord, ended: AttemptOutcome | None) -> dict[str, Any]:
    """Build the payload; `ended` is None when a reviewer or a dependency caused the failure, not an attempt."""
    return _build_payload(
        Hook.ON_FAILURE, context, task=_dump_record(record), attempt=None if ended is None else _dump_ended(ended)
    )


def _build_payload(hook: Hook, context: HookContext, **about: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON is any
    return {"schema_version": PAYLOAD_VERSION, "hook": hook.value, **asdict(context), **about}


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
