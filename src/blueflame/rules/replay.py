"""Applying events: `apply(session, event)` one by one equals `replay(events)` of them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from blueflame.model.attempt import VALIDATOR, WORKER, AttemptRecord, Ending
from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.errors import IllegalMove
from blueflame.model.event import (
    AttemptCancelled,
    AttemptEnded,
    AttemptIntended,
    AttemptStalled,
    AttemptStarted,
    BaseMoved,
    BudgetRaised,
    BudgetWarned,
    ChangesetBuilt,
    ChangesetEvicted,
    ChangesetJudged,
    ChangesetsFormed,
    Checked,
    ConfigAdopted,
    ConfigDrifted,
    ConfigKept,
    CycleEnded,
    CycleStarted,
    Event,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    HookRan,
    Landed,
    OrchestratorStarted,
    OrchestratorStopped,
    PlanApproved,
    PlanFailed,
    PlanProposed,
    ProceedRequested,
    Recorded,
    ReplanRequested,
    SessionEnded,
    SessionOpened,
    SlotsChanged,
    StopRequested,
    TaskEdited,
    TaskMoved,
    VerdictGiven,
    WaveStarted,
)
from blueflame.model.gate import Gate, GateKind
from blueflame.model.ids import attempt_id
from blueflame.model.spend import NOTHING, Budget, Spend, Unit
from blueflame.model.task import FINISHED, Cause, Result, Task, TaskRecord, TaskState
from blueflame.rules.history import bounded
from blueflame.rules.lifecycle import move
from blueflame.rules.placing import install, place, stand_in_line
from blueflame.rules.retry import is_blameless
from blueflame.rules.session import ACTIVE, HookDue, Phase, Session, stages_ahead


def open_session(recorded: Recorded) -> Session:
    event = recorded.event
    if not isinstance(event, SessionOpened):
        raise IllegalMove(f"a journal must begin with SessionOpened, not {type(event).__name__}")
    session = Session(
        id=event.session,
        request=event.request,
        project=event.project,
        base_branch=event.base_branch,
        base_sha=event.base_sha,
        workflow=event.workflow,
        limits=event.limits,
        config_digest=event.config_digest,
        opened_at=recorded.at,
    )
    session.seq, session.last_at = recorded.seq, recorded.at
    return session


def replay(events: Iterable[Recorded]) -> Session:
    story = iter(events)
    first = next(story, None)
    if first is None:
        raise IllegalMove("there is nothing to replay: the session has no events")
    session = open_session(first)
    for recorded in story:
        apply(session, recorded)
    return session


def apply(session: Session, recorded: Recorded) -> None:
    if recorded.seq != session.seq + 1:
        raise IllegalMove(f"event {recorded.seq} of {session.id} does not follow event {session.seq}")
    rule = APPLY.get(type(recorded.event))
    if rule is None:
        raise IllegalMove(f"event {recorded.seq} of {session.id} is {type(recorded.event).__name__} in mid-session")
    rule(session, recorded.event, recorded.at)
    session.seq, session.last_at = recorded.seq, recorded.at


def _orchestrator_started(session: Session, _event: OrchestratorStarted, _at: float) -> None:
    session.stopping, session.stop_now = "", False


def _stop_requested(session: Session, event: StopRequested, _at: float) -> None:
    session.stopping, session.stop_now = event.reason, event.now


def _unchanged(_session: Session, _event: Event, _at: float) -> None:
    """A fact for people and logs; no decision depends on it."""


def _plan_proposed(session: Session, event: PlanProposed, _at: float) -> None:
    session.plan, session.plan_round = event, event.round


def _plan_failed(session: Session, event: PlanFailed, _at: float) -> None:
    session.plan_failures = (*session.plan_failures, event.reason)
    session.plan_round = event.round


def _replan_requested(session: Session, event: ReplanRequested, _at: float) -> None:
    session.rejected_plan = session.plan.tasks if session.plan else ()
    session.phase, session.plan = Phase.PLANNING, None
    session.plan_failures = ()
    session.replan_notes = (*session.replan_notes, event.notes)
    session.cycle_open, session.wave = False, ""


def _plan_approved(session: Session, event: PlanApproved, at: float) -> None:
    kept = {name: record for name, record in session.tasks.items() if record.state in FINISHED}
    dropped = {
        name: replace(record, state=TaskState.DROPPED, reason="left out by the new plan")
        for name, record in session.tasks.items()
        if record.state not in FINISHED
    }
    fresh = {task.id: _renewed(session.tasks.get(task.id), task) for task in event.tasks}
    session.phase, session.plan, session.plan_approved_at = Phase.WORKING, None, at
    session.plan_failures, session.replan_notes, session.rejected_plan = (), (), ()
    session.built_upon = {}
    install(session, {**dropped, **kept, **fresh})
    _hook(session, "post_plan", f"post_plan:{session.plan_round}")


def _renewed(old: TaskRecord | None, task: Task) -> TaskRecord:
    if old is None:
        return TaskRecord(task=task)
    return TaskRecord(task=task, attempts=old.attempts, history=old.history)


def _cycle_started(session: Session, event: CycleStarted, _at: float) -> None:
    if session.cycle_open or event.cycle != session.cycle + 1:
        return  # old news: the boundary was crossed meanwhile
    session.cycle, session.cycle_open = event.cycle, True
    session.base_sha, session.wave, session.proceeding = event.base_sha, "", False


def _wave_started(session: Session, event: WaveStarted, _at: float) -> None:
    if not session.cycle_open or event.cycle != session.cycle or event.stage not in stages_ahead(session):
        return
    session.wave, session.proceeding = event.stage, False
    key = f"pre_validation:{event.cycle}"
    if event.stage in ("validate", "check") and key not in session.hooks_ran:
        _hook(session, "pre_validation", key)


def _proceed_requested(session: Session, _event: ProceedRequested, _at: float) -> None:
    session.proceeding = True


def _cycle_ended(session: Session, _event: CycleEnded, _at: float) -> None:
    session.cycle_open, session.wave, session.proceeding = False, "", False


def _config_drifted(session: Session, event: ConfigDrifted, _at: float) -> None:
    session.drift = event


def _config_adopted(session: Session, event: ConfigAdopted, _at: float) -> None:
    session.limits, session.config_digest, session.drift = event.limits, event.digest, None
    session.hooks_due = {key: due for key, due in session.hooks_due.items() if due.name in event.limits.hooks}


def _config_kept(session: Session, event: ConfigKept, _at: float) -> None:
    session.drift_kept, session.drift = session.drift_kept | {event.digest}, None


def _budget_raised(session: Session, event: BudgetRaised, _at: float) -> None:
    budget = Budget(session.limits.session_budget.unit, event.limit)
    session.limits = replace(session.limits, session_budget=budget)
    session.budget_warned = False


def _budget_warned(session: Session, _event: BudgetWarned, _at: float) -> None:
    session.budget_warned = True


def _slots_changed(session: Session, event: SlotsChanged, _at: float) -> None:
    session.slots = event.slots if event.slots < event.configured else None


def _task_moved(session: Session, event: TaskMoved, _at: float) -> None:
    old = session.tasks[event.task]
    record = replace(old, state=move(old.state, event.cause), reason=event.reason)
    if event.history is not None:
        record = replace(record, history=bounded((*record.history, event.history), session.limits.max_history))
    record = CHANGES.get(event.cause, _as_it_is)(session, record, event)
    if event.cause in FORGETS_CHECKS:
        session.checks.pop(event.task, None)
    place(session, record)


def _as_it_is(_session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    return record


def _completed(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    assert event.result is not None, "a task is completed by a result"
    _stand_on(session, record.task.id, event.result)
    session.losses.pop((event.task, VALIDATOR), None)
    if not session.workflow.barrier:
        _hook(session, "pre_validation", f"pre_validation:{event.task}:{record.attempts}", event.task)
    return replace(record, result=event.result, validator_failures=0, verdict=None, verdict_notes="")


def _stand_on(session: Session, task: str, result: Result) -> None:
    for foundation in result.built_on:
        session.built_upon.setdefault(foundation.task, {})[task] = None


def _failed(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    _hook(session, "on_failure", _failure_key(record), event.task)
    return replace(_without_result(session, record), agent_id=None, worktree=None)


def _without_result(session: Session, record: TaskRecord) -> TaskRecord:
    if record.result is not None:
        for foundation in record.result.built_on:
            session.built_upon.get(foundation.task, {}).pop(record.task.id, None)
    return replace(record, result=None, verdict=None)


def _failure_key(record: TaskRecord) -> str:
    return f"on_failure:{record.task.id}:{record.attempts}"


def _retried(session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    """The hook is for tasks that failed for good."""
    session.hooks_due.pop(_failure_key(record), None)
    return replace(record, retries=record.retries + 1)


def _released(session: Session, record: TaskRecord, event: TaskMoved) -> TaskRecord:
    last = session.attempts[attempt_id(session.id, event.task, WORKER, session.attempts_on[event.task, WORKER])]
    lost = last.ended is not None and last.ended.ending is Ending.LOST
    return replace(record, losses=record.losses + lost, agent_id=None, worktree=None)


def _requeued(session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    return replace(_without_result(session, record), agent_id=None, worktree=None)


def _renewed_task(_session: Session, record: TaskRecord, _event: TaskMoved) -> TaskRecord:
    return replace(record, retries=0, losses=0)


CHANGES: dict[Cause, Callable[[Session, TaskRecord, TaskMoved], TaskRecord]] = {
    Cause.COMPLETE: _completed,
    Cause.FAIL: _failed,
    Cause.RETRY: _retried,
    Cause.RELEASE: _released,
    Cause.REQUEUE: _requeued,
    Cause.RENEW: _renewed_task,
    Cause.UNBLOCK: _renewed_task,
}

FORGETS_CHECKS = frozenset({Cause.COMPLETE, Cause.FAIL, Cause.REQUEUE, Cause.DROP})


def _task_edited(session: Session, event: TaskEdited, _at: float) -> None:
    records = dict(session.tasks)
    records[event.task.id] = replace(records[event.task.id], task=event.task)
    install(session, records)


def _attempt_intended(session: Session, event: AttemptIntended, at: float) -> None:
    attempt = event.attempt
    session.attempts[attempt.id] = AttemptRecord(attempt=attempt, intended_at=at)
    session.live[attempt.id] = attempt
    session.live_by_role[attempt.role] = session.running(attempt.role) + 1
    session.attempts_on[attempt.subject, attempt.role] = attempt.n
    session.reserved = session.reserved + _reservation(attempt.budget)
    if attempt.role == WORKER:
        record = session.tasks[attempt.subject]
        session.tasks[attempt.subject] = replace(
            record, attempts=record.attempts + 1, agent_id=attempt.agent_id, branch=attempt.branch
        )
    elif attempt.role == VALIDATOR:
        session.to_review.leave(attempt.subject)


def _reservation(budget: Budget) -> Spend:
    return Spend(micro_usd=budget.limit) if budget.unit is Unit.USD else Spend(input_tokens=budget.limit)


def _attempt_started(session: Session, event: AttemptStarted, at: float) -> None:
    record = session.attempts[event.attempt]
    session.attempts[event.attempt] = replace(
        record, started_at=at, base=event.base, worktree=event.worktree, warden_pid=event.warden_pid
    )
    if record.attempt.role == WORKER and record.live:
        task = session.tasks[record.attempt.subject]
        session.tasks[record.attempt.subject] = replace(task, worktree=event.worktree)


def _attempt_stalled(session: Session, event: AttemptStalled, at: float) -> None:
    session.attempts[event.attempt] = replace(session.attempts[event.attempt], stalled_at=at)


def _attempt_cancelled(session: Session, event: AttemptCancelled, _at: float) -> None:
    """The first reason stands."""
    record = session.attempts[event.attempt]
    if record.cancel_reason:
        return
    if session.stopping:
        session.halted[event.attempt] = None
    session.attempts[event.attempt] = replace(record, cancel_reason=event.reason, cancelled_for_silence=event.stalled)


def _attempt_ended(session: Session, event: AttemptEnded, at: float) -> None:
    record = session.attempts[event.attempt]
    attempt, spend = record.attempt, event.ended.spend
    session.attempts[event.attempt] = replace(record, ended=event.ended, ended_at=at)
    del session.live[event.attempt]
    session.live_by_role[attempt.role] -= 1
    session.reserved = _minus(session.reserved, _reservation(attempt.budget))
    session.spend = session.spend + spend
    session.spend_by_role[attempt.role] = session.spend_by_role.get(attempt.role, NOTHING) + spend
    session.spend_by_subject[attempt.subject] = session.spend_by_subject.get(attempt.subject, NOTHING) + spend
    if attempt.role == VALIDATOR:
        blame = not (event.ended.ending is Ending.PASSED or is_blameless(event.ended.ending, session.lost(attempt)))
        _validator_ended(session, attempt.subject, blame=blame)
    if event.ended.ending is Ending.LOST:
        session.losses[attempt.subject, attempt.role] = session.lost(attempt) + 1


def _validator_ended(session: Session, task: str, *, blame: bool) -> None:
    """Its verdict, if it has one, is the next event; should that be lost in a crash, the task is reviewed again."""
    record = session.tasks[task]
    session.tasks[task] = replace(record, validator_failures=record.validator_failures + blame)
    stand_in_line(session, session.tasks[task])


def _minus(left: Spend, right: Spend) -> Spend:
    return Spend(micro_usd=left.micro_usd - right.micro_usd, input_tokens=left.input_tokens - right.input_tokens)


def _checked(session: Session, event: Checked, _at: float) -> None:
    record = session.tasks[event.task]
    if record.state is TaskState.DONE and record.result is not None and record.result.sha == event.sha:
        session.checks[event.task] = event.checks
        stand_in_line(session, record)


def _verdict_given(session: Session, event: VerdictGiven, _at: float) -> None:
    record = session.tasks[event.task]
    if record.result is None or record.result.sha != event.sha:
        return
    record = replace(record, verdict=event.verdict.status.value, verdict_notes=event.verdict.notes)
    session.tasks[event.task] = record
    stand_in_line(session, record)


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
    _hook(session, "post_merge", f"post_merge:{event.changeset}", event.changeset)


def _gate_opened(session: Session, event: GateOpened, _at: float) -> None:
    gate = event.gate
    session.gates[gate.id] = session.open_gates[gate.id] = gate
    session.gate_subjects[gate.kind, gate.subject] = gate.id
    session.gate_counts[gate.kind, gate.subject] = session.gate_counts.get((gate.kind, gate.subject), 0) + 1
    session.gate_kinds[gate.kind] = session.gate_kinds.get(gate.kind, 0) + 1
    if gate.kind is GateKind.VALIDATOR:
        session.to_review.leave(gate.subject)


def _gate_answered(session: Session, event: GateAnswered, at: float) -> None:
    gate = _close(session, event.gate)
    session.answers[event.gate] = event.answer
    stalled = session.attempts.get(str(gate.evidence.get("attempt", ""))) if gate.kind is GateKind.STALL else None
    if stalled is not None:
        session.attempts[stalled.attempt.id] = replace(stalled, stalled_at=at)


def _gate_withdrawn(session: Session, event: GateWithdrawn, _at: float) -> None:
    _close(session, event.gate)
    session.withdrawn[event.gate] = event.reason


def _close(session: Session, name: str) -> Gate:
    gate = session.open_gates.pop(name)
    session.gate_subjects.pop((gate.kind, gate.subject), None)
    session.gate_kinds[gate.kind] -= 1
    return gate


def _hook(session: Session, name: str, key: str, subject: str = "") -> None:
    if name in session.limits.hooks:
        session.hooks_due[key] = HookDue(name, key, subject)


def _hook_ran(session: Session, event: HookRan, _at: float) -> None:
    session.hooks_due.pop(event.key, None)
    session.hooks_ran[event.key] = event.exit_code if not event.timed_out else -1


def _session_ended(session: Session, event: SessionEnded, _at: float) -> None:
    session.phase, session.outcome, session.outcome_reason = Phase.ENDED, event.outcome, event.reason
    session.cycle_open = False


APPLY: dict[type, Callable[[Session, Any, float], None]] = {
    OrchestratorStarted: _orchestrator_started,
    StopRequested: _stop_requested,
    OrchestratorStopped: _unchanged,
    PlanProposed: _plan_proposed,
    PlanFailed: _plan_failed,
    PlanApproved: _plan_approved,
    ReplanRequested: _replan_requested,
    CycleStarted: _cycle_started,
    WaveStarted: _wave_started,
    ProceedRequested: _proceed_requested,
    ConfigDrifted: _config_drifted,
    ConfigAdopted: _config_adopted,
    ConfigKept: _config_kept,
    BudgetRaised: _budget_raised,
    BudgetWarned: _budget_warned,
    SlotsChanged: _slots_changed,
    TaskMoved: _task_moved,
    TaskEdited: _task_edited,
    AttemptIntended: _attempt_intended,
    AttemptStarted: _attempt_started,
    AttemptStalled: _attempt_stalled,
    AttemptCancelled: _attempt_cancelled,
    AttemptEnded: _attempt_ended,
    Checked: _checked,
    VerdictGiven: _verdict_given,
    ChangesetsFormed: _changesets_formed,
    ChangesetBuilt: _changeset_built,
    ChangesetEvicted: _changeset_evicted,
    ChangesetJudged: _changeset_judged,
    BaseMoved: _base_moved,
    Landed: _landed,
    GateOpened: _gate_opened,
    GateAnswered: _gate_answered,
    GateWithdrawn: _gate_withdrawn,
    HookRan: _hook_ran,
    CycleEnded: _cycle_ended,
    SessionEnded: _session_ended,
}
