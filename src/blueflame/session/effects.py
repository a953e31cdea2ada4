"""Which effects should be under way: attempts, checks, hooks, merges, questions. Derived from the session alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from blueflame.lazy_dataclass import dataclass
from blueflame.model.changeset import ChangesetState
from blueflame.model.event import RuntimeParked
from blueflame.model.gate import GateKind
from blueflame.session.changesets.queue import find_next_changeset
from blueflame.session.clarifications import find_deadline
from blueflame.session.environment import awaits_config, is_held, list_held, name_attempt_act
from blueflame.session.gates.questions import is_unusable_config
from blueflame.session.rate_limits import ACCOUNT_KINDS
from blueflame.session.stages import OVER, find_next_wave
from blueflame.session.state import HookDue, Phase, Session, build_validation_key

GATES_HOLDING_BOUNDARIES = (GateKind.DRIFT, GateKind.BUDGET, GateKind.TASKS, GateKind.BASE)


@dataclass(frozen=True, slots=True)
class AttendAttempt:
    """Start the attempt if it has not been started, and wait until it has ended."""

    attempt: str


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    attempt: str
    reason: str
    now: bool = False


@dataclass(frozen=True, slots=True)
class CrossBoundary:
    """Pin the base, read the configuration again, and begin a cycle (stage "") or a wave."""

    cycle: int
    stage: str
    position: int = -1


@dataclass(frozen=True, slots=True)
class DiagnoseTask:
    task: str
    sha: str


@dataclass(frozen=True, slots=True)
class BuildChangeset:
    changeset: str


@dataclass(frozen=True, slots=True)
class LandChangeset:
    changeset: str


@dataclass(frozen=True, slots=True)
class RunHook:
    hook: HookDue


@dataclass(frozen=True, slots=True)
class AskGate:
    gate: str


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """Wait until a question is old enough that the agent continues without an answer."""

    gate: str


@dataclass(frozen=True, slots=True)
class AwaitConfig:
    """Read a configuration that cannot be used again and again, until it can: then no one needs to answer."""

    gate: str


@dataclass(frozen=True, slots=True)
class AwaitRuntime:
    """Probe until its model is available again; after an error of the account, read the configuration again."""

    runtime: str


@dataclass(frozen=True, slots=True)
class AwaitEnvironment:
    """Wait until an act that failed is to be tried again."""

    act: str


@dataclass(frozen=True, slots=True)
class AwaitBackoff:
    """Wait until a task may be tried again."""

    task: str


Effect = (
    AttendAttempt
    | CancelAttempt
    | CrossBoundary
    | DiagnoseTask
    | BuildChangeset
    | LandChangeset
    | RunHook
    | AskGate
    | AwaitAnswer
    | AwaitConfig
    | AwaitRuntime
    | AwaitEnvironment
    | AwaitBackoff
)


def name_act(session: Session, effect: Effect) -> str:
    """Name what an effect does, for people and as the key under which a failure of it is kept."""
    match effect:
        case AttendAttempt(name):
            return name_attempt_act(session.attempts[name].attempt)
        case CancelAttempt(name):
            return f"end of {session.attempts[name].attempt.agent_id}"
        case CrossBoundary(cycle, stage):
            return f"begin of {stage or f'cycle {cycle}'}"
        case DiagnoseTask(task):
            return f"checks of {task}"
        case BuildChangeset(name):
            return f"build of {name}"
        case LandChangeset(name):
            return f"landing of {name}"
        case RunHook(due):
            return f"hook {due.key}"
        case AskGate(name):
            return f"question {name}"
        case AwaitAnswer(name) | AwaitConfig(name):
            return f"wait for an answer to {name}"
        case AwaitRuntime(name):
            return f"wait for {name}"
        case AwaitEnvironment(act):
            return f"retry of {act}"
        case AwaitBackoff(task):
            return f"wait before {task}"


def effects_due(session: Session) -> tuple[Effect, ...]:
    """Return every effect that should be under way; the caller starts those that are not running yet."""
    effects = list_effects(session)
    if not session.problems:
        return effects
    waits = () if session.stopping else tuple(AwaitEnvironment(problem.act) for problem in list_held(session))
    return (*(effect for effect in effects if not _must_wait(session, name_act(session, effect))), *waits)


def _must_wait(session: Session, act: str) -> bool:
    return is_held(session, act) or awaits_config(session, act)


def list_effects(session: Session) -> tuple[Effect, ...]:
    """Return the effects that are due, also those that are held because they failed."""
    hooks = tuple(RunHook(due) for due in session.hooks_due.values())
    if session.ended:
        return hooks
    attempts = (*(AttendAttempt(name) for name in session.live), *_list_cancellations(session))
    if session.stopping:
        return attempts
    return (
        *attempts,
        *hooks,
        *_list_boundaries_to_cross(session),
        *_list_diagnoses(session),
        *_list_merge_steps(session),
        *(AskGate(name) for name in session.open_gates),
        *(AwaitAnswer(name) for name, gate in session.open_gates.items() if find_deadline(gate) is not None),
        *(AwaitConfig(name) for name, gate in session.open_gates.items() if is_unusable_config(gate)),
        *(AwaitRuntime(name) for name, parked in session.parked.items() if not _waits_for_person(session, parked)),
        *(AwaitBackoff(name) for name in session.waiting),
    )


def _waits_for_person(session: Session, parked: RuntimeParked) -> bool:
    of_account = parked.kind in ACCOUNT_KINDS
    if of_account and parked.until is None:
        return True
    return (of_account or parked.outages > 0) and session.is_asking(GateKind.DRIFT)


def _list_cancellations(session: Session) -> Iterator[Effect]:
    for name in session.live:
        reason = session.attempts[name].cancel_reason
        if reason:
            yield CancelAttempt(name, reason, session.stop_now)


def _list_boundaries_to_cross(session: Session) -> Iterator[Effect]:
    if session.phase is not Phase.WORKING or any(session.is_asking(kind) for kind in GATES_HOLDING_BOUNDARIES):
        return
    if not session.cycle_open:
        if not session.is_asking(GateKind.SESSION):
            yield CrossBoundary(session.cycle + 1, "")
    elif session.workflow.barrier:
        position = find_next_wave(session)
        if position is not None and position != OVER:
            yield CrossBoundary(session.cycle, session.workflow.task_stages[position].name, position)


def _list_diagnoses(session: Session) -> Iterator[Effect]:
    for name in islice(session.list_open(session.to_check), session.limits.validators):
        result = session.tasks[name].result
        if result is not None and not is_held_by_hook(session, name):
            yield DiagnoseTask(name, result.sha)


def is_held_by_hook(session: Session, task: str) -> bool:
    if session.workflow.barrier:
        return build_validation_key(session) in session.hooks_due
    return f"pre_validation:{task}:{session.tasks[task].attempts}" in session.hooks_due


def _list_merge_steps(session: Session) -> Iterator[Effect]:
    name = find_next_changeset(session)
    if name is None or session.is_asking(GateKind.BASE):
        return
    state = session.changesets[name].state
    if state is ChangesetState.FORMED:
        yield BuildChangeset(name)
    elif state is ChangesetState.APPROVED:
        yield LandChangeset(name)
