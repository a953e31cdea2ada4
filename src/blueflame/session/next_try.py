"""When something that failed is tried again, by whom, and how often: not before a moment that is in the journal.

So a wait survives a crash: who continues the session waits only for the rest of it.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from blueflame.model.limits import Limits
from blueflame.model.task import Assignment, TaskRecord

MAX_BACKOFF_SECONDS = 3600.0  # unless the configured base is longer
JITTER = 0.25  # of a wait: sessions that failed together do not all try again together


def compute_wait(times: int, name: str, *, first: float, most: float) -> float:
    """Compute the wait in seconds: doubled each time, plus jitter derived from the name of what waits."""
    share = sha256(name.encode()).digest()[0] / 255
    return min(most, first * 2.0 ** min(times - 1, 10)) * (1 + JITTER * share)


def is_due(until: float, now: float, *, most: float) -> bool:
    """Whether to try again; also when the clock was set back, so that the wait would be longer than any."""
    return now >= until or until - now > 2 * most


def find_retry_moment(limits: Limits, record: TaskRecord, now: float) -> float:
    """Return when the next retry of a task may begin: after the configured wait, doubled for each retry before.

    A rung of the ladder waits as the first retry did: another agent has not failed yet.
    """
    limits = limits.find_task_limits(record.task)
    if not limits.retry_wait:
        return 0.0
    times = record.retries + 1 if record.retries < limits.max_retries else 1
    most = max(limits.retry_wait, MAX_BACKOFF_SECONDS)
    return now + compute_wait(times, record.task.id, first=limits.retry_wait, most=most)


def is_backoff_over(limits: Limits, until: float, now: float) -> bool:
    bases = (flow.retry_wait for flow in limits.task_workflows.values())
    return is_due(until, now, most=max(limits.retry_wait, MAX_BACKOFF_SECONDS, *bases))


def may_retry(limits: Limits, record: TaskRecord) -> bool:
    """Whether a task whose attempt fails now is tried again without asking."""
    most = limits.find_task_limits(record.task).most_retries
    return record.retries < most and not is_at_ceiling(limits, record, more=1)


def is_at_ceiling(limits: Limits, record: TaskRecord, *, more: int = 0) -> bool:
    """Whether a task has had all attempts that it may have in the session, `more` of them not counted yet.

    The promise about money, in one place: no attempt that makes a task begins once as many failed or were sent back
    as `limits.max_attempts` allows, plus one for each time that a person asked for one more. It holds whatever brought
    the task back (a retry, a rung, a new cycle or plan, another task that was retried, a lower limit), because every
    such attempt begins in `session/decide`, which asks here. Endings that say nothing about the work count nothing.
    """
    return bool(limits.max_attempts) and record.failures + more >= max(limits.max_attempts, record.granted)


def grant_attempt(record: TaskRecord) -> TaskRecord:
    """Let a task have one more attempt, wherever its ceiling is. Further calls before it fails change nothing."""
    return replace(record, granted=max(record.granted, record.failures + 1))


def find_rung(limits: Limits, record: TaskRecord) -> int:
    """Return the rung of the ladder on which a task is tried, from 1; 0 for its usual attempts."""
    limits = limits.find_task_limits(record.task)
    return min(max(record.retries - limits.max_retries, 0), len(limits.ladder))


def choose_assignment(limits: Limits, role: str, record: TaskRecord) -> Assignment:
    """Choose who makes a task: as a person assigned it, else by its rung, its plan, and the role of its stage."""
    limits, rung = limits.find_task_limits(record.task), find_rung(limits, record)
    step = record.assigned or (limits.ladder[rung - 1] if rung else Assignment())
    planned = record.task.model if not step.role else None  # the plan chose it for the role of the stage
    chosen = step.role or role
    return Assignment(
        role=chosen,
        model=step.model or planned or limits.get_model(chosen),
        runtime=step.runtime or limits.get_runtime(chosen),
    )


def describe_next_try(limits: Limits, record: TaskRecord) -> str:
    """`retry 1 of 3` or `rung 1 of 2, opus`"""
    limits = limits.find_task_limits(record.task)
    if rung := find_rung(limits, record):
        return f"rung {rung} of {len(limits.ladder)}, {limits.ladder[rung - 1]}"
    return f"retry {record.retries} of {limits.max_retries}"
