"""How the session as a whole changes: plan, cycles, configuration, budget, gates, hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from blueflame.model.attempt import Duty
from blueflame.model.event import (
    BudgetRaised,
    BudgetWarned,
    ConfigAdopted,
    ConfigDrifted,
    ConfigKept,
    CurationProposed,
    CycleEnded,
    CycleStarted,
    EditRefused,
    Event,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    HookRan,
    KnowledgeCurated,
    OrchestratorStarted,
    OrchestratorStopped,
    PlanApproved,
    PlanFailed,
    PlanProposed,
    ProceedRequested,
    ReplanRequested,
    RequestSized,
    SessionEnded,
    SlotAwaited,
    SlotsChanged,
    StopRequested,
    WaveStarted,
)
from blueflame.model.gate import Gate, GateKind
from blueflame.model.spend import Budget
from blueflame.model.task import FINISHED, TaskRecord, TaskState
from blueflame.session.apply.indexes import install_tasks, move_base, schedule_hook, update_stage_queues
from blueflame.session.next_try import grant_attempt
from blueflame.session.state import Phase, Session, build_validation_key, list_stages_ahead


def _apply_orchestrator_started(session: Session, event: OrchestratorStarted, _at: float) -> None:
    """A scan under way has ended with the last orchestrator; a resolution whose commit is gone resolves nothing."""
    session.stopping, session.stop_now = "", False
    session.redoing = session.redoing or not session.tasks.keys().isdisjoint(event.missing)
    gone = {session.attempts[name].attempt.agent_id for name in event.missing if name in session.attempts}
    for name in session.merging:
        record = session.changesets[name]
        kept = tuple(each for each in record.resolutions if each.by not in gone)
        session.changesets[name] = replace(record, scanned_since=None, resolutions=kept)


def _apply_stop_requested(session: Session, event: StopRequested, _at: float) -> None:
    session.stopping, session.stop_now = event.reason, event.now


def _ignore_event(_session: Session, _event: Event, _at: float) -> None:
    """For people and logs only: no decision depends on it."""


def _apply_request_sized(session: Session, event: RequestSized, _at: float) -> None:
    session.triage, session.one_agent, session.direct = event.triage, event.one_agent, event.direct
    if event.workflow is not None:
        session.workflow, session.plan, session.plan_failures = event.workflow, None, ()


def _apply_plan_proposed(session: Session, event: PlanProposed, _at: float) -> None:
    session.plan_before = session.plan.tasks if session.plan else session.rejected_plan
    session.plan, session.plan_round = event, event.round


def _apply_plan_failed(session: Session, event: PlanFailed, _at: float) -> None:
    session.plan_failures = (*session.plan_failures, event.reason)
    session.plan_round = event.round


def _apply_curation_proposed(session: Session, event: CurationProposed, _at: float) -> None:
    session.curation = event


def _apply_replan_requested(session: Session, event: ReplanRequested, _at: float) -> None:
    session.rejected_plan = session.plan.tasks if session.plan else ()
    session.phase, session.plan = Phase.PLANNING, None
    session.plan_failures = ()
    session.replan_notes = (*session.replan_notes, event.notes)
    session.cycle_open, session.wave, session.position = False, "", -1


def _apply_plan_approved(session: Session, event: PlanApproved, at: float) -> None:
    stays = FINISHED | {TaskState.VALIDATED}
    kept = {name: record for name, record in session.tasks.items() if record.state in stays}
    dropped = {
        name: replace(record, state=TaskState.DROPPED, reason="left out by the new plan")
        for name, record in session.tasks.items()
        if record.state not in stays
    }
    fresh = {task.id: TaskRecord(task=task) for task in event.tasks}
    for name in fresh.keys() & session.tasks.keys():
        old = session.tasks[name]
        known = replace(fresh[name], attempts=old.attempts, history=old.history, verdicts=old.verdicts)
        fresh[name] = grant_attempt(replace(known, failures=old.failures))  # who approved the plan asked for it
    session.phase, session.plan, session.plan_approved_at = Phase.WORKING, None, at
    session.plan_failures, session.replan_notes, session.rejected_plan = (), (), ()
    session.built_upon = {}
    for name, record in kept.items():
        if record.state is TaskState.VALIDATED and record.result is not None and name not in fresh:
            for foundation in record.result.built_on:
                session.built_upon.setdefault(foundation.task, {})[name] = None
    install_tasks(session, {**dropped, **kept, **fresh})
    schedule_hook(session, "post_plan", f"post_plan:{session.plan_round}")


def _apply_cycle_started(session: Session, event: CycleStarted, _at: float) -> None:
    if session.cycle_open or event.cycle != session.cycle + 1:
        return  # outdated: the boundary was crossed meanwhile
    session.cycle, session.cycle_open = event.cycle, True
    move_base(session, event.base_sha)
    session.wave, session.position, session.proceeding = "", -1, False
    session.proceeded, session.work_waves, session.redoing = False, 0, False


def _apply_wave_started(session: Session, event: WaveStarted, _at: float) -> None:
    stages = session.workflow.task_stages
    position = event.position
    if position is None:
        position = [stage.name for stage in stages].index(event.stage)
    if not session.cycle_open or event.cycle != session.cycle or position not in list_stages_ahead(session):
        return
    session.wave, session.position, session.proceeding = event.stage, position, False
    session.redoing = session.redoing and position > 0
    session.work_waves += stages[position].duty is Duty.MAKE
    key = build_validation_key(session)
    if stages[position].duty is Duty.JUDGE and key not in session.hooks_ran:
        schedule_hook(session, "pre_validation", key)


def _apply_proceed_requested(session: Session, _event: ProceedRequested, _at: float) -> None:
    session.proceeding = session.proceeded = True


def _apply_cycle_ended(session: Session, _event: CycleEnded, _at: float) -> None:
    session.cycle_open, session.wave, session.position, session.proceeding = False, "", -1, False


def _apply_config_drifted(session: Session, event: ConfigDrifted, _at: float) -> None:
    session.drift = event


def _apply_config_adopted(session: Session, event: ConfigAdopted, _at: float) -> None:
    rescheduled = session.limits.dependents != event.limits.dependents
    session.limits, session.config_digest, session.drift = event.limits, event.digest, None
    if rescheduled:
        install_tasks(session, session.tasks)
    session.hooks_due = {key: due for key, due in session.hooks_due.items() if due.name in event.limits.hooks}


def _apply_config_kept(session: Session, event: ConfigKept, _at: float) -> None:
    session.drift_kept, session.drift = session.drift_kept | {event.digest}, None


def _apply_budget_raised(session: Session, event: BudgetRaised, _at: float) -> None:
    if event.budget == "day":
        session.day_raised = (event.day, event.limit)
        return
    budget = Budget(session.limits.session_budget.unit, event.limit)
    session.limits = replace(session.limits, session_budget=budget)
    session.budget_warned = False


def _apply_budget_warned(session: Session, event: BudgetWarned, _at: float) -> None:
    if event.budget == "day":
        session.day_warned = (event.day, event.limit)
    else:
        session.budget_warned = True


def _apply_slots_changed(session: Session, event: SlotsChanged, _at: float) -> None:
    session.slots = event.slots if event.slots < event.configured else None


def _apply_slot_awaited(session: Session, event: SlotAwaited, _at: float) -> None:
    if event.wait is None:
        session.awaited.pop(event.role, None)
    else:
        session.awaited[event.role] = event.wait


def _apply_gate_opened(session: Session, event: GateOpened, _at: float) -> None:
    gate = event.gate
    session.gates[gate.id] = session.open_gates[gate.id] = gate
    session.gate_subjects[gate.kind, gate.subject] = gate.id
    session.gate_counts[gate.kind, gate.subject] = session.gate_counts.get((gate.kind, gate.subject), 0) + 1
    session.gate_kinds[gate.kind] = session.gate_kinds.get(gate.kind, 0) + 1
    if gate.kind in (GateKind.VALIDATOR, GateKind.CLARIFICATION):
        session.to_review.remove(gate.subject)


def _apply_gate_answered(session: Session, event: GateAnswered, at: float) -> None:
    gate = _close_gate(session, event.gate)
    session.answers[event.gate] = event.answer
    stalled = session.attempts.get(str(gate.evidence.get("attempt", ""))) if gate.kind is GateKind.STALL else None
    if stalled is not None:
        session.attempts[stalled.attempt.id] = replace(stalled, stalled_at=at)


def _apply_gate_withdrawn(session: Session, event: GateWithdrawn, _at: float) -> None:
    _close_gate(session, event.gate)
    session.withdrawn[event.gate] = event.reason


def _close_gate(session: Session, name: str) -> Gate:
    gate = session.open_gates.pop(name)
    session.gate_subjects.pop((gate.kind, gate.subject), None)
    session.gate_kinds[gate.kind] -= 1
    if gate.kind is GateKind.CLARIFICATION and gate.subject in session.tasks:
        update_stage_queues(session, session.tasks[gate.subject])  # its reviewer may have ended to ask
    return gate


def _apply_hook_ran(session: Session, event: HookRan, _at: float) -> None:
    session.hooks_due.pop(event.key, None)
    session.hooks_ran[event.key] = event.exit_code if not event.timed_out else -1


def _apply_session_ended(session: Session, event: SessionEnded, _at: float) -> None:
    session.phase, session.outcome, session.outcome_reason = Phase.ENDED, event.outcome, event.reason
    session.cycle_open = False


SESSION_HANDLERS: dict[type, Callable[[Session, Any, float], None]] = {
    OrchestratorStarted: _apply_orchestrator_started,
    StopRequested: _apply_stop_requested,
    OrchestratorStopped: _ignore_event,
    EditRefused: _ignore_event,  # the gate that asks about it is a separate event
    RequestSized: _apply_request_sized,
    PlanProposed: _apply_plan_proposed,
    PlanFailed: _apply_plan_failed,
    PlanApproved: _apply_plan_approved,
    ReplanRequested: _apply_replan_requested,
    CurationProposed: _apply_curation_proposed,
    KnowledgeCurated: _ignore_event,
    CycleStarted: _apply_cycle_started,
    WaveStarted: _apply_wave_started,
    ProceedRequested: _apply_proceed_requested,
    ConfigDrifted: _apply_config_drifted,
    ConfigAdopted: _apply_config_adopted,
    ConfigKept: _apply_config_kept,
    BudgetRaised: _apply_budget_raised,
    BudgetWarned: _apply_budget_warned,
    SlotsChanged: _apply_slots_changed,
    SlotAwaited: _apply_slot_awaited,
    GateOpened: _apply_gate_opened,
    GateAnswered: _apply_gate_answered,
    GateWithdrawn: _apply_gate_withdrawn,
    HookRan: _apply_hook_ran,
    CycleEnded: _apply_cycle_ended,
    SessionEnded: _apply_session_ended,
}
