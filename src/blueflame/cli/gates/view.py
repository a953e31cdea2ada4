"""A gate, drawn: its evidence, and what the prompt needs besides it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, render_text, stack_parts
from blueflame.cli.gates.prompt import GateContext
from blueflame.cli.render.changeset import render_changeset
from blueflame.cli.render.plan import render_plan
from blueflame.cli.render.session import render_cycle
from blueflame.model.gate import Gate, GateKind
from blueflame.model.task import Task
from blueflame.session.gates.answers import build_proposal
from blueflame.session.state import Session
from blueflame.text.marks import DOT
from blueflame.text.sanitize import clean_text
from blueflame.views.changeset import ChangesetView
from blueflame.views.gates import GateView, build_gate_view, find_gate_tasks
from blueflame.views.parts import DetailsView
from blueflame.views.plan import PlanView
from blueflame.views.session import CycleView


def build_gate_context(session: Session, gate: Gate, *, diff: Callable[[], str] | None = None) -> GateContext:
    def find_problems(tasks: Sequence[Task]) -> Sequence[str]:
        if gate.kind is not GateKind.PLAN:
            return ()
        return build_proposal(session, tuple(tasks), "edit", session.plan_round).problems

    view = render_gate(build_gate_view(session, gate))
    return GateContext(view=view, diff=diff, tasks=find_gate_tasks(session, gate), problems_of=find_problems)


def draw_gate(session: Session, gate: Gate, *, width: int = 80) -> str:
    """The evidence of a gate as plain text, for clients and chats."""
    return render_text(render_gate(build_gate_view(session, gate)), width=width)


def render_gate(view: GateView) -> RenderableType:
    match view:
        case PlanView():
            return render_plan(view)
        case ChangesetView():
            return render_changeset(view)
        case CycleView():
            return render_cycle(view)
        case DetailsView():
            return render_details(view)


def render_details(view: DetailsView) -> RenderableType:
    points = [(Text(DOT, "quiet"), clean_text(point)) for point in view.points]
    tasks = [(Text(name, "id"), clean_text(title), Text(when, "quiet")) for name, title, when in view.tasks]
    quote = [(Text("│", "quiet"), clean_text(line)) for line in view.quote]
    lines = [(Text(line.mark, line.tone), clean_text(line.text)) for line in view.lines]
    history = [(Text(DOT, "quiet"), name, result, clean_text(notes)) for name, result, notes in view.history]
    return stack_parts(
        Group(
            Heading(view.title, *map(clean_text, view.aside)),
            *([build_facts(view.facts)] if view.facts else []),
            *([build_columns(points)] if points else []),
            *([build_columns(tasks)] if tasks else []),
        ),
        build_columns(quote) if quote else None,
        build_columns(lines) if lines else None,
        build_columns([(clean_text(line),) for line in view.document]) if view.document else None,
        Group(Text("Earlier attempts", "head"), build_columns(history)) if history else None,
    )
