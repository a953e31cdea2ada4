"""When a stage is over and which one comes next, with and without a barrier."""

from __future__ import annotations

from itertools import chain, islice

from blueflame.model.attempt import Duty
from blueflame.model.gate import GateKind
from blueflame.model.task import TaskState
from blueflame.session.changesets.form import find_landable_tasks, list_fixes_to_land
from blueflame.session.state import Session, list_stages_ahead

OVER = -1
"""What `find_next_wave` returns when no stage of the cycle has anything left to do."""


def can_claim(session: Session) -> bool:
    """Whether tasks may be claimed: with a barrier only in a wave that makes."""
    is_open = session.cycle_open and any(
        stage.duty is Duty.MAKE and session.is_stage_open(n) for n, stage in enumerate(session.workflow.task_stages)
    )
    return is_open and not session.proceeding and not session.is_asking(GateKind.BUDGET)


def list_claimable(session: Session, slots: int) -> tuple[str, ...]:
    """Return the tasks to claim now: first fixes, then those made in part, so that what was begun is finished."""
    begun = (name for name in session.list_open(session.to_continue) if name not in session.waiting)
    free = (name for name in begun if session.queue.can_continue(name) and not session.is_parked(name))
    ready = tuple(islice(free, max(slots, 0)))
    fresh = _pick_unparked(session, slots) if session.is_stage_open(0) else ()
    return tuple(sorted((*ready, *fresh), key=lambda name: name not in session.fixes)[: max(slots, 0)])


def _pick_unparked(session: Session, slots: int) -> tuple[str, ...]:
    """Pick tasks from the queue; one whose model is unavailable does not hold up those after it."""
    wanted = slots
    while True:
        picked = session.queue.pick(wanted)
        free = [name for name in picked if not session.parked or not session.is_parked(name)]
        if len(free) >= slots or len(picked) < wanted:
            return tuple(free[: max(slots, 0)])
        wanted += slots - len(free)


def has_work(session: Session, position: int) -> bool:
    stage = session.workflow.task_stages[position]
    if stage.duty is Duty.MERGE:
        return bool(session.merging) or bool(find_landable_tasks(session, settled=True))
    if stage.duty is Duty.MAKE:
        begun = chain(session.states[TaskState.CLAIMED], session.waiting)
        if session.to_continue.has_any_at(position) or any(session.tasks[name].stage == position for name in begun):
            return True
        return position == 0 and bool(session.queue.pick(1))
    after = session.workflow.find_next(position)
    if not stage.role and after is not None and after.duty is Duty.JUDGE:
        return session.to_check.has_any_at(position)
    results = chain(session.states[TaskState.DONE], session.states[TaskState.PARTIAL])
    return any(session.tasks[name].stage == position for name in results)


def find_next_wave(session: Session) -> int | None:
    """Return the position to start now, OVER when none is left in the cycle, None while the current one continues."""
    if session.position >= 0 and not session.proceeding and has_work(session, session.position):
        return None
    return next((position for position in list_stages_ahead(session) if has_work(session, position)), OVER)


def is_quiet(session: Session) -> bool:
    """Whether, without a barrier, nothing is running and nothing can start before the next cycle."""
    claimable = bool(session.queue.pick(1) or session.to_continue or session.waiting) and not session.proceeding
    judged = session.states[TaskState.DONE] or len(session.states[TaskState.PARTIAL]) > len(session.to_continue)
    return not (session.live or claimable or judged or session.states[TaskState.CLAIMED])


def list_tasks_to_land(session: Session) -> tuple[str, ...]:
    """Return the tasks of the next changesets; only fixes while earlier changesets are still landing."""
    if not session.is_merge_open() or not session.states[TaskState.VALIDATED]:
        return ()
    if session.merging:
        return list_fixes_to_land(session) if session.fixes and not session.workflow.barrier else ()
    return find_landable_tasks(session, settled=session.workflow.barrier or is_quiet(session))


def is_cycle_over(session: Session) -> bool:
    if not session.cycle_open or session.live or session.hooks_due or session.open_gates or session.merging:
        return False
    if session.workflow.barrier:
        return find_next_wave(session) == OVER
    return is_quiet(session) and not list_tasks_to_land(session)
