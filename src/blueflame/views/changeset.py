"""A changeset for review: what it changes, its checks, what is missing, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.changeset import Build, ChangesetRecord, ChangesetState
from blueflame.model.spend import NO_SPEND, Budget, Spend
from blueflame.model.task import TaskRecord
from blueflame.session.changesets.remarks import list_remarks
from blueflame.session.hand_offs import StageHandOff, list_last_hand_offs
from blueflame.session.state import Session
from blueflame.text.format import format_count
from blueflame.text.marks import BAD, OK
from blueflame.views.parts import MarkedLine, pick

AGAIN = "→"
MAX_LOSSES = 10
OUTCOMES: Mapping[ChangesetState, str] = {
    ChangesetState.LANDED: "approved",
    ChangesetState.APPROVED: "approved",
    ChangesetState.PROPOSED: "proposed",
    ChangesetState.UNDONE: "undone",
    ChangesetState.REJECTED: "re-queued",
    ChangesetState.EVICTED: "sent back",
    ChangesetState.DEFERRED: "deferred",
    ChangesetState.SKIPPED: "skipped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetView:
    session: str
    record: ChangesetRecord
    place: tuple[int, int] = (1, 1)  # (i, n) among the cycle's changesets
    tasks: Mapping[str, TaskRecord] = field(default_factory=dict)
    spend: Spend | None = None  # of the session so far
    costs: Mapping[str, Spend] = field(default_factory=dict)  # of each task so far, its reviews included
    budget: Budget = field(default_factory=Budget)
    deferred: tuple[ChangesetRecord, ...] = ()
    hand_offs: tuple[StageHandOff, ...] = ()  # the last word of each stage of its tasks
    remarks: tuple[str, ...] = ()  # on what its agents did

    @property
    def session_cost(self) -> str:
        return self.budget.format_amount(self.budget.measure(self.spend)) if self.spend else ""

    @property
    def own_cost(self) -> str:
        spent = sum((self.costs[name] for name in self.record.changeset.tasks if name in self.costs), NO_SPEND)
        return self.budget.format_amount(self.budget.measure(spent)) if self.budget.measure(spent) else ""


def build_changeset_view(session: Session, name: str) -> ChangesetView:
    record = session.changesets[name]
    peers = [each for each in session.changesets.values() if each.changeset.cycle == record.changeset.cycle]
    return ChangesetView(
        session=session.id,
        record=record,
        place=(peers.index(record) + 1, len(peers)),
        tasks=session.tasks,
        spend=session.spend,
        costs=session.spend_by_subject,
        budget=session.limits.session_budget,
        deferred=tuple(peer for peer in peers if peer.state is ChangesetState.DEFERRED),
        hand_offs=list_last_hand_offs(session, *record.changeset.tasks),
        remarks=tuple(
            f"The agent of {task} {remark}."
            for task in record.changeset.tasks
            for remark in list_remarks(session, task)
        ),
    )


def format_size(build: Build) -> str:
    return f"{format_count(len(build.files), 'file')} changed, +{build.added:,}, -{build.deleted:,}"


def list_notes(view: ChangesetView) -> list[str]:
    """List what a person must not overlook, one sentence each."""
    record, notes = view.record, []
    if record.changeset.missing:
        notes.append(f"Of the same group, but not in it: {', '.join(record.changeset.missing)}.")
    notes += view.remarks
    losses = record.build.losses if record.build else ()
    notes += [f"{loss}." for loss in losses[:MAX_LOSSES]]
    if len(losses) > MAX_LOSSES:
        notes.append(f"… and {len(losses) - MAX_LOSSES} more lines that differ from what their task wrote.")
    notes += [
        f"A conflict in {', '.join(each.paths)} was resolved by {each.by}: {each.notes}" for each in record.resolutions
    ]
    if record.note:
        notes.append(record.note)
    notes += [
        f"[{each.changeset.group}] is deferred: {each.note or 'it builds on a rejected changeset'}."
        for each in view.deferred
    ]
    return notes


def describe_outcome(record: ChangesetRecord) -> MarkedLine:
    """Describe the outcome in one line."""
    mark, tone, words = _describe_state(record)
    return MarkedLine(mark, tone, f"[{record.changeset.group}] {words}: {', '.join(record.changeset.tasks)}")


def _describe_state(record: ChangesetRecord) -> tuple[str, str, str]:
    match record.state:
        case ChangesetState.LANDED:
            return OK, "good", f"landed as {(record.landed_as or '')[:10]}"
        case ChangesetState.PROPOSED:
            return OK, "good", f"proposed, {record.place}"
        case ChangesetState.UNDONE:
            return AGAIN, "warn", record.note
        case ChangesetState.CONFLICTED:
            return AGAIN, "warn", "in conflict, a merger is working on it"
        case ChangesetState.APPROVED:
            return OK, "good", "approved"
        case ChangesetState.REJECTED:
            return AGAIN, "warn", "rejected, re-queued with your reason"
        case ChangesetState.SKIPPED:
            return AGAIN, "warn", "skipped, shown again in the next cycle"
        case ChangesetState.DEFERRED:
            return AGAIN, "warn", "deferred, it builds on a rejected changeset"
        case ChangesetState.EVICTED:
            return BAD, "bad", f"cannot land: {record.note}"
        case _:
            return " ", "quiet", "waiting"


def count_outcomes(records: Sequence[ChangesetRecord]) -> str:
    """`1 changeset approved, 1 re-queued, 1 deferred`. Deferred work is not re-queued: it stays verified."""
    words = [OUTCOMES[record.state] for record in records if record.state in OUTCOMES]
    counted = [(word, words.count(word)) for word in dict.fromkeys(OUTCOMES.values()) if word in words]
    if not counted:
        return "no changeset judged"
    (word, n), *rest = counted
    return ", ".join([f"{format_count(n, 'changeset')} {word}", *(f"{n} {word}" for word, n in rest)])


def build_changeset_json(record: ChangesetRecord) -> dict[str, Any]:
    changeset, build = record.changeset, record.build
    return {
        **pick(changeset, "id cycle group title"),
        "state": record.state.value,
        **pick(changeset, "tasks after missing"),
        "note": record.note,
        "landed_as": record.landed_as,
        "pull_request": record.place or None,
        "resolved": [{"paths": list(each.paths), "by": each.by, "notes": each.notes} for each in record.resolutions],
        "build": None if build is None else _build_build_json(build),
    }


def _build_build_json(build: Build) -> dict[str, Any]:
    return {
        **pick(build, "base commit added deleted"),
        "files": [{"path": file.path, "added": file.added, "deleted": file.deleted} for file in build.files],
        "checks": [
            pick(check, "name passed exit_code seconds flaky red_before tests tests_before failures output_sha256")
            for check in build.checks
        ],
        "risks": [{"kind": risk.kind, "words": risk.words, "paths": list(risk.paths)} for risk in build.risks],
        "weakened": [pick(each, "kind path line words lines") for each in build.weakened],
        "losses": [str(loss) for loss in build.losses],
    }
