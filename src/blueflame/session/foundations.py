"""What a new attempt is built on: verified commits of its dependencies and of tasks with overlapping locks.

Two tasks with overlapping locks run one after the other. The second starts from the first one's commit, not from
the base: otherwise both would change the same lines of the base, and their merge would conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blueflame.model.task import VERIFIED, VERIFIED_NOT_LANDED, Task, TaskCommit, TaskRecord, TaskState
from blueflame.paths.locks import do_locks_overlap
from blueflame.session.state import Session


def find_start_foundations(session: Session, record: TaskRecord) -> tuple[TaskCommit, ...]:
    """Return the commits that the next attempt builds on; a task made in part has them in what was made."""
    return find_foundations(session, record.task) if record.start is None else record.start.built_on


def find_foundations(session: Session, task: Task) -> tuple[TaskCommit, ...]:
    """Return the commits to build on, in id order. Landed work is in the base already; a pull request is not."""
    needed = {
        name
        for name in task.dependencies
        if session.tasks[name].state in VERIFIED_NOT_LANDED or name in session.proposed or name in session.taken_off
    }
    nearby = set(session.unmerged.find_overlapping(task.file_locks)) | set(_find_proposed_overlaps(session, task))
    return tuple(_find_commit(session.tasks[name]) for name in sorted((needed | nearby) - {task.id}))


def find_conflicting_requests(session: Session) -> tuple[str, ...]:
    """Return the tasks in pull requests whose conflicts keep all that is left from starting; empty if any can start.

    People merge pull requests, so nothing that the session does can resolve that.
    """
    stuck = {
        task: built_on
        for task, built_on in session.unbuildable.items()
        if all(below.task in session.proposed for below in built_on)
    }
    left = frozenset(session.unfinished) if stuck else frozenset()
    for record in (session.tasks[name] for name in left):
        waits = record.task.id in stuck or not left.isdisjoint(record.task.dependencies)
        if record.state is not TaskState.PENDING or not waits:
            return ()
    return tuple(sorted({below.task for built_on in stuck.values() for below in built_on}))


def _find_proposed_overlaps(session: Session, task: Task) -> Iterator[str]:
    for name in session.proposed:
        locks = session.tasks[name].task.file_locks
        everything = not (task.file_locks and locks)  # no locks means the whole repository
        if everything or any(do_locks_overlap(own, other) for own in task.file_locks for other in locks):
            yield name


def _find_commit(record: TaskRecord) -> TaskCommit:
    assert record.result is not None, f"{record.task.id} is {record.state.value} without a result"
    return TaskCommit(record.task.id, record.result.sha)


def list_landed_below(session: Session, tasks: Iterable[str]) -> tuple[str, ...]:
    """Return the commits below the results of these tasks whose content has landed.

    A squash or a rebase lands it as other commits, so git does not know: what builds on it would conflict with its own
    foundation. When all that a result was built on has landed, that is its base.
    """
    landed: dict[str, None] = {}
    front = list(tasks)
    seen = set(front)
    while front:
        result = session.tasks[front.pop()].result
        if result is None or not result.built_on:
            continue
        left = [below for below in result.built_on if not _has_landed(session, below)]
        landed.update(dict.fromkeys([result.base] if not left else []))
        landed.update(dict.fromkeys(below.sha for below in result.built_on if left and below not in left))
        front += [below.task for below in left if below.task in session.tasks and below.task not in seen]
        seen.update(front)
    return tuple(sorted(landed))


def _has_landed(session: Session, below: TaskCommit) -> bool:
    """Whether the base has the content of this commit; what is in a pull request, or was taken off it, is not there."""
    record = session.tasks.get(below.task)
    if record is None or record.result is None or below.task in session.proposed or below.task in session.taken_off:
        return False
    return record.state is TaskState.MERGED and record.result.sha == below.sha


def are_foundations_valid(session: Session, built_on: tuple[TaskCommit, ...], *, or_deferred: bool = False) -> bool:
    """Whether each commit is still the verified (or deferred) result of its task."""
    states = VERIFIED | {TaskState.DEFERRED} if or_deferred else VERIFIED
    records = ((session.tasks[below.task], below.sha) for below in built_on)
    return all(
        record.state in states and record.result is not None and record.result.sha == sha for record, sha in records
    )
