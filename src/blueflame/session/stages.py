"""When a stage is over and which one comes next, with and without a barrier."""

from __future__ import annotations

from blueflame.model.gate import GateKind
from blueflame.model.task import TaskState
from blueflame.session.merging.form import find_landable_tasks
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


def is_drained(session: Session, stage: str) -> bool:
    """Nothing more can happen in this stage, or a person said: go on with what is done."""
    return session.proceeding or not has_work(session, stage)


def find_next_wave(session: Session) -> str | None:
    """The stage to start now, OVER when the cycle has none left, None while the present one goes on."""
    if session.wave and not is_drained(session, session.wave):
        return None
    return next((stage for stage in list_stages_ahead(session) if has_work(session, stage)), OVER)


def is_quiet(session: Session) -> bool:
    """Without a barrier: nothing moves and nothing can be started before the next cycle."""
    claimable = bool(session.queue.pick(1)) and not session.proceeding
    return not (session.live or claimable or session.states[TaskState.DONE])


def list_tasks_to_land(session: Session) -> tuple[str, ...]:
    """The tasks of the next changesets; none while earlier ones are being landed."""
    if not session.is_stage_open("merge") or session.merging or not session.states[TaskState.VALIDATED]:
        return ()
    return find_landable_tasks(session, settled=session.workflow.barrier or is_quiet(session))


def is_cycle_over(session: Session) -> bool:
    if not session.cycle_open or session.live or session.hooks_due or session.open_gates or session.merging:
        return False
    if session.workflow.barrier:
        return find_next_wave(session) == OVER
    return is_quiet(session) and not list_tasks_to_land(session)
