"""A plan for review: its tasks, schedule, cost and problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import WITHOUT_TASK, Duty
from blueflame.model.gate import Gate
from blueflame.model.limits import Limits
from blueflame.model.sizing import Triage
from blueflame.model.task import Task, dump_task
from blueflame.model.workflow import Workflow
from blueflame.session.estimate import (
    CostRange,
    estimate_cost,
    find_model,
    is_planned_by_hand,
    plan_batches,
    share_tasks,
)
from blueflame.session.plan_problems import find_plan_problems, find_plan_warnings
from blueflame.session.state import Session
from blueflame.text.format import format_count
from blueflame.views.parts import pick
from blueflame.views.triage import build_triage_json


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    session: str
    tasks: tuple[Task, ...] = ()
    request: str = ""
    round: int = 1
    batches: tuple[tuple[str, ...], ...] = ()
    cost: CostRange | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()  # since the plan that was shown before
    triage: Triage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAgents:
    """How many agents of one role a session would start at least, and how many at once at most."""

    role: str
    agents: int
    at_once: int
    runtime: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunView:
    plan: PlanView
    is_plan_known: bool
    workflow: Workflow
    agents: tuple[PlannedAgents, ...]


def list_planned_tasks(session: Session) -> tuple[Task, ...]:
    """The tasks of the plan that is proposed, else of the one that was approved."""
    return session.plan.tasks if session.plan else tuple(session.tasks[name].task for name in sorted(session.tasks))


def build_plan_view(session: Session, gate: Gate | None = None) -> PlanView:
    tasks, evidence = list_planned_tasks(session), gate.evidence if gate else {}
    found = tuple(evidence.get("problems", ()))
    return PlanView(
        session=session.id,
        tasks=tasks,
        request=session.request,
        round=session.plan_round,
        batches=() if found else _list_batches(tasks, session.limits),
        cost=estimate_cost(tasks, session.limits, session.workflow, is_planned=is_planned_by_hand(session)),
        problems=found,
        warnings=tuple(evidence.get("warnings", ())),
        changes=tuple(list_plan_changes(session.plan_before, tasks)) if session.plan_before else (),
        triage=session.triage,
    )


def list_plan_changes(before: Sequence[Task], after: Sequence[Task]) -> Iterator[str]:
    """Say what differs between two plans, one line for each task that was added or removed and each changed field."""
    old, new = {task.id: task for task in before}, {task.id: task for task in after}
    yield from (f"{name} was removed: {task.title}" for name, task in old.items() if name not in new)
    for name, task in new.items():
        if name not in old:
            yield f"{name} was added: {task.title}"
            continue
        one, other = dump_task(old[name]), dump_task(task)
        for field in (field for field in one if one[field] != other[field]):
            yield f"{name}: {_describe_field_change(field, one[field], other[field])}"


def _describe_field_change(field: str, old: object, new: object) -> str:
    if field == "description":
        before, after = _count_lines(str(old)), _count_lines(str(new))
        return "the description was changed" + (f", from {before} to {after}" if before != after else "")
    one, other = (", ".join(each) or "nothing" if isinstance(each, list) else each or "usual" for each in (old, new))
    return f"{field.replace('_', ' ')}: {one} -> {other}"


def _count_lines(text: str) -> str:
    return format_count(len(text.splitlines()), "line")


def build_dry_run_view(
    request: str,
    tasks: Sequence[Task] | None,
    flow: Workflow,
    limits: Limits,
    *,
    is_plan: bool,
    is_planned: bool = False,
    triage: Triage | None = None,
) -> DryRunView:
    """`tasks` is None before a planner has run; `is_plan` is False for the one task that needs no planner.

    `is_planned`: a person wrote the plan. `triage`: the size of the request.
    """
    known = tuple(tasks or ())
    found = find_plan_problems(known, limits) if is_plan else ()
    plan = PlanView(
        session="dry run",
        tasks=known,
        request=request,
        batches=_list_batches(known, limits),
        cost=estimate_cost(known, limits, flow, is_planned=is_planned),
        problems=tuple(found),
        warnings=tuple(find_plan_warnings(known)) if known else (),
        triage=triage,
    )
    agents = _list_planned_agents(tasks, flow, limits, is_planned=is_planned)
    return DryRunView(plan=plan, is_plan_known=tasks is not None, workflow=flow, agents=tuple(agents))


def _list_batches(tasks: Sequence[Task], limits: Limits) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(batch) for batch in plan_batches(tasks, limits.workers))


def _list_planned_agents(
    tasks: Sequence[Task] | None, flow: Workflow, limits: Limits, *, is_planned: bool
) -> list[PlannedAgents]:
    """`tasks` is None before there is a plan: then as many at once as there may be."""
    once = {} if is_planned else dict.fromkeys(WITHOUT_TASK, 1)
    most = {**once, Duty.MAKE: limits.workers, Duty.JUDGE: limits.validators}
    return [
        PlannedAgents(
            role=role,
            agents=1 if duty in WITHOUT_TASK else len(share),
            at_once=most[duty] if tasks is None else min(most[duty], max(len({task.id for task in share}), 1)),
            runtime=limits.get_runtime(role),
            model=", ".join(dict.fromkeys(find_model(task, role, duty, limits) for task in share))
            or limits.get_model(role),
        )
        for (role, duty), share in share_tasks(tasks or (), limits, flow).items()
        if duty in most
    ]


def describe_choices(task: Task) -> str:
    """What the plan chose for a task, in words; "" if it chose nothing."""
    words = {"workflow": task.workflow, "model": task.model, "reviewed by": task.validator_model}
    return ", ".join(f"{name} {chosen}" for name, chosen in words.items() if chosen)


def build_plan_json(view: PlanView) -> dict[str, Any]:
    return {
        "session": view.session,
        "triage": build_triage_json(view.triage),
        "tasks": [dump_task(task) for task in view.tasks],
        "batches": [list(batch) for batch in view.batches],
        "cost_usd": _build_range_json(view.cost),
        **pick(view, "problems warnings changes"),
    }


def build_dry_run_json(view: DryRunView) -> dict[str, Any]:
    flow = view.workflow
    return {
        **build_plan_json(view.plan),
        "request": view.plan.request,
        "plan_known": view.is_plan_known,
        "workflow": {"name": flow.name, "stages": list(flow.stages), "barrier": flow.barrier},
        "would_spawn": [pick(each, "role agents at_once runtime model") for each in view.agents],
    }


def _build_range_json(cost: CostRange | None) -> dict[str, Any] | None:
    return None if cost is None else {"base": cost.low / 1e6, "with_retries": cost.high / 1e6, "learned": cost.learned}
