"""The merge queue: which changeset is next, and what happens to one that conflicts or whose checks fail.

Changesets are handled in the order in which they were formed, those with a fix first. While one waits for a merger
agent, later ones that do not build on it continue; as soon as it can be built it has its old place again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from blueflame.model.attempt import MERGER, Duty
from blueflame.model.changeset import ChangesetRecord, Conflict
from blueflame.model.event import ChangesetConflicted, ChangesetEvicted, ChangesetTrimmed, Event
from blueflame.model.gate import GateKind
from blueflame.session.cascade import find_reachable
from blueflame.session.state import Session

MIN_MERGER_TRIES = 2  # with a result, for one changeset, or its number of tasks if that is more: each can conflict once


def find_next_changeset(session: Session) -> str | None:
    """Return the changeset that is to be built, shown or landed now: one at a time, because each moves the base.

    An approved one lands before another is built, and nothing is built while a person reviews one.
    """
    for name in session.merging if session.approved or session.is_asking(GateKind.CHANGESET) else ():
        if name in session.approved or session.is_asking(GateKind.CHANGESET, name):
            return name
    waiting: set[str] = set()  # for a merger, or for a changeset that does
    for name in _list_in_order(session, session.merging):
        below = _list_changesets_below(session, session.changesets[name])
        if name not in session.conflicted and waiting.isdisjoint(below):
            return name
        waiting.add(name)
    return None


def _list_in_order(session: Session, formed: Iterable[str]) -> Iterable[str]:
    """List changesets as they were formed; those with a fix first, unless they build on one that waits."""
    return sorted(formed, key=lambda name: not _is_urgent(session, name)) if session.fixes else formed


def _is_urgent(session: Session, name: str) -> bool:
    record = session.changesets[name]
    fixes = any(task in session.fixes for task in record.changeset.tasks)
    return fixes and session.merging.keys().isdisjoint(_list_changesets_below(session, record))


def _list_changesets_below(session: Session, record: ChangesetRecord) -> Iterator[str]:
    """List the changesets in the queue that this one builds on."""
    for name in record.changeset.tasks:
        result = session.tasks[name].result
        for foundation in result.built_on if result else ():
            below = session.changeset_of.get(foundation.task)
            if below is not None and below != record.changeset.id:
                yield below


def list_unresolved(session: Session) -> Iterator[str]:
    """List the changesets in conflict for which a merger can start: nothing that lands before changes the conflict."""
    if not session.conflicted:
        return
    order = [*_list_in_order(session, session.merging)]
    following = find_next_changeset(session)
    before = order[: order.index(following)] if following is not None else order
    for name in _list_without_merger(session):
        if following is None or name in before or not _may_change_conflict(session, following, name):
            yield name


def list_outdated_conflicts(session: Session, landed: str) -> Iterator[str]:
    """List the changesets in conflict that wait for a merger in a file that this landing has changed."""
    return (name for name in _list_without_merger(session) if _may_change_conflict(session, landed, name))


def _list_without_merger(session: Session) -> Iterator[str]:
    """List the changesets in conflict for which no merger is running, nor waits for an answer."""
    formed = sorted(session.conflicted, key=session.merging.__getitem__)
    for name in _list_in_order(session, formed):
        asks = session.is_asking(GateKind.CLARIFICATION, name)
        if not asks and session.find_live_attempt(name, Duty.MERGE) is None:
            yield name


def _may_change_conflict(session: Session, landing: str, name: str) -> bool:
    """Whether one that lands changes a file in which the other is in conflict, or may: it is not built yet."""
    build, conflict = session.changesets[landing].build, session.changesets[name].conflict
    assert conflict is not None, f"{name} is in conflict, with nothing"
    return build is None or any(file.path in conflict.paths for file in build.files)


def handle_conflict(session: Session, changeset: str, conflict: Conflict) -> Event:
    """Ask for a merger agent, if the configuration has one and it was not tried too often; else send the task back."""
    record = session.changesets[changeset]
    most = max(MIN_MERGER_TRIES, len(record.changeset.tasks))
    if session.limits.on_conflict == MERGER and len(record.resolutions) < most:
        return ChangesetConflicted(changeset=changeset, conflict=conflict)
    return give_task_back(session, changeset, conflict)


def give_task_back(session: Session, changeset: str, conflict: Conflict, why: str = "") -> Event:
    """Send back only the task that conflicts; it starts again from a base that has the others."""
    reason = f"conflict in {', '.join(conflict.paths)} with what has landed meanwhile"
    if set(session.changesets[changeset].changeset.tasks) - {conflict.task}:
        reason += " or lands together with it"
    return trim_changeset(session, changeset, (conflict.task,), f"{reason}\n{why}".strip(), conflict.paths)


def trim_changeset(
    session: Session, changeset: str, culprits: Collection[str], reason: str, paths: tuple[str, ...] = ()
) -> Event:
    """Take the culprits, and what is built on them, out of a changeset; evict it if nothing is left."""
    members = session.changesets[changeset].changeset.tasks
    if set(members) <= set(culprits):
        return ChangesetEvicted(changeset=changeset, reason=reason, paths=paths)
    built_on = find_reachable(culprits, lambda name: (n for n in session.built_upon.get(name, ()) if n in members))
    return ChangesetTrimmed(
        changeset=changeset,
        tasks=tuple(name for name in members if name in culprits),
        waiting=tuple(name for name in members if name in built_on),
        reason=reason,
        paths=paths,
    )
