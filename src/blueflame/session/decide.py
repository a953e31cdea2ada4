"""The next facts to record. They depend only on the session and the machine's capacity.

Called twice, `next_events` gives the same answer: after a crash the orchestrator needs nothing but the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from blueflame.model.attempt import (
    COMMITTING,
    CURATION_SUBJECT,
    PLAN_SUBJECT,
    SIZE_SUBJECT,
    WITHOUT_TASK,
    Attempt,
    Duty,
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
    SessionEnded,
    SlotsChanged,
    TaskMoved,
)
from blueflame.model.gate import GateKind
from blueflame.model.ids import build_agent_id, build_attempt_id, build_branch_name
from blueflame.model.limits import Capacity
from blueflame.model.seat import Allocation
from blueflame.model.task import Assignment, Cause, Task, TaskCommit
from blueflame.model.workflow import Stage
from blueflame.paths.locks import HeldLocks, LockPath, parse_locks, parse_task_locks
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
from blueflame.session.environment import READ_LOCKS, count_taken_slots, is_attempt_wanted
from blueflame.session.estimate import find_model
from blueflame.session.foundations import are_foundations_valid, find_start_foundations
from blueflame.session.gates.questions import (
    ask_or_give_up,
    describe_curation,
    open_budget_gate,
    open_changeset_gate,
    open_curation_gate,
    open_day_budget_gate,
    open_plan_gate,
    open_unpaid_review_gate,
)
from blueflame.session.gates.slots import is_waiting, may_be_ad_hoc, report_slots
from blueflame.session.next_try import find_rung, is_at_ceiling
from blueflame.session.retries import find_continuation
from blueflame.session.stages import can_claim, is_cycle_over, list_claimable, list_tasks_to_land
from blueflame.session.state import Phase, Session
from blueflame.session.team.conversations import choose_conversation
from blueflame.session.team.seats import allocate_seat

MAX_PLAN_FAILURES = 2
FIX = "fix"  # the origin of a plan with one task that a person ordered: it needs no approval


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
    claims = not session.proceeding and session.cycle_open and bool(list_claimable(session, 1))
    conflicts = session.is_merge_open() and next(list_unresolved(session), None) is not None
    return claims or conflicts or next(session.list_open(session.to_review), None) is not None


def _advance_planning(session: Session, capacity: Capacity) -> Iterator[Event]:
    at_work = any(session.count_running(duty) for duty in WITHOUT_TASK)
    asking = any(gate.kind is not GateKind.ASSIGNMENT for gate in session.open_gates.values())
    if session.phase is not Phase.PLANNING or asking or at_work:
        return
    if session.workflow.curates:
        yield from _advance_curation(session, capacity)
    elif session.plan is not None and session.plan.origin == FIX and not session.plan.problems:
        yield PlanApproved(tasks=session.plan.tasks)
    elif session.plan is not None or len(session.plan_failures) >= MAX_PLAN_FAILURES:
        yield open_plan_gate(session)
    elif session.workflow.asks_for_size:
        yield from _intend_attempt(session, session.workflow.steps[0], SIZE_SUBJECT, capacity)
    elif not session.workflow.is_planned:
        yield PlanApproved(tasks=(build_single_task(session.request, session.limits.allowed_paths),))
    else:
        yield from _intend_attempt(session, session.workflow.steps[0], PLAN_SUBJECT, capacity)


def _advance_curation(session: Session, capacity: Capacity) -> Iterator[Event]:
    found = session.curation
    if found is None:
        yield from _intend_attempt(session, session.workflow.steps[0], CURATION_SUBJECT, capacity)
    elif found.edits:
        yield open_curation_gate(session, found)
    else:
        yield SessionEnded(outcome="stopped" if found.problem else "completed", reason=describe_curation(found))


def build_single_task(request: str, allowed_paths: tuple[str, ...]) -> Task:
    """Build the only task of a workflow without a planner: the request."""
    lines = request.strip().splitlines() or ["the request"]
    locks = tuple(dict.fromkeys(_find_lock_for_glob(glob) for glob in allowed_paths))
    return Task(id="task-001", title=lines[0][:72], description=request, priority=1, file_locks=locks)


def _find_lock_for_glob(glob: str) -> str:
    """Return a lock that covers everything the glob can match; one without a slash matches at any depth."""
    if {"\\", "!"} & set(glob):
        return "."
    inner = glob.removeprefix("/")
    if glob.startswith("/") or "/" in inner.rstrip("/"):
        return inner
    return f"**/{inner}**" if inner.endswith("/") else f"**/{inner}"


def _intend_attempt(session: Session, stage: Stage, subject: str, capacity: Capacity) -> Iterator[Event]:
    """Intend a new attempt, if its task may have one, its model is available and its budget allows it.

    No attempt begins elsewhere: here the promises about attempts and money are kept.
    """
    who, record = session.choose_agent(stage, subject), session.tasks.get(subject)
    if record is not None and stage.duty is Duty.MAKE and is_at_ceiling(session.limits, record):
        reason = f"it has had all attempts that it may have ({record.failures})"
        yield TaskMoved(task=subject, cause=Cause.FAIL, reason=reason, stage=record.stage)
        yield from ask_or_give_up(session, record, reason)
        return
    if record is not None and stage.duty is not Duty.MAKE:
        who = replace(who, model=find_model(record.task, who.role, stage.duty, session.limits))
    if who.runtime in session.parked or is_waiting(session, capacity, who.role, subject):
        return
    granted = grant_budget(session, who.role, subject, capacity)
    if isinstance(granted, BudgetRefusal):
        yield from _handle_budget_refusal(session, stage.duty, subject, granted, capacity)
        return
    if stage.duty is Duty.MAKE:
        yield TaskMoved(task=subject, cause=Cause.CLAIM)
    yield AttemptIntended(attempt=_build_attempt(session, stage, subject, granted, who))


def _handle_budget_refusal(
    session: Session, duty: Duty, subject: str, refusal: BudgetRefusal, capacity: Capacity
) -> Iterator[Event]:
    """Ask for a higher limit when no running attempt can free any; a task whose own budget is used up is blocked."""
    if refusal.by != TASK:
        if refusal.final:
            yield from _ask_for_budget(session, refusal.by, capacity)
    elif duty is Duty.MAKE:
        yield TaskMoved(task=subject, cause=Cause.BLOCK, reason=describe_task_budget(session, subject))
        yield from block_dependants(session, subject, f"dependency {subject} is blocked")
    else:
        yield open_unpaid_review_gate(session, session.tasks[subject])


def _build_attempt(session: Session, stage: Stage, subject: str, granted: BudgetGrant, who: Assignment) -> Attempt:
    """Build an attempt; one that makes starts from what the task builds on, or from what was made of it so far."""
    role, record, limits = who.role, session.tasks.get(subject), session.limits
    key = stage.key if record is not None else ""
    n = session.find_next_try(subject, key or role)
    name = build_attempt_id(session.id, subject, key or role, n)
    makes = record if stage.duty is Duty.MAKE else None
    interactive = stage.duty is Duty.PLAN and limits.interactive_planning
    built_on = find_start_foundations(session, makes) if makes else ()
    taken = {attempt.slot for attempt in session.live.values()}
    return Attempt(
        id=name,
        session=session.id,
        subject=subject,
        role=role,
        n=n,
        agent_id=build_agent_id(key or role, name),
        cycle=session.cycle,
        slot=next(slot for slot in range(len(taken) + 1) if slot not in taken),
        branch=build_branch_name(session.id, subject, n, key) if stage.duty in COMMITTING else None,
        built_on=built_on,
        model=who.model,
        runtime=who.runtime,
        budget=granted.budget,
        ceilings=granted.ceilings,
        timeout=0.0 if interactive else limits.get_timeout(role),  # a person may take their time
        interactive=interactive,
        continues=find_continuation(session, subject) if makes else None,
        declared_duty=stage.duty,
        stage=record.stage if record is not None else None,
        key=key,
        rung=find_rung(session.limits, makes) if makes and not makes.assigned else 0,
        unguarded=limits.unguarded.get(who.runtime, ""),
        allocation=_allocate_attempt(session, stage, subject, who, built_on) if record is not None else None,
        ad_hoc=may_be_ad_hoc(session, role, subject),
    )


def _allocate_attempt(
    session: Session, stage: Stage, subject: str, who: Assignment, built_on: tuple[TaskCommit, ...]
) -> Allocation:
    """Choose the seat, and whether it continues its conversation: with a task that is made for the first time."""
    given = allocate_seat(session, who.role, stage.duty, subject)
    if stage.duty is not Duty.MAKE or session.find_next_try(subject, stage.key) > 1:
        return given
    return choose_conversation(session, given, who, subject, built_on)


def _claim_task(session: Session, capacity: Capacity) -> Iterator[Event]:
    if not can_claim(session):
        return
    slots = min(session.limits.workers, capacity.agents) - count_taken_slots(session, Duty.MAKE)
    for name in _list_free(session, capacity, min(slots, 1)):
        start = session.tasks[name].start
        if start is not None and not are_foundations_valid(session, start.built_on):
            yield TaskMoved(task=name, cause=Cause.REQUEUE, reason="what it was built on is being redone")
            return
        yield from _intend_attempt(session, session.find_stage(name), name, capacity)


def _list_free(session: Session, capacity: Capacity, slots: int) -> tuple[str, ...]:
    """List what can be claimed, without tasks that would write where a person holds a lock or that wait for a slot."""
    if not (capacity.locked or capacity.waiting) or slots < 1:
        return list_claimable(session, slots)
    held = HeldLocks(parse_locks(capacity.locked)) if capacity.locked else None  # no paths at all would be all of them
    names = iter(list_claimable(session, len(session.tasks)))
    free = (name for name in names if held is None or held.are_free(_parse_locks(session, name)))
    return tuple(islice((name for name in free if not _is_slot_awaited(session, capacity, name)), slots))


def _is_slot_awaited(session: Session, capacity: Capacity, task: str) -> bool:
    return is_waiting(session, capacity, session.choose_agent(session.find_stage(task), task).role, task)


def _parse_locks(session: Session, name: str) -> tuple[LockPath, ...]:
    return parse_task_locks(session.tasks[name].task)


def _start_review(session: Session, capacity: Capacity) -> Iterator[Event]:
    if session.is_asking(GateKind.BUDGET) or count_taken_slots(session, Duty.JUDGE) >= session.limits.validators:
        return
    reviewable = session.list_open(session.to_review)
    free = (name for name in reviewable if not session.is_parked(name))
    name = next((name for name in free if not _is_slot_awaited(session, capacity, name)), None)
    if name is not None and not is_held_by_hook(session, name):
        yield from _intend_attempt(session, session.find_stage(name), name, capacity)


def _form_changesets(session: Session, _capacity: Capacity) -> Iterator[Event]:
    if tasks := list_tasks_to_land(session):
        yield ChangesetsFormed(changesets=form_changesets(session, tasks))


def _start_merger(session: Session, capacity: Capacity) -> Iterator[Event]:
    """Start a merger, one at a time: its resolution may make the next conflict easier."""
    if not session.is_merge_open() or session.is_asking(GateKind.BUDGET) or session.count_running(Duty.MERGE):
        return
    for name in islice(list_unresolved(session), 1):
        yield from _intend_attempt(session, session.workflow.task_stages[-1], name, capacity)


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
    due = {READ_LOCKS, *(name_act(session, effect) for effect in list_effects(session))}
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
    report_slots,
    _end_cycle,
)
