"""How events about changesets and landings change a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.event import (
    BaseAdopted,
    BaseLost,
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
    ScanDelayed,
)
from blueflame.session.apply.indexes import move_base, schedule_hook
from blueflame.session.changesets.form import build_changeset_title
from blueflame.session.state import ACTIVE_STATES, POSTPONED, Session


def _apply_changesets_formed(session: Session, event: ChangesetsFormed, at: float) -> None:
    for changeset in event.changesets:
        session.changesets[changeset.id] = ChangesetRecord(changeset=changeset, formed_at=at)
        session.merging[changeset.id] = len(session.changesets)
        for task in changeset.tasks:
            session.changeset_of[task] = changeset.id


def _put_changeset(session: Session, record: ChangesetRecord) -> None:
    name = record.changeset.id
    more = (record.state in POSTPONED) - (session.changesets[name].state in POSTPONED)
    for task in record.changeset.tasks if more else ():
        session.postponements[task] = session.postponements.get(task, 0) + more
    session.changesets[name] = record
    for state, index in ((ChangesetState.CONFLICTED, session.conflicted), (ChangesetState.APPROVED, session.approved)):
        index.pop(name, None)
        if record.state is state:
            index[name] = None
    if record.state not in ACTIVE_STATES:
        session.merging.pop(name, None)
        for task in record.changeset.tasks:
            session.changeset_of.pop(task, None)


def _apply_scan_delayed(session: Session, event: ScanDelayed, at: float) -> None:
    since = None if event.is_over else at - event.seconds
    _put_changeset(session, replace(session.changesets[event.changeset], scanned_since=since))


def _apply_changeset_built(session: Session, event: ChangesetBuilt, _at: float) -> None:
    _put_changeset(session, replace(session.changesets[event.changeset], state=ChangesetState.BUILT, build=event.build))


def _apply_changeset_evicted(session: Session, event: ChangesetEvicted, _at: float) -> None:
    _put_changeset(
        session, replace(session.changesets[event.changeset], state=ChangesetState.EVICTED, note=event.reason)
    )


def _apply_changeset_trimmed(session: Session, event: ChangesetTrimmed, _at: float) -> None:
    record = session.changesets[event.changeset]
    gone = (*event.tasks, *event.waiting)
    for task in gone:
        session.changeset_of.pop(task, None)
    left = tuple(name for name in record.changeset.tasks if name not in gone)
    missing = tuple(sorted({*record.changeset.missing, *gone}))
    title = build_changeset_title(session, left) if left else record.changeset.title
    changeset = replace(record.changeset, tasks=left, missing=missing, title=title)
    state = ChangesetState.FORMED if left else ChangesetState.EVICTED
    note = f"{', '.join(event.tasks)} went back: {(event.reason.splitlines() or [''])[0]}"
    _put_changeset(session, replace(record, changeset=changeset, state=state, build=None, conflict=None, note=note))


def _apply_changeset_conflicted(session: Session, event: ChangesetConflicted, _at: float) -> None:
    record = session.changesets[event.changeset]
    _put_changeset(session, replace(record, state=ChangesetState.CONFLICTED, build=None, conflict=event.conflict))


def _apply_conflict_resolved(session: Session, event: ConflictResolved, _at: float) -> None:
    record = session.changesets[event.changeset]
    resolutions = (*record.resolutions, event.resolution)
    _put_changeset(session, replace(record, state=ChangesetState.FORMED, conflict=None, resolutions=resolutions))


STATE_BY_CHOICE = {
    "approve": ChangesetState.APPROVED,
    "reject": ChangesetState.REJECTED,
    "skip": ChangesetState.SKIPPED,
    "defer": ChangesetState.DEFERRED,
}


def _apply_changeset_judged(session: Session, event: ChangesetJudged, at: float) -> None:
    record, state = session.changesets[event.changeset], STATE_BY_CHOICE[event.choice]
    _put_changeset(session, replace(record, state=state, note=event.note, judged_at=at))


def _apply_base_moved(session: Session, event: BaseMoved, _at: float) -> None:
    move_base(session, event.found)
    record = session.changesets[event.changeset]
    _put_changeset(session, replace(record, state=ChangesetState.FORMED, build=None, conflict=None))


def _apply_base_lost(_session: Session, _event: BaseLost, _at: float) -> None:
    """Nothing: the gate that asks about it is a separate event."""


def _apply_base_adopted(session: Session, event: BaseAdopted, _at: float) -> None:
    session.base_sha = event.sha
    session.landings = tuple(name for name in session.landings if name not in event.without)
    for name in event.without:
        record = session.changesets[name]
        session.taken_off |= frozenset(record.changeset.tasks if name not in event.gone else ())
        note = f"no longer on {session.base_branch}, which was replaced"
        if name in event.gone:
            note += ", and its commits are gone; have it made again: blueflame add (after the session: blueflame run)"
        _put_changeset(session, replace(record, state=ChangesetState.UNDONE, note=note))


def _apply_landed(session: Session, event: Landed, _at: float) -> None:
    move_base(session, event.after)
    session.landings = (*session.landings, event.changeset)
    _put_changeset(
        session, replace(session.changesets[event.changeset], state=ChangesetState.LANDED, landed_as=event.after)
    )
    schedule_hook(session, "post_merge", f"post_merge:{event.changeset}", event.changeset)


def _apply_pull_request_opened(session: Session, event: PullRequestOpened, _at: float) -> None:
    record = session.changesets[event.changeset]
    session.proposed.update(dict.fromkeys(record.changeset.tasks))
    place = event.url or event.branch
    _put_changeset(session, replace(record, state=ChangesetState.PROPOSED, place=place))


def _apply_landing_undone(session: Session, event: LandingUndone, _at: float) -> None:
    record = session.changesets[event.changeset]
    if not session.ended:
        move_base(session, event.after)
    session.landings = tuple(name for name in session.landings if name != event.changeset)
    note = f"undone by {event.by or 'a person'} with {event.after[:12]}"
    _put_changeset(session, replace(record, state=ChangesetState.UNDONE, note=note))


CHANGESET_HANDLERS: dict[type, Callable[[Session, Any, float], None]] = {
    ChangesetsFormed: _apply_changesets_formed,
    ScanDelayed: _apply_scan_delayed,
    ChangesetBuilt: _apply_changeset_built,
    ChangesetEvicted: _apply_changeset_evicted,
    ChangesetJudged: _apply_changeset_judged,
    ChangesetTrimmed: _apply_changeset_trimmed,
    ChangesetConflicted: _apply_changeset_conflicted,
    ConflictResolved: _apply_conflict_resolved,
    BaseMoved: _apply_base_moved,
    BaseLost: _apply_base_lost,
    BaseAdopted: _apply_base_adopted,
    Landed: _apply_landed,
    PullRequestOpened: _apply_pull_request_opened,
    LandingUndone: _apply_landing_undone,
}
