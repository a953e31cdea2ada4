"""What belongs on the screen before a gate is answered, for every kind of gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.cli.gates.prompt import GateContext
from blueflame.cli.render.changeset import render_changeset
from blueflame.cli.render.plan import render_plan
from blueflame.cli.render.session import format_budget, render_cycle
from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.gate import Gate, GateKind
from blueflame.model.task import Task
from blueflame.session.budget import DAY
from blueflame.session.estimate import batches, estimate_cost
from blueflame.session.gates.answers import build_proposal
from blueflame.session.state import Session
from blueflame.text.format import format_duration, format_until
from blueflame.text.marks import BAD, DOT, NOTE
from blueflame.text.sanitize import clean_text


def build_gate_context(session: Session, gate: Gate, *, diff: Callable[[], str] | None = None) -> GateContext:
    """The view, the diff and the tasks that go with a gate of a session."""
    return GateContext(
        view=RENDERERS[gate.kind](session, gate),
        diff=diff,
        tasks=_find_tasks(session, gate),
        problems_of=lambda tasks: (
            build_proposal(session, tuple(tasks), "edit", session.plan_round).problems
            if gate.kind is GateKind.PLAN
            else ()
        ),
    )


def _find_tasks(session: Session, gate: Gate) -> tuple[Task, ...]:
    if gate.kind is GateKind.PLAN:
        return session.plan.tasks if session.plan else ()
    if gate.kind is GateKind.OVERLAP:
        return tuple(session.tasks[name].task for name in gate.evidence.get("tasks", ()))
    record = session.tasks.get(gate.subject)
    return (record.task,) if record else ()


def _render_plan_gate(session: Session, gate: Gate) -> RenderableType:
    tasks = session.plan.tasks if session.plan else ()
    wrong = [*gate.evidence.get("problems", ())]
    return render_plan(
        tasks,
        session=session.id,
        request=session.request,
        round=session.plan_round,
        batches=() if wrong else batches(tasks, session.limits.workers),
        cost=estimate_cost(tasks, session.limits, session.workflow),
        problems=wrong,
        warnings=[*gate.evidence.get("warnings", ())],
    )


def _render_changeset_gate(session: Session, gate: Gate) -> RenderableType:
    record = session.changesets[gate.subject]
    peers = [r for r in session.changesets.values() if r.changeset.cycle == record.changeset.cycle]
    view = render_changeset(
        record,
        session=session.id,
        place=(peers.index(record) + 1, len(peers)),
        tasks=session.tasks,
        spend=session.spend,
        costs=session.spend_by_subject,
        budget=session.limits.session_budget,
    )
    deferred = [peer for peer in peers if peer.state is ChangesetState.DEFERRED]
    return stack_parts(view, *(_render_deferred(peer) for peer in deferred))


def _render_deferred(record: ChangesetRecord) -> RenderableType:
    why = clean_text(record.note) or "it builds on a rejected changeset"
    return Text.assemble(("  ! NOTE: ", "warn"), f"[{clean_text(record.changeset.group)}] is deferred: {why}.")


def _render_session_gate(session: Session, _gate: Gate) -> RenderableType:
    hint = "  To change what has not landed, edit .blueflame/tasks.yaml, then continue."
    return stack_parts(render_cycle(session), Text(hint, "quiet"))


def _render_validation_gate(session: Session, gate: Gate) -> RenderableType:
    by = str(gate.evidence.get("by", "")) or "the validator"
    issues = [str(issue) for issue in gate.evidence.get("issues", ())]
    return stack_parts(
        Heading("Validation failed", f"by {clean_text(by)}", gate.subject),
        _render_quote(str(gate.evidence.get("notes", ""))),
        build_columns([(Text(BAD, "bad"), clean_text(issue)) for issue in issues]) if issues else None,
        _render_earlier_attempts(session, gate.subject),
    )


def _render_validator_gate(session: Session, gate: Gate) -> RenderableType:
    return stack_parts(
        Heading("Validator failed", gate.subject),
        _render_quote(str(gate.evidence.get("reason", ""))),
        _render_earlier_attempts(session, gate.subject),
    )


def _render_quote(text: str) -> RenderableType | None:
    """The last lines of what somebody said, indented: enough to judge by, and the question stays on the screen."""
    lines = clean_text(text).strip().splitlines()
    shown = ([f"… {len(lines) - 20} lines above"] if len(lines) > 20 else []) + lines[-20:]
    return build_columns([(Text("│", "quiet"), line) for line in shown]) if lines else None


def _render_earlier_attempts(session: Session, task: str) -> RenderableType | None:
    record = session.tasks.get(task)
    if record is None or not record.history:
        return None
    rows = [
        (Text(DOT, "quiet"), f"attempt {entry.attempt}", entry.result.value.replace("_", " "), _first_line(entry.notes))
        for entry in record.history
    ]
    return Group(Text("Earlier attempts", "head"), build_columns(rows))


def _first_line(text: str) -> str:
    lines = clean_text(text).strip().splitlines()
    return lines[0] if lines else ""


def _render_budget_gate(session: Session, gate: Gate) -> RenderableType:
    about: dict[str, RenderableType] = {
        "Session budget:": format_budget(session.limits.session_budget, session.spend),
        "Left to do:": f"{len(session.unfinished)} of {len(session.tasks)} tasks",
    }
    if gate.subject == DAY:
        about = {"Budget of the day:": clean_text(str(gate.evidence.get("budget", ""))), **about}
    return Group(Heading("Budget reached", session.id), build_facts(about))


def _render_rate_limit_gate(session: Session, gate: Gate) -> RenderableType:
    ends = gate.evidence.get("until")
    about: Mapping[str, RenderableType] = {
        "Runtime:": clean_text(gate.subject),
        "It says:": clean_text(str(gate.evidence.get("reason", ""))) or "nothing",
        "Over:": format_until(float(ends)).strip() if ends is not None else "nobody knows when",
        "Meanwhile:": f"{len(session.live)} agents at work or waiting; nothing is lost",
    }
    return Group(Heading("No model for now", gate.subject), build_facts(about))


def _render_list(title: str, lines: Sequence[str], session: Session) -> RenderableType:
    return Group(Heading(title, session.id), build_columns([(Text(DOT, "quiet"), clean_text(line)) for line in lines]))


def _render_drift_gate(session: Session, gate: Gate) -> RenderableType:
    return _render_list("Configuration changed", [str(change) for change in gate.evidence.get("changes", ())], session)


def _render_stall_gate(session: Session, gate: Gate) -> RenderableType:
    about: Mapping[str, RenderableType] = {
        "Agent:": clean_text(str(gate.evidence.get("agent", ""))),
        "Silent for:": format_duration(float(gate.evidence.get("seconds", 0))),
        "Time limit:": _describe_time_limit(session, gate),
    }
    return stack_parts(
        Group(Heading("Silent agent", gate.subject), build_facts(about)),
        _render_earlier_attempts(session, gate.subject),
    )


def _describe_time_limit(session: Session, gate: Gate) -> str:
    record = session.attempts.get(str(gate.evidence.get("attempt", "")))
    return f"{format_duration(record.attempt.timeout)}: it is ended then in any case" if record else ""


def _render_overlap_gate(session: Session, gate: Gate) -> RenderableType:
    names = [name for name in gate.evidence.get("tasks", ()) if name in session.tasks]
    rows = [
        (Text(name, "id"), clean_text(session.tasks[name].task.title), Text(when, "quiet"))
        for name, when in zip(names, ("began first", "began later"), strict=False)
    ]
    paths = [(Text(NOTE, "warn"), clean_text(str(path))) for path in gate.evidence.get("paths", ())]
    near = "in the same lines" if gate.evidence.get("kind") == "lines" else "in other lines so far"
    return stack_parts(
        Group(Heading("Two agents in one file", near, gate.subject), build_columns(rows)), build_columns(paths)
    )


def _render_tasks_gate(session: Session, gate: Gate) -> RenderableType:
    return _render_list("Tasks file", [str(problem) for problem in gate.evidence.get("problems", ())], session)


def _render_resume_gate(session: Session, _gate: Gate) -> RenderableType:
    left = f"{len(session.unfinished)} of {len(session.tasks)} tasks left, cycle {session.cycle}"
    return _render_list("Unfinished session", [session.request, left], session)


def _render_stale_gate(session: Session, gate: Gate) -> RenderableType:
    return _render_list("Left behind", [gate.title], session)


RENDERERS: Mapping[GateKind, Callable[[Session, Gate], RenderableType]] = {
    GateKind.PLAN: _render_plan_gate,
    GateKind.CHANGESET: _render_changeset_gate,
    GateKind.SESSION: _render_session_gate,
    GateKind.VALIDATION: _render_validation_gate,
    GateKind.VALIDATOR: _render_validator_gate,
    GateKind.BUDGET: _render_budget_gate,
    GateKind.RATE_LIMIT: _render_rate_limit_gate,
    GateKind.DRIFT: _render_drift_gate,
    GateKind.STALL: _render_stall_gate,
    GateKind.OVERLAP: _render_overlap_gate,
    GateKind.TASKS: _render_tasks_gate,
    GateKind.RESUME: _render_resume_gate,
    GateKind.STALE: _render_stale_gate,
}
