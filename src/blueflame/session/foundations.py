"""What a new attempt is built on: verified commits of its dependencies and of tasks with overlapping locks.

Two tasks with overlapping locks run one after the other. The second starts from the first one's commit, not from
the base: otherwise both would change the same lines of the base, and their merge would conflict.
"""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.task import VERIFIED, VERIFIED_NOT_LANDED, Task, TaskCommit, TaskRecord, TaskState
from blueflame.paths.locks import do_locks_overlap
from blueflame.session.state import Session


def find_foundations(session: Session, task: Task) -> tuple[TaskCommit, ...]:
    """Return the commits to build on, in id order. Landed work is in the base already; a pull request is not."""
    needed = {
        name
        for name in task.dependencies
        if session.tasks[name].state in VERIFIED_NOT_LANDED or name in session.proposed
    }
    nearby = set(session.unmerged.find_overlapping(task.file_locks)) | set(_find_proposed_overlaps(session, task))
    return tuple(_find_commit(session.tasks[name]) for name in sorted((needed | nearby) - {task.id}))


def _find_proposed_overlaps(session: Session, task: Task) -> Iterator[str]:
    for name in session.proposed:
        locks = session.tasks[name].task.file_locks
        everything = not (task.file_locks and locks)  # no locks means the whole repository
        if everything or any(do_locks_overlap(own, other) for own in task.file_locks for other in locks):
            yield name


def _find_commit(record: TaskRecord) -> TaskCommit:
    assert record.result is not None, f"{record.task.id} is {record.state.value} without a result"
    return TaskCommit(record.task.id, record.result.sha)


def are_foundations_valid(session: Session, built_on: tuple[TaskCommit, ...], *, or_deferred: bool = False) -> bool:
    """Whether each commit is still the verified (or deferred) result of its task."""
    states = VERIFIED | {TaskState.DEFERRED} if or_deferred else VERIFIED
    records = ((session.tasks[below.task], below.sha) for below in built_on)
    return all(
        record.state in states and record.result is not None and record.result.sha == sha for record, sha in records
    )
