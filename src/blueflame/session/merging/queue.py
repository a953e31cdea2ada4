"""The merge queue: whose turn it is, and what becomes of a changeset that cannot land as it is.

First come, first served: changesets stand in the order in which they were formed. One that waits for a merger agent
lets those behind it go on, unless they build on it, and has its old place again as soon as it can be built.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from blueflame.model.attempt import MERGER
from blueflame.model.changeset import ChangesetRecord, ChangesetState, Conflict
from blueflame.model.event import ChangesetConflicted, ChangesetEvicted, ChangesetTrimmed, Event
from blueflame.model.gate import GateKind
from blueflame.session.cascade import find_reachable
from blueflame.session.state import Session

MIN_MERGER_TRIES = 2  # for one changeset, or as many as it has tasks: each of them can conflict once


def find_next_changeset(session: Session) -> str | None:
    """The changeset that is to be built, shown or landed now: one at a time, because each moves the base."""
    judged = (name for name in session.merging if _is_approved_or_asked(session, name))
    return next(judged, None) or next(_list_unblocked(session), None)


def _is_approved_or_asked(session: Session, name: str) -> bool:
    """What is approved lands before anything else is built, and nothing moves while a person looks."""
    return session.changesets[name].state is ChangesetState.APPROVED or session.is_asking(GateKind.CHANGESET, name)


def _list_unblocked(session: Session) -> Iterator[str]:
    held: set[str] = set()  # they wait for a merger, or for one that does
    for name in session.merging:
        record = session.changesets[name]
        if record.state is ChangesetState.CONFLICTED or held & set(_list_changesets_below(session, record)):
            held.add(name)
        else:
            yield name


def _list_changesets_below(session: Session, record: ChangesetRecord) -> Iterator[str]:
    """The changesets under way that it builds on."""
    for name in record.changeset.tasks:
        result = session.tasks[name].result
        for foundation in result.built_on if result else ():
            below = session.changeset_of.get(foundation.task)
            if below is not None and below != record.changeset.id:
                yield below


def list_unresolved(session: Session) -> Iterator[str]:
    """Changesets in conflict that nobody is at work on."""
    for name in session.merging:
        conflicted = session.changesets[name].state is ChangesetState.CONFLICTED
        if conflicted and session.find_live_attempt(name, MERGER) is None:
            yield name


def handle_conflict(session: Session, changeset: str, conflict: Conflict) -> Event:
    """A merger agent tries where the configuration wants one, a few times at most; else the task goes back."""
    tries = session.attempts_on.get((changeset, MERGER), 0)
    most = max(MIN_MERGER_TRIES, len(session.changesets[changeset].changeset.tasks))
    if session.limits.on_conflict == MERGER and tries < most:
        return ChangesetConflicted(changeset=changeset, conflict=conflict)
    return give_task_back(session, changeset, conflict)


def give_task_back(session: Session, changeset: str, conflict: Conflict, why: str = "") -> Event:
    """Only the task that does not fit goes back; it starts again from a base that has the others."""
    reason = f"conflict in {', '.join(conflict.paths)} with what has landed meanwhile"
    others = [name for name in session.changesets[changeset].changeset.tasks if name != conflict.task]
    if others:
        reason = f"conflict in {', '.join(conflict.paths)} with what has landed meanwhile or lands together with it"
    return trim_changeset(session, changeset, (conflict.task,), f"{reason}\n{why}".strip(), conflict.paths)


def trim_changeset(
    session: Session, changeset: str, culprits: Collection[str], reason: str, paths: tuple[str, ...] = ()
) -> Event:
    """The changeset goes on without the culprits and what is built on them; all of it is evicted if nothing is left."""
    members = session.changesets[changeset].changeset.tasks
    if set(members) <= set(culprits):
        return ChangesetEvicted(changeset=changeset, reason=reason, paths=paths)
    leaning = find_reachable(culprits, lambda name: (n for n in session.built_upon.get(name, ()) if n in members))
    return ChangesetTrimmed(
        changeset=changeset,
        tasks=tuple(name for name in members if name in culprits),
        waiting=tuple(name for name in members if name in leaning),
        reason=reason,
        paths=paths,
    )
