"""How changesets come, are judged and land."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.event import (
    BaseMoved,
    ChangesetBuilt,
    ChangesetConflicted,
    ChangesetEvicted,
    ChangesetJudged,
    ChangesetsFormed,
    ChangesetTrimmed,
    ConflictResolved,
    Landed,
    LandingUndone,
    PullRequestOpened,
)
from blueflame.session.apply.indexes import due_hook
from blueflame.session.merging.form import title_of
from blueflame.session.state import ACTIVE, Session


def _changesets_formed(session: Session, event: ChangesetsFormed, at: float) -> None:
    for changeset in event.changesets:
        session.changesets[changeset.id] = ChangesetRecord(changeset=changeset, formed_at=at)
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


def _changeset_trimmed(session: Session, event: ChangesetTrimmed, _at: float) -> None:
    record = session.changesets[event.changeset]
    gone = (*event.tasks, *event.waiting)
    for task in gone:
        session.changeset_of.pop(task, None)
    left = tuple(name for name in record.changeset.tasks if name not in gone)
    missing = tuple(sorted({*record.changeset.missing, *gone}))
    title = title_of(session, left) if left else record.changeset.title
    changeset = replace(record.changeset, tasks=left, missing=missing, title=title)
    state = ChangesetState.FORMED if left else ChangesetState.EVICTED
    note = f"{', '.join(event.tasks)} went back: {(event.reason.splitlines() or [''])[0]}"
    _set_changeset(session, replace(record, changeset=changeset, state=state, build=None, conflict=None, note=note))


def _changeset_conflicted(session: Session, event: ChangesetConflicted, _at: float) -> None:
    record = session.changesets[event.changeset]
    _set_changeset(session, replace(record, state=ChangesetState.CONFLICTED, build=None, conflict=event.conflict))


def _conflict_resolved(session: Session, event: ConflictResolved, _at: float) -> None:
    record = session.changesets[event.changeset]
    resolutions = (*record.resolutions, event.resolution)
    _set_changeset(session, replace(record, state=ChangesetState.FORMED, conflict=None, resolutions=resolutions))


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


def _pull_request_opened(session: Session, event: PullRequestOpened, _at: float) -> None:
    record = session.changesets[event.changeset]
    session.proposed.update(dict.fromkeys(record.changeset.tasks))
    place = event.url or event.branch
    _set_changeset(session, replace(record, state=ChangesetState.PROPOSED, place=place))


def _landing_undone(session: Session, event: LandingUndone, _at: float) -> None:
    record = session.changesets[event.changeset]
    if not session.ended:
        session.base_sha = event.after
    session.landings = tuple(name for name in session.landings if name != event.changeset)
    note = f"taken back by {event.by or 'a person'} with {event.after[:12]}"
    _set_changeset(session, replace(record, state=ChangesetState.UNDONE, note=note))


MERGING: dict[type, Callable[[Session, Any, float], None]] = {
    ChangesetsFormed: _changesets_formed,
    ChangesetBuilt: _changeset_built,
    ChangesetEvicted: _changeset_evicted,
    ChangesetJudged: _changeset_judged,
    ChangesetTrimmed: _changeset_trimmed,
    ChangesetConflicted: _changeset_conflicted,
    ConflictResolved: _conflict_resolved,
    BaseMoved: _base_moved,
    Landed: _landed,
    PullRequestOpened: _pull_request_opened,
    LandingUndone: _landing_undone,
}
