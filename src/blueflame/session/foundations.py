"""What a new attempt is built on: its dependencies' verified commits, and those of work that touched the same files.

Two tasks with overlapping locks run one after the other. The second starts from the first one's commit, not from
the base: else both would change the same lines from the same start, and the merge would conflict for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from blueflame.model.task import VERIFIED_NOT_LANDED, Task, TaskCommit, TaskRecord, TaskState
from blueflame.paths.locks import do_locks_overlap
from blueflame.session.state import Session


def find_foundations(session: Session, task: Task) -> tuple[TaskCommit, ...]:
    """In id order. Landed work is in the base already and needs no mention; what is only proposed is not there."""
    needed = {
        name
        for name in task.dependencies
        if session.tasks[name].state in VERIFIED_NOT_LANDED or name in session.proposed
    }
    nearby = set(session.unmerged.find_overlapping(task.file_locks)) | set(_find_proposed_overlaps(session, task))
    return tuple(_build_foundation(session.tasks[name]) for name in sorted((needed | nearby) - {task.id}))


def _find_proposed_overlaps(session: Session, task: Task) -> Iterator[str]:
    for name in session.proposed:
        locks = session.tasks[name].task.file_locks
        everything = not (task.file_locks and locks)  # whoever names no locks holds the whole repository
        if everything or any(do_locks_overlap(own, other) for own in task.file_locks for other in locks):
            yield name


def _build_foundation(record: TaskRecord) -> TaskCommit:
    assert record.result is not None, f"{record.task.id} is {record.state.value} without a result"
    return TaskCommit(record.task.id, record.result.sha)


def are_foundations_valid(session: Session, built_on: tuple[TaskCommit, ...]) -> bool:
    """Is everything it was built on still what its task stands for?"""
    return all(_is_foundation_valid(session, foundation) for foundation in built_on)


def _is_foundation_valid(session: Session, foundation: TaskCommit) -> bool:
    record = session.tasks[foundation.task]
    if record.result is None or record.result.sha != foundation.sha:
        return False
    return record.state in VERIFIED_NOT_LANDED or record.state is TaskState.MERGED
