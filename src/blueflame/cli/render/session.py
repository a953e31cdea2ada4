"""A session as a person follows it: its state now, what a cycle brought, what became of it in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.cli.render.agents import UNKNOWN_HEALTH, render_agents
from blueflame.cli.render.changeset import build_changeset_json, count_outcomes, render_outcome
from blueflame.cli.render.locks import build_locks_json, find_wait_reason, render_locks
from blueflame.model.attempt import AttemptRecord
from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.event import RuntimeParked
from blueflame.model.gate import Gate
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.model.task import TaskRecord, TaskState
from blueflame.orchestrator.engine.health import Health, HealthReport
from blueflame.session.estimate import CostRange
from blueflame.session.overlaps import describe_overlap, list_current_overlaps
from blueflame.session.rate_limits import describe_parked
from blueflame.session.state import Session
from blueflame.text.format import format_count, format_duration, format_until
from blueflame.text.marks import MARKS, OK
from blueflame.text.outcomes import OUTCOME_WORDS
from blueflame.text.sanitize import clean_line, clean_text, shorten_line

MAX_AGENTS = 15


def format_budget(budget: Budget, spend: Spend) -> str:
    """`$2.14 / $10.00 USD limit` or `12,450 / 50,000 token limit`."""
    used = budget.measure(spend)
    if budget.unlimited:
        return f"{budget.format_amount(used)} (no limit)"
    if budget.unit is Unit.USD:
        return f"{budget.format_amount(used)} / {budget.format_amount(budget.limit)} USD limit"
    return f"{used:,} / {budget.limit:,} token limit"


def render_cycle(session: Session) -> RenderableType:
    """What a cycle brought, before a person says whether another one begins."""
    judged = [record for record in session.changesets.values() if record.changeset.cycle == session.cycle]
    landed = [record for record in judged if record.state is ChangesetState.LANDED]
    about: dict[str, RenderableType] = {
        "Approved:": f"{format_count(len(landed), 'changeset')} (merged to {clean_text(session.base_branch)})",
        "Re-queued:": _list_tasks(session.list_in_state(TaskState.REQUEUED)),
        "Blocked:": _list_tasks(session.list_in_state(TaskState.BLOCKED)),
    }
    for title, state in (("Deferred:", TaskState.DEFERRED), ("Failed:", TaskState.FAILED)):
        if names := session.list_in_state(state):
            about[title] = _list_tasks(names)
    about["Session budget:"] = format_budget(session.limits.session_budget, session.spend)
    lines = [render_outcome(record) for record in judged]
    return stack_parts(
        Group(
            Heading(f"Wave cycle {session.cycle} complete", count_outcomes(judged).rstrip("."), session.id),
            build_facts(about),
        ),
        build_columns([(line,) for line in lines]) if lines else None,
    )


def _list_tasks(ids: Sequence[str], *, most: int = 12) -> str:
    if not ids:
        return "0 tasks"
    listed = ", ".join(ids[:most]) + (", …" if len(ids) > most else "")
    return f"{format_count(len(ids), 'task')} ({listed})"


def render_summary(session: Session, *, now: float, estimate: CostRange | None = None) -> RenderableType:
    """The end: tasks, attempts, time, cost, what landed, and what did not and why."""
    landed = [r for r in session.changesets.values() if r.state is ChangesetState.LANDED]
    proposed = [r for r in session.changesets.values() if r.state is ChangesetState.PROPOSED]
    return stack_parts(
        Group(Heading("Session summary", session.id), build_facts(_build_totals(session, now, estimate))),
        _render_landed(landed, session.base_branch)
        if landed
        else None
        if proposed
        else Text("Nothing has landed.", "warn"),
        build_columns([(render_outcome(record),) for record in proposed]) if proposed else None,
        _render_not_landed(session),
        _render_cost_by_role(session, estimate) if session.attempts else None,
        _render_cost_by_agent(session.attempts.values()) if session.attempts else None,
    )


def _build_totals(session: Session, now: float, estimate: CostRange | None) -> dict[str, RenderableType]:
    ended = [r.ended for r in session.attempts.values() if r.ended is not None]
    at_work = sum(end.seconds for end in ended)
    outcome = OUTCOME_WORDS.get(session.outcome, session.outcome) if session.outcome else "not ended"
    reason = f" ({clean_line(session.outcome_reason)})" if session.outcome_reason else ""
    merged = session.count_in_state(TaskState.MERGED)
    cost = format_budget(session.limits.session_budget, session.spend)
    expected = f"; estimated {estimate.text}" if estimate else ""
    wall = max((session.last_at if session.ended else now) - session.opened_at, 0.0)
    return {
        "Outcome:": Text(outcome + reason, "good" if session.outcome == "completed" else "warn"),
        "Tasks:": f"{merged} of {len(session.tasks)} landed in {format_count(session.cycle, 'cycle')}",
        "Attempts:": f"{len(session.attempts)} ({_count_endings(session.attempts.values())})",
        "Time:": f"{format_duration(wall)} ({format_duration(at_work)} of agents' work)",
        "Cost:": cost + expected,
    }


def _count_endings(records: Iterable[AttemptRecord]) -> str:
    names = [record.ended.ending.value if record.ended else "running" for record in records]
    return ", ".join(f"{names.count(name)} {name.replace('_', ' ')}" for name in sorted(set(names))) or "none"


def _render_landed(records: Sequence[ChangesetRecord], base: str) -> RenderableType:
    rows = [
        (
            Text(OK, "good"),
            Text((record.landed_as or "")[:10], "id"),
            Text.assemble(
                (f"[{clean_line(record.changeset.group)}]", "group"), " ", clean_line(record.changeset.title)
            ),
            Text(", ".join(record.changeset.tasks), "quiet"),
        )
        for record in records
    ]
    return Group(Text(f"Landed on {clean_text(base)}", "head"), build_columns(rows))


def _render_not_landed(session: Session) -> RenderableType | None:
    left = [r for r in session.tasks.values() if r.state is not TaskState.MERGED]
    if not left:
        return None
    rows = [_build_task_row(record, record.verdict_notes or record.reason) for record in _sort_by_id(left)]
    return Group(Text("Not landed", "head"), build_columns(rows))


def _sort_by_id(records: Iterable[TaskRecord]) -> list[TaskRecord]:
    return sorted(records, key=lambda record: record.task.id)


def _build_task_row(record: TaskRecord, words: str) -> tuple[RenderableType, ...]:
    mark, style = MARKS[record.state]
    why = Text.assemble(clean_line(record.task.title), (f"  {shorten_line(words, 100)}" if words else "", "quiet"))
    return Text(mark, style), Text(record.task.id, "id"), Text(record.state.value, style), why


def _render_cost_by_role(session: Session, estimate: CostRange | None) -> RenderableType:
    """Actual beside estimate, role by role (COST-11)."""
    expected = {role.role: role for role in estimate.roles} if estimate else {}
    by_role = [record.attempt.role for record in session.attempts.values()]
    rows = [(*map(_dim, ("role", "attempts", "tokens", "cost", "estimated" if estimate else "")),)]
    for role in sorted(set(by_role), key=by_role.index):
        spend, range_ = session.spend_by_role.get(role, Spend()), expected.get(role)
        foreseen = f"${range_.low / 1e6:.2f} - ${range_.high / 1e6:.2f}" if range_ else ""
        rows.append(
            (
                Text(clean_text(role)),
                Text(f"{by_role.count(role)}"),
                Text(f"{spend.tokens:,}"),
                Text(f"${spend.usd:.2f}"),
                _dim(foreseen),
            )
        )
    return Group(Text("Cost by role", "head"), build_columns(rows, right=(1, 2, 3, 4)))


def _render_cost_by_agent(records: Iterable[AttemptRecord]) -> RenderableType:
    """Who cost what, dearest first."""
    ranked = sorted(
        records, key=lambda r: (-_get_spend(r).micro_usd, -_get_spend(r).tokens, r.intended_at, r.attempt.id)
    )
    rows = [(*map(_dim, ("agent", "for", "ending", "time", "tokens", "cost", "budget")),)]
    rows += [_build_agent_row(record) for record in ranked[:MAX_AGENTS]]
    hidden = ranked[MAX_AGENTS:]
    usd = sum(_get_spend(record).micro_usd for record in hidden) / 1e6
    rest = [Text(f"  … and {format_count(len(hidden), 'agent')} more, ${usd:.2f} together", "quiet")] if hidden else []
    return Group(Text("Cost by agent", "head"), build_columns(rows, right=(3, 4, 5, 6)), *rest)


def _dim(text: str) -> Text:
    return Text(text, "quiet")


def _get_spend(record: AttemptRecord) -> Spend:
    return record.ended.spend if record.ended else Spend()


def _build_agent_row(record: AttemptRecord) -> tuple[Text, ...]:
    attempt, spend = record.attempt, _get_spend(record)
    budget = "" if attempt.budget.unlimited else attempt.budget.format_amount(attempt.budget.limit)
    ending = record.ended.ending.value.replace("_", " ") if record.ended else "running"
    return (
        Text(attempt.agent_id, "id"),
        Text(f"{attempt.subject} #{attempt.n}"),
        Text(ending, "good" if ending == "passed" else "warn"),
        Text(format_duration(record.ended.seconds) if record.ended else "", "quiet"),
        Text(f"{spend.tokens:,}"),
        Text(f"${spend.usd:.2f}"),
        Text(budget, "quiet"),
    )


def render_status(
    session: Session, *, now: float, checkups: Mapping[str, HealthReport] | None = None
) -> RenderableType:
    """How things stand: the session, its open questions, who is at work and how they are, every task."""
    stage = f"cycle {session.cycle}, {session.wave}" if session.wave else session.phase.value
    about: dict[str, RenderableType] = {
        "Request:": clean_line(session.request),
        "State:": OUTCOME_WORDS.get(session.outcome, session.outcome) if session.ended else stage,
        "Started:": f"{format_duration(now - session.opened_at)} ago",
        "Budget:": _format_live_budget(session, checkups or {}),
    }
    if session.parked and not session.ended:
        about["Waits for:"] = Text(
            "\n".join(clean_text(_describe_parked(each, now)) for each in session.parked.values()), "warn"
        )
    if session.overlaps:
        about["Overlaps:"] = Text(
            "\n".join(clean_text(describe_overlap(each)) for each in list_current_overlaps(session)), "warn"
        )
    live = [session.attempts[name] for name in session.live]
    return stack_parts(
        Group(Heading("Session status", session.id), build_facts(about)),
        render_gates(list(session.open_gates.values())) if session.open_gates else None,
        render_agents(live, now=now, checkups=checkups or {}) if live else None,
        render_locks(session, now=now),
        _render_all_tasks(session) if session.tasks else None,
    )


def _format_live_budget(session: Session, checkups: Mapping[str, HealthReport]) -> str:
    """What ended agents used and what running ones have used so far; that is not final, and marked."""
    budget = session.limits.session_budget
    live = sum((found.spend for found in checkups.values()), Spend())
    return f"{'~' if budget.measure(live) else ''}{format_budget(budget, session.spend + live)}"


def _describe_parked(parked: RuntimeParked, now: float) -> str:
    """`claude: the provider says too much for now; 3 agents wait until 14:32 (in 12m)`"""
    left = f" (in {format_duration(parked.until - now)})" if parked.until is not None and parked.until > now else ""
    return describe_parked(parked) + format_until(parked.until) + left


def _render_all_tasks(session: Session) -> RenderableType:
    rows = [
        _build_task_row(record, "; ".join(filter(None, (find_wait_reason(session, record.task.id), record.reason))))
        for record in _sort_by_id(session.tasks.values())
    ]
    return Group(Text("Tasks", "head"), build_columns(rows))


def render_gates(gates: Sequence[Gate]) -> RenderableType:
    """Open questions, each with the way to answer it."""
    if not gates:
        return Text("No gate is open.", "quiet")
    rows = [
        (
            Text(gate.id, "id"),
            gate.kind.value,
            Text.assemble(clean_line(gate.title), (f"  {' | '.join(option.name for option in gate.options)}", "quiet")),
        )
        for gate in gates
    ]
    answer = Text(f"  Answer with: blueflame answer {gates[0].id} CHOICE", "quiet")
    return Group(Text("Waiting for an answer", "head"), build_columns(rows), answer)


def build_gates_json(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    return [
        {
            "id": gate.id,
            "kind": gate.kind.value,
            "subject": gate.subject,
            "group": gate.group,
            "title": gate.title,
            "default": gate.default,
            "options": [
                {"name": option.name, "label": option.label, "needs_note": option.needs_note} for option in gate.options
            ],
            "evidence": dict(gate.evidence),
        }
        for gate in gates
    ]


def build_session_json(
    session: Session, *, now: float, checkups: Mapping[str, HealthReport] | None = None
) -> dict[str, Any]:
    """Everything a machine may want to know about a session, in one object: for status and for the summary."""
    budget = session.limits.session_budget
    return {
        "session": session.id,
        "request": session.request,
        "phase": session.phase.value,
        "outcome": session.outcome or None,
        "reason": session.outcome_reason,
        "cycle": session.cycle,
        "wave": session.wave,
        "seconds": round(max((session.last_at if session.ended else now) - session.opened_at, 0.0), 3),
        "cost_usd": session.spend.usd,
        "tokens": session.spend.tokens,
        "budget": {"unit": budget.unit.value, "limit": _get_limit(budget)},
        "tasks": [_build_task_json(session, record) for record in _sort_by_id(session.tasks.values())],
        "locks": build_locks_json(session),
        "attempts": [_build_attempt_json(record, now, checkups or {}) for record in session.attempts.values()],
        "changesets": [build_changeset_json(record) for record in session.changesets.values()],
        "parked": [
            {"runtime": each.runtime, "kind": each.kind, "reason": each.reason, "until": each.until}
            for each in session.parked.values()
        ],
        "overlaps": [
            {"tasks": list(each.tasks), "paths": list(each.paths), "kind": each.kind}
            for each in list_current_overlaps(session)
        ],
        "gates": build_gates_json(list(session.open_gates.values())),
    }


def _get_limit(budget: Budget) -> float | int | None:
    """In the unit it is written in: dollars or tokens; None where there is no limit."""
    if budget.unlimited:
        return None
    return budget.limit / 1e6 if budget.unit is Unit.USD else budget.limit


def _build_task_json(session: Session, record: TaskRecord) -> dict[str, Any]:
    return {
        "id": record.task.id,
        "title": record.task.title,
        "group": record.task.cohesion_group,
        "state": record.state.value,
        "attempts": record.attempts,
        "reason": record.reason,
        "waits_for": find_wait_reason(session, record.task.id),
        "commit": record.result.sha if record.result else None,
    }


def _build_attempt_json(record: AttemptRecord, now: float, checkups: Mapping[str, HealthReport]) -> dict[str, Any]:
    attempt, end = record.attempt, record.ended
    found = checkups.get(attempt.id, HealthReport(state=Health.ENDED) if end else UNKNOWN_HEALTH)
    spend = end.spend if end else found.spend
    seconds = end.seconds if end else now - (record.started_at or record.intended_at)
    return {
        "id": attempt.id,
        "agent": attempt.agent_id,
        "role": attempt.role,
        "subject": attempt.subject,
        "n": attempt.n,
        "state": found.state.value,
        "why": found.why,
        "pid": found.agent_pid,
        "warden_pid": found.warden_pid,
        "last_output": found.last_output,
        "ending": end.ending.value if end else None,
        "seconds": round(seconds, 3),
        "cost_usd": spend.usd,
        "tokens": spend.tokens,
    }
