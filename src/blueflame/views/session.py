"""A session: its current state, the result of a cycle, its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from blueflame.lazy_dataclass import dataclass
from blueflame.model.activity import Health, HealthReport
from blueflame.model.attempt import AttemptRecord
from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.event import EnvironmentFailed, RuntimeParked
from blueflame.model.gate import Gate
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.model.task import HistoryResult, TaskRecord, TaskState
from blueflame.paths.locks import do_locks_overlap
from blueflame.session.clarifications import list_assumptions
from blueflame.session.effects import (
    BuildChangeset,
    DiagnoseTask,
    Effect,
    LandChangeset,
    effects_due,
    name_act,
)
from blueflame.session.environment import describe_problem, join_problems, list_held
from blueflame.session.estimate import CostRange
from blueflame.session.landed_work import LandedWork, count_landed_work, describe_undoing
from blueflame.session.next_try import describe_next_try, find_rung
from blueflame.session.overlaps import describe_overlap, list_current_overlaps
from blueflame.session.rate_limits import describe_parked
from blueflame.session.scheduling.ready_queue import WAITS_FOR_SLOT
from blueflame.session.state import Session
from blueflame.text.format import format_count, format_dollar_range, format_duration, format_until
from blueflame.text.outcomes import describe_checks, describe_landed_work, describe_session_outcome
from blueflame.text.sanitize import clean_line
from blueflame.views.changeset import build_changeset_json, count_outcomes, describe_outcome
from blueflame.views.parts import MarkedLine, NamedValue, pick
from blueflame.views.team import build_allocation_json
from blueflame.views.triage import build_triage_json

UNKNOWN_HEALTH = HealthReport(state=Health.UNKNOWN)
PersonLocks: TypeAlias = Mapping[str, Sequence[str]]
"""What people have locked, by their names."""
NO_LOCKS: PersonLocks = MappingProxyType({})


class TaskLine(NamedTuple):
    id: str
    state: TaskState
    title: str
    note: str
    undone: bool = False  # it has landed, and a person took it back


class AgentLine(NamedTuple):
    """A running agent and its health."""

    record: AttemptRecord
    health: HealthReport


class HeldLock(NamedTuple):
    """The locks of one running task. A task without locks holds the whole tree."""

    task: str
    agent: str
    since: float
    paths: tuple[str, ...]


class RoleCost(NamedTuple):
    role: str
    attempts: int
    spend: Spend
    estimate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    session: str
    facts: tuple[NamedValue, ...]
    gates: tuple[Gate, ...]
    agents: tuple[AgentLine, ...]
    locks: tuple[HeldLock, ...]
    tasks: tuple[TaskLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleView:
    """The result of a cycle, before a person decides about the next one."""

    session: str
    cycle: int
    tally: str
    facts: tuple[NamedValue, ...]
    outcomes: tuple[MarkedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryView:
    session: str
    base_branch: str
    facts: tuple[NamedValue, ...]
    landed: tuple[ChangesetRecord, ...]
    proposed: tuple[MarkedLine, ...]
    not_landed: tuple[TaskLine, ...]
    roles: tuple[RoleCost, ...]
    attempts: tuple[AttemptRecord, ...]  # highest cost first
    has_estimate: bool
    lands: bool  # False where nothing was to land


def build_status_view(
    session: Session,
    *,
    now: float,
    checkups: Mapping[str, HealthReport] | None = None,
    locked: PersonLocks = NO_LOCKS,
) -> StatusView:
    """`locked`: what people hold, by their names."""
    found = checkups or {}
    stage = f"cycle {session.cycle}, {session.wave}" if session.wave else session.phase.value
    facts = [
        NamedValue("Request", clean_line(session.request)),
        NamedValue(
            "State", describe_session_outcome(session.outcome, count_landed_work(session)) if session.ended else stage
        ),
        NamedValue("Started", f"{format_duration(now - session.opened_at)} ago"),
        NamedValue("Budget", _format_live_budget(session, found)),
    ]
    if session.parked and not session.ended:
        facts.append(
            NamedValue("Waits for", "\n".join(_describe_parked(each, now) for each in session.parked.values()), "warn")
        )
    if session.awaited and not session.ended:
        waits = [f"a {role} agent for {wait.subject}: {wait.queue}" for role, wait in session.awaited.items()]
        facts.append(NamedValue("Waits for", "\n".join(waits), "warn"))
    if commands := list_commands_under_way(session, now):
        facts.append(NamedValue("Under way", "\n".join(commands)))
    facts += _list_hindered(session, now)
    if session.overlaps:
        facts.append(
            NamedValue("Overlaps", "\n".join(describe_overlap(each) for each in list_current_overlaps(session)), "warn")
        )
    live = sorted(
        (session.attempts[name] for name in session.live), key=lambda each: (each.intended_at, each.attempt.id)
    )
    return StatusView(
        session=session.id,
        facts=tuple(facts),
        gates=tuple(session.open_gates.values()),
        agents=tuple(AgentLine(each, found.get(each.attempt.id, UNKNOWN_HEALTH)) for each in live),
        locks=tuple(list_held_locks(session)),
        tasks=tuple(
            _build_task_line(each, "; ".join(filter(None, _list_task_notes(session, each, now, locked))))._replace(
                undone=bool(describe_undoing(session, each))
            )
            for each in _sort_by_id(session.tasks.values())
        ),
    )


def build_cycle_view(session: Session) -> CycleView:
    judged = [record for record in session.changesets.values() if record.changeset.cycle == session.cycle]
    landed = sum(record.state is ChangesetState.LANDED for record in judged)
    facts = [
        NamedValue("Approved", f"{format_count(landed, 'changeset')} (merged to {session.base_branch})"),
        NamedValue("Re-queued", _list_tasks(session.list_in_state(TaskState.REQUEUED))),
        NamedValue("Blocked", _list_tasks(session.list_in_state(TaskState.BLOCKED))),
    ]
    for name, state in (("Deferred", TaskState.DEFERRED), ("Failed", TaskState.FAILED)):
        if tasks := session.list_in_state(state):
            facts.append(NamedValue(name, _list_tasks(tasks)))
    facts.append(NamedValue("Session budget", format_budget(session.limits.session_budget, session.spend)))
    return CycleView(
        session=session.id,
        cycle=session.cycle,
        tally=count_outcomes(judged),
        facts=tuple(facts),
        outcomes=tuple(describe_outcome(record) for record in judged),
    )


def build_summary_view(session: Session, *, now: float, estimate: CostRange | None = None) -> SummaryView:
    changesets = session.changesets.values()
    undone = {name: note for name, record in session.tasks.items() if (note := describe_undoing(session, record))}
    left = [each for each in session.tasks.values() if each.state is not TaskState.MERGED or each.task.id in undone]
    return SummaryView(
        session=session.id,
        base_branch=session.base_branch,
        facts=_build_totals(session, now, estimate),
        landed=tuple(each for each in changesets if each.state is ChangesetState.LANDED),
        proposed=tuple(describe_outcome(each) for each in changesets if each.state is ChangesetState.PROPOSED),
        not_landed=tuple(
            _build_task_line(each, undone.get(each.task.id, _find_reason(each)))._replace(undone=each.task.id in undone)
            for each in _sort_by_id(left)
        ),
        roles=tuple(_list_role_costs(session, estimate)),
        attempts=tuple(sorted(session.attempts.values(), key=_rank_by_cost)),
        has_estimate=estimate is not None,
        lands=not session.workflow.curates,
    )


def _find_reason(record: TaskRecord) -> str:
    """Why a task has not landed. A review may have praised what was then rejected or deferred."""
    last = record.history[-1] if record.history else None
    if record.state is TaskState.REQUEUED and last is not None and last.result is HistoryResult.VALIDATION_FAILED:
        return last.notes or record.reason
    return record.reason or record.verdict_notes


def _build_totals(session: Session, now: float, estimate: CostRange | None) -> tuple[NamedValue, ...]:
    agent_seconds = sum(each.ended.seconds for each in session.attempts.values() if each.ended is not None)
    work = count_landed_work(session)
    outcome = describe_session_outcome(session.outcome, work) if session.outcome else "not ended"
    reason = f" ({clean_line(session.outcome_reason)})" if session.outcome_reason else ""
    cost = format_budget(session.limits.session_budget, session.spend)
    good = session.outcome == "completed" and work.is_whole
    return (
        NamedValue("Outcome", outcome + reason, "good" if good else "warn"),
        *_list_hindered(session, now),
        *([] if session.workflow.curates else [_count_tasks(session, work)]),
        NamedValue("Attempts", f"{len(session.attempts)} ({_count_endings(session.attempts.values())})"),
        *_list_landed_checks(session),
        NamedValue(
            "Time",
            f"{format_duration(_measure_seconds(session, now))} ({format_duration(agent_seconds)} of agents' work)",
        ),
        NamedValue("Cost", cost + (f"; estimated {estimate.text}" if estimate else "")),
    )


def _count_tasks(session: Session, work: LandedWork) -> NamedValue:
    return NamedValue("Tasks", describe_landed_work(work, within=f" in {format_count(session.cycle, 'cycle')}"))


def _list_landed_checks(session: Session) -> Iterator[NamedValue]:
    """How the checks ended on what landed last: it contains what landed before."""
    builds = [each.build for each in session.changesets.values() if each.state is ChangesetState.LANDED and each.build]
    if builds:
        checks = builds[-1].checks
        is_green = bool(checks) and all(check.passed for check in checks)
        yield NamedValue("Checks", describe_checks(checks), "" if is_green else "warn")


def _count_endings(records: Iterable[AttemptRecord]) -> str:
    counts = Counter(record.ending_words for record in records)
    return ", ".join(f"{count} {words}" for words, count in sorted(counts.items())) or "none"


def _list_role_costs(session: Session, estimate: CostRange | None) -> list[RoleCost]:
    """List the costs of roles in the order in which the roles first ran."""
    expected = {role.role: role for role in estimate.roles} if estimate else {}
    roles = [record.attempt.role for record in session.attempts.values()]
    return [
        RoleCost(
            role,
            roles.count(role),
            session.spend_by_role.get(role, Spend()),
            format_dollar_range(expected[role].low, expected[role].high) if role in expected else "",
        )
        for role in dict.fromkeys(roles)
    ]


def _rank_by_cost(record: AttemptRecord) -> tuple[int, int, float, str]:
    spend = get_spend(record)
    return -spend.micro_usd, -spend.tokens, record.intended_at, record.attempt.id


def get_spend(record: AttemptRecord) -> Spend:
    return record.ended.spend if record.ended else Spend()


def _list_tasks(ids: Sequence[str], *, most: int = 12) -> str:
    if not ids:
        return "0 tasks"
    listed = ", ".join(ids[:most]) + (", …" if len(ids) > most else "")
    return f"{format_count(len(ids), 'task')} ({listed})"


def _sort_by_id(records: Iterable[TaskRecord]) -> list[TaskRecord]:
    return sorted(records, key=lambda record: record.task.id)


def _list_task_notes(session: Session, record: TaskRecord, now: float, locked: PersonLocks) -> tuple[str, ...]:
    return (find_wait_reason(session, record.task.id, now, locked), record.reason, describe_undoing(session, record))


def _build_task_line(record: TaskRecord, note: str) -> TaskLine:
    return TaskLine(record.task.id, record.state, record.task.title, note)


def _format_live_budget(session: Session, checkups: Mapping[str, HealthReport]) -> str:
    """Format the cost of ended and running agents; with running ones it is not final, and marked with ~."""
    budget = session.limits.session_budget
    live = _sum_live(checkups)
    return f"{'~' if budget.measure(live) else ''}{format_budget(budget, session.spend + live)}"


def _sum_live(checkups: Mapping[str, HealthReport]) -> Spend:
    return sum((found.spend for found in checkups.values()), Spend())


def _describe_parked(parked: RuntimeParked, now: float) -> str:
    left = f" (in {format_duration(parked.until - now)})" if parked.until is not None and parked.until > now else ""
    reason = f": {clean_line(parked.reason)}" if parked.reason else ""
    return describe_parked(parked) + format_until(parked.until) + left + reason


def list_commands_under_way(session: Session, now: float) -> tuple[str, ...]:
    """Name what runs commands without an agent, which can take minutes: `checks of task-001`, `build of cs-001`."""
    due = (each for each in effects_due(session) if isinstance(each, DiagnoseTask | BuildChangeset | LandChangeset))
    return tuple(f"{name_act(session, each)}{_describe_progress(session, each, now)}" for each in due)


def _describe_progress(session: Session, effect: Effect, now: float) -> str:
    """`: pushing to origin, 3 min`, since this try began."""
    if isinstance(effect, BuildChangeset):
        since = session.changesets[effect.changeset].scanned_since
        return f": searching for secrets, {format_duration(max(now - since, 0))}" if since is not None else ""
    if not isinstance(effect, LandChangeset):
        return ""
    failed = session.problems.get(name_act(session, effect))
    since = failed.until if failed is not None else session.changesets[effect.changeset].judged_at
    what = f": pushing to {session.limits.remote}" if session.limits.remote else ""
    return f"{what}, {format_duration(max(now - since, 0))}"


def _list_hindered(session: Session, now: float) -> Iterator[NamedValue]:
    if hindrances := list_hindrances(session, now):
        yield NamedValue("Hindered", "\n".join(hindrances), "warn")


def list_hindrances(session: Session, now: float) -> tuple[str, ...]:
    """Describe what of ours fails, such as a landing while a lock of git is held."""
    return () if session.ended else tuple(_describe_hindrance(each, now) for each in join_problems(list_held(session)))


def _describe_hindrance(problem: EnvironmentFailed, now: float) -> str:
    left = f"; tried again in {format_duration(problem.until - now)}" if problem.until > now else ""
    return f"{describe_problem(problem)}{left}: {clean_line(problem.reason)}"


def _measure_seconds(session: Session, now: float) -> float:
    return max((session.last_at if session.ended else now) - session.opened_at, 0.0)


def format_budget(budget: Budget, spend: Spend) -> str:
    """`$2.14 / $10.00 USD limit` or `12,450 / 50,000 token limit`."""
    used = budget.measure(spend)
    if budget.unlimited:
        return f"{budget.format_amount(used)} (no limit)"
    if budget.unit is Unit.USD:
        return f"{budget.format_amount(used)} / {budget.format_amount(budget.limit)} USD limit"
    return f"{used:,} / {budget.limit:,} token limit"


def list_held_locks(session: Session) -> list[HeldLock]:
    """In the order of the tasks' ids."""
    held = []
    for name in session.list_in_state(TaskState.CLAIMED):
        if (attempt := session.find_live_attempt(name)) is not None:
            since = session.attempts[attempt.id].intended_at
            held.append(HeldLock(name, attempt.agent_id, since, session.tasks[name].task.file_locks or (".",)))
    return held


def find_wait_reason(session: Session, task: str, now: float, locked: PersonLocks = NO_LOCKS) -> str:
    """Empty for a task that waits for nothing, or whose session is over. `locked`: what people hold."""
    if task in session.waiting and not session.ended:
        return _describe_backoff(session, task, now)
    if not session.ended and task in session.list_waiting_for_answer():
        return "waits for an answer to its question"
    reason = "" if session.ended else session.queue.explain_waiting(task)
    if reason == WAITS_FOR_SLOT:
        reason = "waits for its model" if session.is_parked(task) else reason
        reason = _find_lock_of_person(session.tasks[task].task.file_locks or (".",), locked) or reason
    if task in session.to_check and not session.ended and session.is_stage_open(session.tasks[task].stage):
        reason = "waits for its checks"
    if task in session.to_continue and not session.ended:
        reason = f"waits for {session.find_stage(task).name}"
    return f"waits for cycle {session.cycle + 1}" if reason and not session.cycle_open else reason


def list_kept_back(session: Session, now: float, locked: PersonLocks) -> Iterator[str]:
    """Name the tasks that only a person's lock keeps from starting, and whose it is."""
    for name in session.list_in_state(TaskState.PENDING) if locked else ():
        reason = _find_lock_of_person(session.tasks[name].task.file_locks or (".",), locked)
        if reason and find_wait_reason(session, name, now, locked) == reason:
            yield f"{clean_line(name)} {reason}"


def _find_lock_of_person(paths: Sequence[str], locked: PersonLocks) -> str:
    held = ((name, lock) for name, theirs in locked.items() for lock in theirs)
    found = next((each for each in held if any(do_locks_overlap(each[1], path) for path in paths)), None)
    return f"waits for the lock {found[1]} held by {found[0]}" if found else ""


def _describe_backoff(session: Session, task: str, now: float) -> str:
    left = session.waiting[task] - now
    when = f"in {format_duration(left)}" if left > 0 else "now"
    return f"is tried again {when}: {describe_next_try(session.limits, session.tasks[task])}"


def build_gates_json(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    return [
        {
            **pick(gate, "id kind subject group title default"),
            "options": [
                {"name": option.name, "label": option.label, "needs_note": option.needs_note} for option in gate.options
            ],
            "evidence": dict(gate.evidence),
        }
        for gate in gates
    ]


def build_session_json(
    session: Session,
    *,
    now: float,
    checkups: Mapping[str, HealthReport] | None = None,
    locked: PersonLocks = NO_LOCKS,
) -> dict[str, Any]:
    """Build the object that `status --json` prints, and `run --json` at the end."""
    budget, spend = session.limits.session_budget, session.spend + _sum_live(checkups or {})
    return {
        "session": session.id,
        "request": session.request,
        "triage": build_triage_json(session.triage),
        "phase": session.phase.value,
        "outcome": session.outcome or None,
        "reason": session.outcome_reason,
        "cycle": session.cycle,
        "wave": session.wave,
        "seconds": round(_measure_seconds(session, now), 3),
        "cost_usd": spend.usd,
        "tokens": spend.tokens,
        "budget": {"unit": budget.unit.value, "limit": budget.amount},
        "tasks": [_build_task_json(session, record, now, locked) for record in _sort_by_id(session.tasks.values())],
        "locks": [each._asdict() for each in list_held_locks(session)],
        "attempts": [build_attempt_json(record, now, checkups or {}) for record in session.attempts.values()],
        "changesets": [build_changeset_json(record) for record in session.changesets.values()],
        "parked": [pick(each, "runtime kind reason until") for each in session.parked.values()],
        "waiting": [
            {"role": role, "subject": wait.subject, "reason": wait.reason, "ahead": wait.ahead, "seconds": wait.seconds}
            for role, wait in session.awaited.items()
        ],
        "under_way": list(list_commands_under_way(session, now)),
        "problems": [pick(each, "act cause reason until times") for each in session.problems.values()],
        "overlaps": [
            {"tasks": list(each.tasks), "paths": list(each.paths), "kind": each.kind}
            for each in list_current_overlaps(session)
        ],
        "gates": build_gates_json(list(session.open_gates.values())),
    }


def _build_task_json(session: Session, record: TaskRecord, now: float, locked: PersonLocks) -> dict[str, Any]:
    return {
        "id": record.task.id,
        "title": record.task.title,
        "group": record.task.cohesion_group,
        **pick(record, "state attempts retries"),
        "rung": find_rung(session.limits, record),
        "retry_at": session.waiting.get(record.task.id),
        "reason": record.reason or describe_undoing(session, record),
        "waits_for": find_wait_reason(session, record.task.id, now, locked),
        "commit": record.result.sha if record.result else None,
        "assumptions": list(list_assumptions(session, record.task.id)),
    }


def build_attempt_json(record: AttemptRecord, now: float, checkups: Mapping[str, HealthReport]) -> dict[str, Any]:
    attempt, end = record.attempt, record.ended
    found = checkups.get(attempt.id, HealthReport(state=Health.ENDED) if end else UNKNOWN_HEALTH)
    spend = end.spend if end else found.spend
    seconds = end.seconds if end else now - (record.started_at or record.intended_at)
    return {
        "id": attempt.id,
        "agent": attempt.agent_id,
        **pick(attempt, "role subject n"),
        **build_allocation_json(attempt),
        **pick(attempt, "runtime unguarded model rung ad_hoc"),
        "state": found.state.value,
        "why": found.why,
        "pid": found.agent_pid,
        "warden_pid": found.warden_pid,
        "last_output": found.last_output,
        "ending": end.ending.value if end else None,
        "seconds": round(seconds, 3),
        "waited": end.waited if end else None,
        "cost_usd": spend.usd,
        "tokens": spend.tokens,
    }
