"""The next facts to record. They depend only on the session and the machine's capacity.

Called twice, `next_events` gives the same answer: after a crash the orchestrator needs nothing but the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from blueflame.model.attempt import (
    COMMITTING,
    MERGER,
    PLAN_SUBJECT,
    PLANNER,
    VALIDATOR,
    WORKER,
    Attempt,
    Duty,
    find_usual_duty,
)
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import (
    AttemptIntended,
    BudgetWarned,
    ChangesetsFormed,
    CycleEnded,
    EnvironmentRecovered,
    Event,
    GateWithdrawn,
    PlanApproved,
    SlotsChanged,
    TaskMoved,
)
from blueflame.model.gate import GateKind
from blueflame.model.ids import build_agent_id, build_attempt_id, build_branch_name
from blueflame.model.limits import Capacity
from blueflame.model.task import Cause, Task
from blueflame.session.budget import (
    DAY,
    TASK,
    BudgetGrant,
    BudgetRefusal,
    describe_task_budget,
    find_day_budget,
    find_exhausted_budget,
    grant_budget,
    should_warn_of_day_budget,
    should_warn_of_session_budget,
)
from blueflame.session.cascade import block_dependants
from blueflame.session.changesets.form import form_changesets
from blueflame.session.changesets.queue import find_next_changeset, list_unresolved
from blueflame.session.effects import is_held_by_hook, list_effects, name_act
from blueflame.session.environment import count_taken_slots, is_attempt_wanted
from blueflame.session.foundations import find_foundations
from blueflame.session.gates.questions import (
    open_budget_gate,
    open_changeset_gate,
    open_day_budget_gate,
    open_plan_gate,
    open_unpaid_review_gate,
)
from blueflame.session.retries import find_continuation
from blueflame.session.stages import can_claim, is_cycle_over, list_tasks_to_land
from blueflame.session.state import Phase, Session

MAX_PLAN_FAILURES = 2


def next_events(session: Session, capacity: Capacity) -> tuple[Event, ...]:
    """Return the next events; none when the session waits for an effect or a person."""
    if session.ended or session.stopping:
        return ()
    for rule in RULES:
        if events := tuple(rule(session, capacity)):
            return events
    return ()


def _warn_of_budget(session: Session, capacity: Capacity) -> Iterator[Event]:
    if should_warn_of_session_budget(session):
        budget = session.limits.session_budget
        yield BudgetWarned(used=budget.measure(session.spend), limit=budget.limit)
    if should_warn_of_day_budget(session, capacity):
        budget = find_day_budget(session, capacity)
        yield BudgetWarned(used=budget.measure(capacity.day_spend), limit=budget.limit, budget=DAY, day=capacity.day)


def _withdraw_gate_of_yesterday(session: Session, capacity: Capacity) -> Iterator[Event]:
    name = session.gate_subjects.get((GateKind.BUDGET, DAY))
    if name is not None and session.open_gates[name].evidence.get("day") != capacity.day:
        yield GateWithdrawn(gate=name, reason="a new day has begun")


def _report_slots(session: Session, capacity: Capacity) -> Iterator[Event]:
    """Report a change of the number of slots, but only while tasks can be claimed."""
    configured = session.limits.workers
    slots = min(configured, capacity.agents)
    if can_claim(session) and slots != (session.slots or configured):
        yield SlotsChanged(slots=slots, configured=configured, reason=capacity.reason)


def _ask_if_budget_exhausted(session: Session, capacity: Capacity) -> Iterator[Event]:
    if (name := find_exhausted_budget(session, capacity)) and _has_paid_work(session):
        yield from _ask_for_budget(session, name, capacity)


def _ask_for_budget(session: Session, name: str, capacity: Capacity) -> Iterator[Event]:
    if not session.is_asking(GateKind.BUDGET):
        yield open_day_budget_gate(session, capacity) if name == DAY else open_budget_gate(session)


def _has_paid_work(session: Session) -> bool:
    """Whether a worker, merger or validator could start now; landing costs nothing."""
    claims = session.is_stage_open("work") and not session.proceeding and bool(session.queue.pick(1))
    conflicts = session.is_stage_open("merge") and next(list_unresolved(session), None) is not None
    return claims or conflicts or (session.is_stage_open("validate") and bool(session.to_review))


def _advance_planning(session: Session, capacity: Capacity) -> Iterator[Event]:
    if session.phase is not Phase.PLANNING or session.open_gates or session.count_running(Duty.PLAN):
        return
    if session.plan is not None or len(session.plan_failures) >= MAX_PLAN_FAILURES:
        yield open_plan_gate(session)
    elif not session.workflow.has_stage("plan"):
        yield PlanApproved(tasks=(build_single_task(session.request, session.limits.allowed_paths),))
    else:
        yield from _intend_attempt(session, PLANNER, PLAN_SUBJECT, capacity)


def build_single_task(request: str, allowed_paths: tuple[str, ...]) -> Task:
    """Build the only task of a workflow without a planner: the request."""
    lines = request.strip().splitlines() or ["the request"]
    locks = tuple(dict.fromkeys(_find_lock_for_glob(glob) for glob in allowed_paths))
    return Task(id="task-001", title=lines[0][:72], description=request, priority=1, file_locks=locks)


def _find_lock_for_glob(glob: str) -> str:
    """Return a lock that covers everything the glob can match; one without a slash matches at any depth."""
    inner = glob.removeprefix("/")
    anchored = glob.startswith("/") or "/" in inner.rstrip("/")
    return inner if anchored and not {"\\", "!"} & set(glob) else "."


def _intend_attempt(
    session: Session, role: str, subject: str, capacity: Capacity, *, model: str | None = None
) -> Iterator[Event]:
    """Intend a new attempt, if its model is available and its budget allows it."""
    if session.limits.get_runtime(role) in session.parked:
        return
    granted = grant_budget(session, role, subject, capacity)
    if isinstance(granted, BudgetRefusal):
        yield from _handle_budget_refusal(session, role, subject, granted, capacity)
        return
    if find_usual_duty(role) is Duty.MAKE:
        yield TaskMoved(task=subject, cause=Cause.CLAIM)
    yield AttemptIntended(attempt=_build_attempt(session, role, subject, granted, model))


def _handle_budget_refusal(
    session: Session, role: str, subject: str, refusal: BudgetRefusal, capacity: Capacity
) -> Iterator[Event]:
    """Ask for a higher limit when no running attempt can free any; a task whose own budget is used up is blocked."""
    if refusal.by != TASK:
        if refusal.final:
            yield from _ask_for_budget(session, refusal.by, capacity)
    elif find_usual_duty(role) is Duty.MAKE:
        yield TaskMoved(task=subject, cause=Cause.BLOCK, reason=describe_task_budget(session, subject))
        yield from block_dependants(session, subject, f"dependency {subject} is blocked")
    else:
        yield open_unpaid_review_gate(session, session.tasks[subject])


def _build_attempt(session: Session, role: str, subject: str, granted: BudgetGrant, model: str | None) -> Attempt:
    n = session.find_next_try(subject, role)
    name = build_attempt_id(session.id, subject, role, n)
    duty = find_usual_duty(role)
    interactive = duty is Duty.PLAN and session.limits.interactive_planning
    taken = {attempt.slot for attempt in session.live.values()}
    return Attempt(
        id=name,
        session=session.id,
        subject=subject,
        role=role,
        n=n,
        agent_id=build_agent_id(role, name),
        cycle=session.cycle,
        slot=next(slot for slot in range(len(taken) + 1) if slot not in taken),
        branch=build_branch_name(session.id, subject, n) if duty in COMMITTING else None,
        built_on=find_foundations(session, session.tasks[subject].task) if duty is Duty.MAKE else (),
        model=model or session.limits.get_model(role),
        runtime=session.limits.get_runtime(role),
        budget=granted.budget,
        ceilings=granted.ceilings,
        timeout=0.0 if interactive else session.limits.get_timeout(role),  # a person may take their time
        interactive=interactive,
        continues=find_continuation(session, subject) if duty is Duty.MAKE else None,
        declared_duty=duty,
    )


def _claim_task(session: Session, capacity: Capacity) -> Iterator[Event]:
    if not can_claim(session):
        return
    slots = min(session.limits.workers, capacity.agents) - count_taken_slots(session, Duty.MAKE)
    for name in session.queue.pick(min(slots, 1)):
        yield from _intend_attempt(session, WORKER, name, capacity, model=session.tasks[name].task.model)


def _start_review(session: Session, capacity: Capacity) -> Iterator[Event]:
    if not session.is_stage_open("validate") or session.is_asking(GateKind.BUDGET) or not session.to_review:
        return
    name = min(session.to_review, key=session.to_review.__getitem__)
    if count_taken_slots(session, Duty.JUDGE) < session.limits.validators and not is_held_by_hook(session, name):
        task = session.tasks[name].task
        model = task.validator_model or session.limits.group_validator_models.get(task.cohesion_group)
        yield from _intend_attempt(session, VALIDATOR, name, capacity, model=model)


def _form_changesets(session: Session, _capacity: Capacity) -> Iterator[Event]:
    if tasks := list_tasks_to_land(session):
        yield ChangesetsFormed(changesets=form_changesets(session, tasks))


def _start_merger(session: Session, capacity: Capacity) -> Iterator[Event]:
    """Start a merger, one at a time: its resolution may make the next conflict easier."""
    if not session.is_stage_open("merge") or session.is_asking(GateKind.BUDGET) or session.count_running(Duty.MERGE):
        return
    for name in islice(list_unresolved(session), 1):
        yield from _intend_attempt(session, MERGER, name, capacity)


def _present_changeset(session: Session, _capacity: Capacity) -> Iterator[Event]:
    name = find_next_changeset(session)
    if name is None or session.is_asking(GateKind.CHANGESET):
        return
    record = session.changesets[name]
    if record.state is ChangesetState.BUILT:
        yield open_changeset_gate(session, record)


def _forget_problems(session: Session, _capacity: Capacity) -> Iterator[Event]:
    """Forget the failure of an act that is not needed any more: its task was dropped, its changeset is gone."""
    if not session.problems:
        return
    due = {name_act(session, effect) for effect in list_effects(session)}
    for act in session.problems:
        if act not in due and not is_attempt_wanted(session, act):
            yield EnvironmentRecovered(act=act)


def _end_cycle(session: Session, _capacity: Capacity) -> Iterator[Event]:
    if session.phase is Phase.WORKING and is_cycle_over(session):
        yield CycleEnded(cycle=session.cycle)


RULES: tuple[Callable[[Session, Capacity], Iterator[Event]], ...] = (
    _warn_of_budget,
    _withdraw_gate_of_yesterday,
    _report_slots,
    _ask_if_budget_exhausted,
    _advance_planning,
    _claim_task,
    _start_review,
    _form_changesets,
    _start_merger,
    _present_changeset,
    _forget_problems,
    _end_cycle,
)
