"""When a stage is over and which one comes next, with and without a barrier."""

from __future__ import annotations

from blueflame.model.gate import GateKind
from blueflame.model.task import TaskState
from blueflame.session.merging.form import landable
from blueflame.session.state import Session, stages_ahead

OVER = "over"
"""What `find_next_wave` returns when no stage of the cycle has anything left to do."""


def may_claim(session: Session) -> bool:
    return session.stage_open("work") and not session.proceeding and not session.asks(GateKind.BUDGET)


def has_work(session: Session, stage: str) -> bool:
    if stage == "work":
        return bool(session.states[TaskState.CLAIMED]) or bool(session.queue.pick(1))
    if stage == "check" and session.workflow.has_stage("validate"):
        return bool(session.to_check)
    if stage in ("validate", "check"):
        return bool(session.states[TaskState.DONE])
    return bool(session.merging) or bool(landable(session, settled=True))


def is_drained(session: Session, stage: str) -> bool:
    """Nothing more can happen in this stage, or a person said: go on with what is done."""
    return session.proceeding or not has_work(session, stage)


def next_wave(session: Session) -> str | None:
    """The stage to start now, OVER when the cycle has none left, None while the present one goes on."""
    if session.wave and not is_drained(session, session.wave):
        return None
    return next((stage for stage in stages_ahead(session) if has_work(session, stage)), OVER)


def is_quiet(session: Session) -> bool:
    """Without a barrier: nothing moves and nothing can be started before the next cycle."""
    claimable = bool(session.queue.pick(1)) and not session.proceeding
    return not (session.live or claimable or session.states[TaskState.DONE])


def ready_to_land(session: Session) -> tuple[str, ...]:
    """The tasks of the next changesets; none while earlier ones are being landed."""
    if not session.stage_open("merge") or session.merging or not session.states[TaskState.VALIDATED]:
        return ()
    return landable(session, settled=session.workflow.barrier or is_quiet(session))


def cycle_is_over(session: Session) -> bool:
    if not session.cycle_open or session.live or session.hooks_due or session.open_gates or session.merging:
        return False
    if session.workflow.barrier:
        return next_wave(session) == OVER
    return is_quiet(session) and not ready_to_land(session)
