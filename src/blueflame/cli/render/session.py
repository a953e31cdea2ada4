"""What a cycle brought, and the summary at the end of a session."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, draw_line, stack_parts
from blueflame.model.attempt import AttemptRecord
from blueflame.model.changeset import ChangesetRecord
from blueflame.text.event_lines import AGAIN
from blueflame.text.format import format_count, format_dollars, format_duration
from blueflame.text.marks import MARKS, OK
from blueflame.text.sanitize import clean_line, clean_text, shorten_line
from blueflame.views.session import CycleView, RoleCost, SummaryView, TaskLine, get_spend

MAX_AGENTS = 15


def render_cycle(view: CycleView) -> RenderableType:
    return stack_parts(
        Group(Heading(f"Wave cycle {view.cycle} complete", view.tally, view.session), build_facts(view.facts)),
        build_columns([(draw_line(line),) for line in view.outcomes]) if view.outcomes else None,
        Text("  To change what has not landed, edit .blueflame/tasks.yaml, then continue.", "quiet"),
    )


def render_summary(view: SummaryView) -> RenderableType:
    nothing = None if view.proposed or not view.lands else Text("Nothing has landed.", "warn")
    return stack_parts(
        Group(Heading("Session summary", view.session), build_facts(view.facts)),
        _render_landed(view.landed, view.base_branch) if view.landed else nothing,
        build_columns([(draw_line(line),) for line in view.proposed]) if view.proposed else None,
        render_task_lines("Not landed", view.not_landed),
        _render_cost_by_role(view.roles, "estimated" if view.has_estimate else "") if view.roles else None,
        _render_cost_by_agent(view.attempts) if view.attempts else None,
    )


def render_task_lines(title: str, lines: Sequence[TaskLine]) -> RenderableType | None:
    return Group(Text(title, "head"), build_columns([_build_task_row(line) for line in lines])) if lines else None


def _build_task_row(line: TaskLine) -> tuple[RenderableType, ...]:
    mark, style = (AGAIN, "warn") if line.undone else MARKS[line.state]
    state = "undone" if line.undone else line.state.value
    words = Text.assemble(clean_line(line.title), (f"  {shorten_line(line.note, 100)}" if line.note else "", "quiet"))
    return Text(mark, style), Text(line.id, "id"), Text(state, style), words


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


def _render_cost_by_role(roles: Sequence[RoleCost], estimated: str) -> RenderableType:
    head = ("role", "attempts", "tokens", "cost", estimated)
    rows = [
        (
            Text(clean_text(each.role)),
            Text(f"{each.attempts}"),
            Text(f"{each.spend.tokens:,}"),
            Text(format_dollars(each.spend.micro_usd, places=2)),
            Text(each.estimate, "quiet"),
        )
        for each in roles
    ]
    return Group(Text("Cost by role", "head"), build_columns(rows, head=head, right=(1, 2, 3, 4)))


def _render_cost_by_agent(ranked: Sequence[AttemptRecord]) -> RenderableType:
    head = ("agent", "for", "ending", "time", "tokens", "cost", "budget")
    rows = [_build_agent_row(record) for record in ranked[:MAX_AGENTS]]
    hidden = ranked[MAX_AGENTS:]
    cost = format_dollars(sum(get_spend(record).micro_usd for record in hidden), places=2)
    rest = [Text(f"  … and {format_count(len(hidden), 'agent')} more, {cost} together", "quiet")] if hidden else []
    return Group(Text("Cost by agent", "head"), build_columns(rows, head=head, right=(3, 4, 5, 6)), *rest)


def _build_agent_row(record: AttemptRecord) -> tuple[Text, ...]:
    attempt, spend = record.attempt, get_spend(record)
    budget = "" if attempt.budget.unlimited else attempt.budget.format_amount(attempt.budget.limit)
    return (
        Text(attempt.agent_id, "id"),
        Text(f"{attempt.subject} #{attempt.n}"),
        Text(record.ending_words, "good" if record.ended and record.ended.passed else "warn"),
        Text(format_duration(record.ended.seconds) if record.ended else "", "quiet"),
        Text(f"{spend.tokens:,}"),
        Text(format_dollars(spend.micro_usd, places=2)),
        Text(budget, "quiet"),
    )
