"""How changesets come, are judged and land."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.event import BaseMoved, ChangesetBuilt, ChangesetEvicted, ChangesetJudged, ChangesetsFormed, Landed
from blueflame.rules.placing import due_hook
from blueflame.rules.session import ACTIVE, Session


def _changesets_formed(session: Session, event: ChangesetsFormed, _at: float) -> None:
    for changeset in event.changesets:
        session.changesets[changeset.id] = ChangesetRecord(changeset=changeset)
        session.merging[changeset.id] = None
        for task in changeset.tasks:
            session.changeset_of[task] = changeset.id


def _set_changeset(session: Session, record: ChangesetRecord) -> None:
    name = record.changeset.id
    session.changesets[name] = record
    if record.state not in ACTIVE:
        session.merging.pop(name, None)
        for task in record.changeset.tasks:
            session.changeset_of.pop(task, None)


def _changeset_built(session: Session, event: ChangesetBuilt, _at: float) -> None:
    _set_changeset(session, replace(session.changesets[event.changeset], state=ChangesetState.BUILT, build=event.build))


def _changeset_evicted(session: Session, event: ChangesetEvicted, _at: float) -> None:
    _set_changeset(
        session, replace(session.changesets[event.changeset], state=ChangesetState.EVICTED, note=event.reason)
    )


JUDGED = {
    "approve": ChangesetState.APPROVED,
    "reject": ChangesetState.REJECTED,
    "skip": ChangesetState.SKIPPED,
    "defer": ChangesetState.DEFERRED,
}


def _changeset_judged(session: Session, event: ChangesetJudged, _at: float) -> None:
    _set_changeset(session, replace(session.changesets[event.changeset], state=JUDGED[event.choice], note=event.note))


def _base_moved(session: Session, event: BaseMoved, _at: float) -> None:
    session.base_sha = event.found
    _set_changeset(session, replace(session.changesets[event.changeset], state=ChangesetState.FORMED, build=None))


def _landed(session: Session, event: Landed, _at: float) -> None:
    session.base_sha = event.after
    session.landings = (*session.landings, event.changeset)
    _set_changeset(
        session, replace(session.changesets[event.changeset], state=ChangesetState.LANDED, landed_as=event.after)
    )
    due_hook(session, "post_merge", f"post_merge:{event.changeset}", event.changeset)


MERGING: dict[type, Callable[[Session, Any, float], None]] = {
    ChangesetsFormed: _changesets_formed,
    ChangesetBuilt: _changeset_built,
    ChangesetEvicted: _changeset_evicted,
    ChangesetJudged: _changeset_judged,
    BaseMoved: _base_moved,
    Landed: _landed,
}
