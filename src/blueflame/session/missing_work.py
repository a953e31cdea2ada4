"""What follows when commits of the session are no longer in the repository: pruned, or a clone was restored."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.event import AttemptEnded, BaseMoved, Event, GateWithdrawn, TaskMoved
from blueflame.model.task import FINISHED, Cause, HistoryResult, Result, TaskRecord, TaskState
from blueflame.session.cascade import block_if_dependency_failed, defer_tasks_built_on
from blueflame.session.changesets.queue import trim_changeset
from blueflame.session.retries import requeue_with_history
from blueflame.session.state import Session


def find_own_work(record: TaskRecord) -> Result | None:
    """Return the newest work of a task that is kept: its result, or what was made of it so far."""
    return record.result or (record.start if record.state is TaskState.PARTIAL else None)


def list_needed_commits(session: Session) -> dict[str, str]:
    """The commits that the session needs, by the task, the changeset or the merger that they belong to."""
    results = {
        name: result.sha
        for name, record in session.tasks.items()
        if (result := find_own_work(record)) is not None and record.state not in FINISHED
    }
    builds = {name: session.changesets[name].build for name in session.merging}
    conflicts = {name: session.changesets[name].conflict for name in session.conflicted}
    return (
        results
        | {name: build.commit for name, build in builds.items() if build is not None}
        | {name: conflict.ours for name, conflict in conflicts.items() if conflict is not None}
        | _list_resolutions(session)
    )


def _list_resolutions(session: Session) -> dict[str, str]:
    """The commits with which mergers resolved conflicts of changesets that have not landed."""
    made = {each.by: each.commit for name in session.merging for each in session.changesets[name].resolutions}
    mergers = {name: made.get(record.attempt.agent_id) for name, record in session.attempts.items() if made}
    return {name: commit for name, commit in mergers.items() if commit is not None}


def list_needed_foundations(session: Session) -> dict[str, tuple[str, ...]]:
    """The commits that live attempts start from: their base, or what they are to build on."""
    records = {name: session.attempts[name] for name in session.live}
    return {
        name: (record.base,) if record.base else tuple(foundation.sha for foundation in record.attempt.built_on)
        for name, record in records.items()
    }


def redo_missing(session: Session, missing: Collection[str], now: float) -> Iterator[Event]:
    """Send back the tasks whose commits are gone, without counting a retry, and build changesets again."""
    reason = "its commit is no longer in the repository"
    for name in missing:
        if name in session.live:
            notes = "what it was built on is no longer in the repository"
            yield AttemptEnded(attempt=name, ended=AttemptOutcome(ending=Ending.LOST, notes=notes))
    tasks = [name for name in missing if name in session.tasks]
    touched = sorted({session.changeset_of[name] for name in tasks if name in session.changeset_of})
    rebuilt = [name for name in missing if name in session.merging and name not in touched]
    for gate in session.open_gates.values():
        if gate.subject in (*tasks, *touched, *rebuilt):
            yield GateWithdrawn(gate=gate.id, reason=f"{gate.subject}: {reason}")
    for name in touched:
        members = [task for task in session.changesets[name].changeset.tasks if task in tasks]
        yield trim_changeset(session, name, members, f"{', '.join(members)}: {reason}")
    for name in tasks:
        if name not in session.changeset_of:
            yield requeue_with_history(session, name, HistoryResult.STALE, now, reason)
        yield TaskMoved(task=name, cause=Cause.RENEW, keeps_retries=True)  # at once: it needs no other cycle
        yield from block_if_dependency_failed(session, name)
        yield from defer_tasks_built_on(session, (name,), f"{name} is being redone: {reason}")
    for name in rebuilt:
        build = session.changesets[name].build
        expected = build.base if build is not None else session.base_sha  # a conflict may be with what was merged there
        yield BaseMoved(changeset=name, expected=expected, found=session.base_sha)
