"""When a stage is over and which one comes next, with and without a barrier."""

from __future__ import annotations

from blueflame.model.gate import GateKind
from blueflame.model.task import TaskState
from blueflame.session.changesets.form import find_landable_tasks
from blueflame.session.state import Session, list_stages_ahead

OVER = "over"
"""What `find_next_wave` returns when no stage of the cycle has anything left to do."""


def can_claim(session: Session) -> bool:
    return session.is_stage_open("work") and not session.proceeding and not session.is_asking(GateKind.BUDGET)


def has_work(session: Session, stage: str) -> bool:
    if stage == "work":
        return bool(session.states[TaskState.CLAIMED]) or bool(session.queue.pick(1))
    if stage == "check" and session.workflow.has_stage("validate"):
        return bool(session.to_check)
    if stage in ("validate", "check"):
        return bool(session.states[TaskState.DONE])
    return bool(session.merging) or bool(find_landable_tasks(session, settled=True))


def find_next_wave(session: Session) -> str | None:
    """Return the stage to start now, OVER when none is left in the cycle, None while the current one continues."""
    if session.wave and not session.proceeding and has_work(session, session.wave):
        return None
    return next((stage for stage in list_stages_ahead(session) if has_work(session, stage)), OVER)


def is_quiet(session: Session) -> bool:
    """Whether, without a barrier, nothing is running and nothing can start before the next cycle."""
    claimable = bool(session.queue.pick(1)) and not session.proceeding
    return not (session.live or claimable or session.states[TaskState.DONE])


def list_tasks_to_land(session: Session) -> tuple[str, ...]:
    """Return the tasks of the next changesets; none while earlier changesets are still landing."""
    if not session.is_stage_open("merge") or session.merging or not session.states[TaskState.VALIDATED]:
        return ()
    return find_landable_tasks(session, settled=session.workflow.barrier or is_quiet(session))


def is_cycle_over(session: Session) -> bool:
    if not session.cycle_open or session.live or session.hooks_due or session.open_gates or session.merging:
        return False
    if session.workflow.barrier:
        return find_next_wave(session) == OVER
    return is_quiet(session) and not list_tasks_to_land(session)
