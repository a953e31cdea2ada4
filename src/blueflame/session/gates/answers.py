"""What follows from a person's answer at a gate. The answer was checked before (`gates/questions.answer_error`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from blueflame.model.event import (
    AttemptCancelled,
    BaseAdopted,
    BudgetRaised,
    ChangesetJudged,
    ConfigAdopted,
    ConfigKept,
    EditDismissed,
    Event,
    GateAnswered,
    MessageSent,
    PlanApproved,
    PlanProposed,
    ReplanRequested,
    RequestSized,
    RuntimeResumed,
    SessionEnded,
    StopRequested,
    TaskEdited,
    TaskMoved,
    VerdictGiven,
)
from blueflame.model.gate import Answer, Gate, GateKind
from blueflame.model.sizing import ChosenBy, Tier
from blueflame.model.task import Cause, HistoryResult, Task, TaskState
from blueflame.model.verdict import Verdict, VerdictStatus
from blueflame.session.budget import DAY
from blueflame.session.cascade import (
    block_dependants,
    block_if_dependency_failed,
    defer_tasks_built_on,
    drop_task,
)
from blueflame.session.clarifications import describe_answer
from blueflame.session.environment import retry_all
from blueflame.session.gates.assignments import read_assignment, split_answer
from blueflame.session.gates.edits import parse_edit_payload
from blueflame.session.gates.questions import describe_curation, open_escalation_gate, parse_raised_limit
from blueflame.session.overlaps import add_locks
from blueflame.session.plan_problems import find_plan_problems, find_plan_warnings
from blueflame.session.rate_limits import ACCOUNT_KINDS, try_account_again
from blueflame.session.retries import (
    build_history_entry,
    list_spent,
    present_deferred,
    requeue_tasks,
    retry_task,
    send_task_back,
)
from blueflame.session.state import Session, find_making_stage


def handle_answer(session: Session, event: GateAnswered, now: float) -> Iterator[Event]:
    gate = session.open_gates[event.gate]
    return HANDLERS[gate.kind, event.answer.choice](session, gate, event.answer, now)


def _approve_plan(session: Session, _gate: Gate, _answer: Answer, _now: float) -> Iterator[Event]:
    assert session.plan is not None, "a plan gate without a plan offers no approval"
    yield PlanApproved(tasks=session.plan.tasks)


def _edit_plan(session: Session, _gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    tasks = parse_edit_payload(answer.payload)
    yield build_proposal(session, tasks, "edit", session.plan_round)


def build_proposal(session: Session, tasks: tuple[Task, ...], origin: str, round_: int) -> PlanProposed:
    """Build the proposal of a plan, with the problems and warnings that are shown with it."""
    landed = tuple(session.tasks[name].task for name in session.list_in_state(TaskState.MERGED, TaskState.VALIDATED))
    wrong = find_plan_problems((*landed, *tasks), session.limits)
    if landed and not tasks:
        wrong = ("the plan has no tasks left to do; to end with what has landed, quit", *wrong)
    return PlanProposed(round=round_, tasks=tasks, origin=origin, problems=wrong, warnings=find_plan_warnings(tasks))


def _request_replan(_session: Session, _gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    yield ReplanRequested(notes=answer.note)


def _choose_one_agent(session: Session, _gate: Gate, _answer: Answer, _now: float) -> Iterator[Event]:
    """The request becomes one task; without a plan in its workflow it is approved at once."""
    triage, flow = session.triage, session.one_agent
    assert triage is not None and flow is not None, "one agent is offered only where the request was sized"
    chosen = replace(triage, tier=Tier.SINGLE, workflow=flow.name, chosen_by=ChosenBy.PERSON)
    yield RequestSized(triage=chosen, workflow=flow)


def _replan_rest(session: Session, _gate: Gate, answer: Answer, now: float) -> Iterator[Event]:
    """Plan again what is left. Verified work that only waits to land is shown again, whatever the new plan is."""
    yield from present_deferred(session, now)
    yield ReplanRequested(notes=answer.note)


def _end_session(session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    """A rejected plan means that nothing was changed: not so for the plan of a session that has worked already."""
    outcome = "plan_rejected" if gate.kind is GateKind.PLAN and not session.cycle else "stopped"
    yield SessionEnded(outcome=outcome, reason=answer.note or f"by {answer.by}")


def _end_curation(session: Session, _gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    """Approved changes are made when the session is saved to memory."""
    assert session.curation is not None, "a curation gate shows a proposal"
    if answer.choice == "approve":
        yield SessionEnded(outcome="completed", reason=describe_curation(session.curation))
    else:
        yield SessionEnded(outcome="stopped", reason=answer.note or f"rejected by {answer.by}")


def _judge_changeset(_session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    yield ChangesetJudged(changeset=gate.subject, choice=answer.choice, note=answer.note)


def _continue_session(session: Session, _gate: Gate, _answer: Answer, now: float) -> Iterator[Event]:
    """Start the rest again; about a task that has had all its attempts a person is asked."""
    yield from requeue_tasks(session, now)
    for name in list_spent(session) if session.limits.on_exhausted == "ask" else ():
        record = session.tasks[name]
        yield open_escalation_gate(session, record, record.reason)


def _requeue_task(session: Session, gate: Gate, answer: Answer, now: float) -> Iterator[Event]:
    record = session.tasks[gate.subject]
    notes = "\n".join(text for text in (record.verdict_notes, answer.note) if text)
    return send_task_back(session, record, notes, now, scratch=answer.choice == "scratch")


def _edit_task(session: Session, gate: Gate, answer: Answer, now: float) -> Iterator[Event]:
    edited = {task.id: task for task in parse_edit_payload(answer.payload)}[gate.subject]
    yield from _requeue_task(session, gate, replace(answer, note=answer.note or "the task was edited"), now)
    yield TaskEdited(task=edited)


def _drop_task(session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    return drop_task(session, gate.subject, answer.note or f"dropped by {answer.by}")


def _accept_task(session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    result = session.tasks[gate.subject].result
    assert result is not None, f"{gate.subject} is to be accepted without a result"
    verdict = Verdict(status=VerdictStatus.PASS, notes=answer.note or "reviewed by a person", by=answer.by)
    yield VerdictGiven(task=gate.subject, sha=result.sha, verdict=verdict, stage=session.find_stage(gate.subject).key)


def _retry_task(session: Session, gate: Gate, answer: Answer, now: float) -> Iterator[Event]:
    note = answer.note or "validator failed, human requested retry"
    return _requeue_task(session, gate, replace(answer, note=note), now)


def _fail_task(session: Session, gate: Gate, answer: Answer, now: float) -> Iterator[Event]:
    name, reason = gate.subject, "validator_failed_exhausted"
    notes = f"{reason}: {answer.note}" if answer.note else reason
    entry = build_history_entry(session, session.tasks[name], HistoryResult.FAILED, now, notes=notes)
    stage = find_making_stage(session, session.tasks[name])
    yield TaskMoved(task=name, cause=Cause.FAIL, reason=reason, history=entry, stage=stage)
    yield from defer_tasks_built_on(session, (name,), f"{name} failed")
    yield from block_dependants(session, name, f"dependency {name} failed")


def _try_once_more(session: Session, gate: Gate, answer: Answer, now: float) -> Iterator[Event]:
    return retry_task(session, gate.subject, answer.note, now, once=True)


def _reassign_task(session: Session, gate: Gate, answer: Answer, now: float) -> Iterator[Event]:
    assigned = read_assignment(session.limits, answer)
    _named, note = split_answer(answer)
    return retry_task(session, gate.subject, note, now, once=True, assigned=assigned)


def _give_up_task(session: Session, gate: Gate, _answer: Answer, _now: float) -> Iterator[Event]:
    return block_dependants(session, gate.subject, f"dependency {gate.subject} failed")


def _raise_budget(_session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    limit = parse_raised_limit(gate, answer)
    assert limit is not None, "the answer was checked before"
    if gate.subject == DAY:
        yield BudgetRaised(limit=limit, by=answer.by, budget=DAY, day=str(gate.evidence["day"]))
    else:
        yield BudgetRaised(limit=limit, by=answer.by)


def _stop_orchestrator(session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    """Stop when running agents have ended; those that wait for a parked model, perhaps for hours, are ended now."""
    reason = f"{gate.kind.value} gate answered stop by {answer.by}"
    yield StopRequested(reason=reason)
    if gate.kind is GateKind.RATE_LIMIT:
        for attempt in session.live.values():
            if attempt.runtime == gate.subject:
                yield AttemptCancelled(attempt=attempt.id, reason=reason)


def _try_model_now(session: Session, gate: Gate, answer: Answer, now: float) -> Iterator[Event]:
    if session.parked[gate.subject].kind in ACCOUNT_KINDS:
        yield from try_account_again(session, gate.subject, now)
        return
    yield RuntimeResumed(runtime=gate.subject, reason=answer.note or "a person asked to try again now", by=answer.by)


def _try_environment_now(session: Session, _gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    """An entry of a decisions file does not shorten the waits: with `repeat` it would be tried without any pause."""
    return iter(()) if answer.is_written_in_advance else retry_all(session, answer.by)


def _change_nothing(_session: Session, _gate: Gate, _answer: Answer, _now: float) -> Iterator[Event]:
    return iter(())


def _kill_agent(session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    """End a silent agent; unlike other cancellations it counts as a failure, and its task is tried again."""
    attempt = str(gate.evidence["attempt"])
    if attempt in session.live:
        reason = answer.note or f"it was silent and was ended by {answer.by}"
        yield AttemptCancelled(attempt=attempt, reason=reason, stalled=True)


def _pass_on_answer(session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    """Give the answer to the agent that waits for it, or let the next attempt start, which has it in its prompt."""
    attempt = session.live.get(str(gate.evidence["attempt"]))
    if attempt is not None:
        text = describe_answer(gate, answer)
        yield MessageSent(attempt=attempt.id, text=text, by=answer.by, gate=gate.id)
    elif gate.subject in session.list_waiting_for_answer():
        yield TaskMoved(task=gate.subject, cause=Cause.RELEASE, reason="its question is settled")
        yield from block_if_dependency_failed(session, gate.subject)


def _run_one_after_the_other(session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    """End the later attempt (`wait`) or the earlier one (`reorder`), and lock what both change for both tasks.

    So the ended one starts again from the other's result. It does not become a dependency: if the other fails, this
    one can still run.
    """
    first, later = gate.evidence["attempts"]
    ends, stays = (later, first) if answer.choice == "wait" else (first, later)
    if ends not in session.live:
        return
    paths = tuple(gate.evidence["paths"])
    other = session.attempts[stays].attempt.subject
    for name in (ends, stays):
        task = session.tasks[session.attempts[name].attempt.subject].task
        if (locked := add_locks(session, task, paths)) != task:
            yield TaskEdited(task=locked)
    reason = answer.note or f"it waits for {other}: both change {', '.join(paths[:5])}"
    yield AttemptCancelled(attempt=ends, reason=reason, restarts=True)


def _split_tasks(session: Session, gate: Gate, answer: Answer, _now: float) -> Iterator[Event]:
    """Change the tasks; a running agent is not informed of it, so a changed task starts again."""
    changed = {task.id: task for task in parse_edit_payload(answer.payload) if session.tasks[task.id].task != task}
    for task in changed.values():
        yield TaskEdited(task=task)
    for name in gate.evidence["attempts"]:
        if name in session.live and session.attempts[name].attempt.subject in changed:
            reason = answer.note or f"its task was changed by {answer.by}"
            yield AttemptCancelled(attempt=name, reason=reason, restarts=True)


def _keep_tasks(_session: Session, gate: Gate, _answer: Answer, _now: float) -> Iterator[Event]:
    yield EditDismissed(digest=str(gate.evidence["digest"]))


def _adopt_base(_session: Session, gate: Gate, _answer: Answer, _now: float) -> Iterator[Event]:
    without, gone = (tuple(gate.evidence.get(key, ())) for key in ("without", "gone"))
    yield BaseAdopted(sha=str(gate.evidence["found"]), without=without, gone=gone)


def _use_config(session: Session, _gate: Gate, _answer: Answer, _now: float) -> Iterator[Event]:
    assert session.drift is not None, "a drift gate is opened by a drift"
    yield ConfigAdopted(digest=session.drift.digest, limits=session.drift.limits)


def _keep_config(session: Session, _gate: Gate, _answer: Answer, _now: float) -> Iterator[Event]:
    assert session.drift is not None, "a drift gate is opened by a drift"
    yield ConfigKept(digest=session.drift.digest)


HANDLERS: dict[tuple[GateKind, str], Callable[[Session, Gate, Answer, float], Iterator[Event]]] = {
    (GateKind.PLAN, "approve"): _approve_plan,
    (GateKind.PLAN, "edit"): _edit_plan,
    (GateKind.PLAN, "replan"): _request_replan,
    (GateKind.PLAN, "single"): _choose_one_agent,
    (GateKind.PLAN, "quit"): _end_session,
    (GateKind.CHANGESET, "approve"): _judge_changeset,
    (GateKind.CHANGESET, "reject"): _judge_changeset,
    (GateKind.CHANGESET, "skip"): _judge_changeset,
    (GateKind.SESSION, "continue"): _continue_session,
    (GateKind.SESSION, "replan"): _replan_rest,
    (GateKind.SESSION, "stop"): _end_session,
    (GateKind.VALIDATION, "requeue"): _requeue_task,
    (GateKind.VALIDATION, "scratch"): _requeue_task,
    (GateKind.VALIDATION, "edit"): _edit_task,
    (GateKind.VALIDATION, "drop"): _drop_task,
    (GateKind.VALIDATOR, "accept"): _accept_task,
    (GateKind.VALIDATOR, "retry"): _retry_task,
    (GateKind.VALIDATOR, "skip"): _fail_task,
    (GateKind.ESCALATION, "retry"): _try_once_more,
    (GateKind.ESCALATION, "reassign"): _reassign_task,
    (GateKind.ESCALATION, "abort"): _give_up_task,
    (GateKind.BUDGET, "raise"): _raise_budget,
    (GateKind.BUDGET, "stop"): _stop_orchestrator,
    (GateKind.RATE_LIMIT, "wait"): _change_nothing,
    (GateKind.RATE_LIMIT, "retry"): _try_model_now,
    (GateKind.RATE_LIMIT, "stop"): _stop_orchestrator,
    (GateKind.ENVIRONMENT, "retry"): _try_environment_now,
    (GateKind.ENVIRONMENT, "stop"): _stop_orchestrator,
    (GateKind.DRIFT, "use"): _use_config,
    (GateKind.DRIFT, "keep"): _keep_config,
    (GateKind.DRIFT, "stop"): _stop_orchestrator,
    (GateKind.STALL, "wait"): _change_nothing,
    (GateKind.STALL, "kill"): _kill_agent,
    (GateKind.CLARIFICATION, "answer"): _pass_on_answer,
    (GateKind.CLARIFICATION, "guess"): _pass_on_answer,
    (GateKind.OVERLAP, "wait"): _run_one_after_the_other,
    (GateKind.OVERLAP, "split"): _split_tasks,
    (GateKind.OVERLAP, "reorder"): _run_one_after_the_other,
    (GateKind.OVERLAP, "ignore"): _change_nothing,
    (GateKind.ASSIGNMENT, "wait"): _change_nothing,
    (GateKind.ASSIGNMENT, "spawn"): _change_nothing,  # the next attempt at its task may be ad hoc (session/gates/slots)
    (GateKind.TASKS, "read"): _change_nothing,  # the boundary is crossed again, which reads the file
    (GateKind.TASKS, "keep"): _keep_tasks,
    (GateKind.TASKS, "stop"): _stop_orchestrator,
    (GateKind.CURATION, "approve"): _end_curation,
    (GateKind.CURATION, "reject"): _end_curation,
    (GateKind.BASE, "retry"): _change_nothing,  # what needed the branch looks for it again
    (GateKind.BASE, "use"): _adopt_base,
    (GateKind.BASE, "stop"): _stop_orchestrator,
}
