"""A session's status: facts, gates, running agents, locks, tasks, checks and hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.cli.render.session import render_task_lines
from blueflame.model.activity import Health
from blueflame.model.gate import Gate
from blueflame.orchestrator.engine.presence import RunningCommand
from blueflame.text.format import format_clock, format_dollars, format_duration
from blueflame.text.questions import list_choices
from blueflame.text.sanitize import clean_line, clean_text, shorten_line
from blueflame.text.seats import describe_seat
from blueflame.views.activity import format_tokens
from blueflame.views.session import AgentLine, HeldLock, StatusView

HEALTH: Mapping[Health, str] = {Health.STARTING: "", Health.WORKING: "good", Health.ENDED: "", Health.LOST: "bad"}
AGENT_HEAD = ("agent", "for", "pid", "age", "silent", "tokens", "cost", "state")
RIGHT_ALIGNED = range(2, 7)
GAP = "  "
MAX_WORDS = 160  # characters


def render_status(view: StatusView, *, now: float) -> RenderableType:
    return stack_parts(
        Group(Heading("Session status", view.session), build_facts(view.facts)),
        render_gates(view.gates) if view.gates else None,
        _render_agents(view.agents, now) if view.agents else None,
        _render_locks(view.locks, now) if view.locks else None,
        render_task_lines("Tasks", view.tasks),
    )


def render_gates(gates: Sequence[Gate]) -> RenderableType:
    """Open gates, each with the command that answers it."""
    if not gates:
        return Text("No open gates.", "quiet")
    rows = [(Text(gate.id, "id"), gate.kind.value, _draw_question(gate)) for gate in gates]
    answer = Text(f"  Answer with: blueflame answer {gates[0].id} CHOICE", "quiet")
    return Group(Text("Waiting for an answer", "head"), build_columns(rows), answer)


def _draw_question(gate: Gate) -> Text:
    ways = f"  {' | '.join(option.name for option in gate.options)}"
    choices = ((f"\n{choice}", "quiet") for choice in list_choices(gate))
    return Text.assemble(clean_line(gate.title), (ways, "quiet"), *choices)


def _render_agents(agents: Sequence[AgentLine], now: float) -> RenderableType:
    """Render figures in columns and the message below, so that neither is cut at any width."""
    rows = [_build_row(each, now) for each in agents]
    widths = [max(cell_len(row[n]) for row in (AGENT_HEAD, *rows)) for n in range(len(AGENT_HEAD))]
    lines = [Text("Running agents", "head"), _build_line(AGENT_HEAD, widths, ["quiet"] * len(AGENT_HEAD))]
    for row, each in zip(rows, agents, strict=True):
        lines.append(_build_line(row, widths, ["id", *[""] * 6, HEALTH.get(each.health.state, "warn")]))
        if seat := describe_seat(each.record.attempt):
            lines.append(Text(f"{GAP * 2}{seat}", "quiet"))
        if words := shorten_line(each.health.why or each.health.said, MAX_WORDS):
            lines.append(Text(f"{GAP * 2}{words}", "quiet"))
        if each.record.attempt.interactive:
            connect = f"blueflame attach {each.record.attempt.agent_id}"
            lines.append(Text(f"{GAP * 2}it talks with a person at its terminal: {connect}", "quiet"))
    return Group(*lines)


def _build_row(line: AgentLine, now: float) -> tuple[str, ...]:
    attempt, health = line.record.attempt, line.health
    return (
        attempt.agent_id,
        f"{clean_line(attempt.subject)} #{attempt.n}",
        str(health.agent_pid or ""),
        format_clock(now - (line.record.started_at or line.record.intended_at)),
        format_clock(now - health.last_output) if health.last_output else "",
        format_tokens(health.spend.tokens),
        format_dollars(health.spend.micro_usd, places=2),
        health.state.value,
    )


def _build_line(row: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for n, (cell, width, style) in enumerate(zip(row, widths, styles, strict=True)):
        space = " " * (width - cell_len(cell))
        line.append(GAP).append(space + cell if n in RIGHT_ALIGNED else cell + space, style)
    line.rstrip()
    return line


def _render_locks(locks: Sequence[HeldLock], now: float) -> RenderableType:
    rows = [
        (
            Text(each.task, "id"),
            Text(each.agent, "id"),
            format_duration(now - each.since),
            clean_line(", ".join(each.paths)),
        )
        for each in locks
    ]
    return Group(Text("Locks held", "head"), build_columns(rows, head=("task", "agent", "for", "locks"), right=(2,)))


def render_commands(commands: Sequence[RunningCommand], *, now: float) -> RenderableType:
    """Render running checks and hooks: they may hang like an agent."""
    head = ("command", "pid", "age", "silent")
    rows = [
        (
            clean_text(each.name),
            str(each.pid or ""),
            format_duration(now - each.since) if each.since else "",
            format_duration(now - each.last_output) if each.last_output else "",
        )
        for each in commands
    ]
    return Group(Text("\nRunning checks and hooks", "head"), build_columns(rows, head=head, right=(1, 2, 3)))
