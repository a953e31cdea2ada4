"""The evidence of a gate, for every kind of gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from blueflame.model.gate import Gate, GateKind
from blueflame.model.task import Task
from blueflame.session.budget import DAY
from blueflame.session.clarifications import find_deadline, read_question
from blueflame.session.hand_offs import StageHandOff, list_last_hand_offs
from blueflame.session.state import Session
from blueflame.text.format import format_count, format_duration, format_until
from blueflame.text.marks import BAD, NOTE
from blueflame.text.outcomes import describe_checks
from blueflame.text.sanitize import shorten_line
from blueflame.views.changeset import ChangesetView, build_changeset_view, format_size, list_notes
from blueflame.views.hand_offs import list_document_lines
from blueflame.views.parts import DetailsView, MarkedLine, NamedValue
from blueflame.views.plan import PlanView, build_plan_view
from blueflame.views.session import CycleView, build_cycle_view, format_budget

MAX_QUOTED_LINES = 20
MAX_SUMMARY_CHARS = 200


GateView = PlanView | ChangesetView | CycleView | DetailsView


def build_gate_view(session: Session, gate: Gate) -> GateView:
    return BUILDERS.get(gate.kind, _build_plain)(session, gate)


def summarize_gate(session: Session, gate: Gate) -> str:
    """What a gate is about in one line, for dialogs that show few; empty where its title says it all."""
    view = build_gate_view(session, gate)
    match view:
        case PlanView():
            words = [f"{task.id} {task.title}" for task in find_gate_tasks(session, gate)]
        case ChangesetView():
            build = view.record.build
            checks = [describe_checks(build.checks)] if build and build.checks else ["nothing was tested"]
            words = [*([format_size(build)] if build else []), *checks, *list_notes(view)]
        case DetailsView():
            words = [*(f"{fact.name}: {fact.text}" for fact in view.facts), *view.quote]
        case _:
            words = []
    return shorten_line("; ".join(words), MAX_SUMMARY_CHARS)


def find_gate_tasks(session: Session, gate: Gate) -> tuple[Task, ...]:
    """The tasks that `edit` and `split` change."""
    if gate.kind is GateKind.PLAN:
        return session.plan.tasks if session.plan else ()
    if gate.kind is GateKind.OVERLAP:
        return tuple(session.tasks[name].task for name in gate.evidence.get("tasks", ()))
    record = session.tasks.get(gate.subject)
    return (record.task,) if record else ()


def _build_validation(session: Session, gate: Gate) -> DetailsView:
    return DetailsView(
        title="Validation failed",
        aside=(f"by {gate.evidence.get('by', '') or 'the validator'}", gate.subject),
        quote=_quote_end(str(gate.evidence.get("notes", ""))),
        lines=tuple(MarkedLine(BAD, "bad", str(issue)) for issue in gate.evidence.get("issues", ())),
        document=list_document_lines(_find_made(session, gate.subject)),
        history=_list_history(session, gate.subject),
    )


def _find_made(session: Session, task: str) -> Sequence[StageHandOff]:
    """Return what the author of the result says about it."""
    result = session.tasks[task].result if task in session.tasks else None
    return [each for each in list_last_hand_offs(session, task) if result and each.attempt == result.attempt]


def _build_validator(session: Session, gate: Gate) -> DetailsView:
    return DetailsView(
        title="Validator failed",
        aside=(gate.subject,),
        quote=_quote_end(str(gate.evidence.get("reason", ""))),
        history=_list_history(session, gate.subject),
    )


def _build_escalation(session: Session, gate: Gate) -> DetailsView:
    facts = (
        NamedValue("Tried by", ", ".join(map(str, gate.evidence.get("tried", ())))),
        NamedValue("Roles", ", ".join(map(str, gate.evidence.get("roles", ())))),
        NamedValue("Runtimes", ", ".join(map(str, gate.evidence.get("runtimes", ())))),
    )
    return DetailsView(
        title="No retry left",
        aside=(format_count(int(gate.evidence.get("attempts", 0)), "attempt"), gate.subject),
        facts=tuple(fact for fact in facts if fact.text),
        quote=_quote_end(str(gate.evidence.get("reason", ""))),
        history=_list_history(session, gate.subject),
    )


def _quote_end(text: str) -> tuple[str, ...]:
    """Return the last lines: few enough that the question stays on the screen."""
    lines = text.strip().splitlines()
    more = len(lines) - MAX_QUOTED_LINES
    return (*([f"… {more} lines above"] if more > 0 else ()), *lines[-MAX_QUOTED_LINES:])


def _list_history(session: Session, task: str) -> tuple[tuple[str, str, str], ...]:
    record = session.tasks.get(task)
    return tuple(
        (f"attempt {entry.attempt}", entry.result.value.replace("_", " "), entry.notes.strip().partition("\n")[0])
        for entry in (record.history if record else ())
    )


def _build_budget(session: Session, gate: Gate) -> DetailsView:
    facts = (
        NamedValue("Session budget", format_budget(session.limits.session_budget, session.spend)),
        NamedValue("Left to do", f"{len(session.unfinished)} of {len(session.tasks)} tasks"),
    )
    day = (NamedValue("Daily budget", str(gate.evidence.get("budget", ""))),) if gate.subject == DAY else ()
    return DetailsView(title="Budget reached", aside=(session.id,), facts=day + facts)


def _build_rate_limit(session: Session, gate: Gate) -> DetailsView:
    ends, waits = gate.evidence.get("until"), gate.find_option("wait") is not None
    facts = (
        NamedValue("Runtime", gate.subject),
        NamedValue("Reason", str(gate.evidence.get("reason", "")) or "none given"),
        *([NamedValue("Ends", format_until(float(ends)).strip() if ends is not None else "unknown")] if waits else []),
        NamedValue("Meanwhile", f"{format_count(len(session.live), 'agent')} running or waiting; nothing is lost"),
    )
    return DetailsView(title="Model unavailable" if waits else "Account", aside=(gate.subject,), facts=facts)


def _build_stall(session: Session, gate: Gate) -> DetailsView:
    record = session.attempts.get(str(gate.evidence.get("attempt", "")))
    facts = (
        NamedValue("Agent", str(gate.evidence.get("agent", ""))),
        NamedValue("Silent for", format_duration(float(gate.evidence.get("seconds", 0)))),
        NamedValue("Time limit", f"{format_duration(record.attempt.timeout)}: it is ended then" if record else ""),
    )
    history = _list_history(session, gate.subject)
    return DetailsView(title="Silent agent", aside=(gate.subject,), facts=facts, history=history)


def _build_clarification(session: Session, gate: Gate) -> DetailsView:
    question, until = read_question(gate), find_deadline(gate)
    record = session.tasks.get(gate.subject)
    facts = (
        *([NamedValue("Task", record.task.title)] if record else []),
        NamedValue("Its guess", question.guess or "it names none"),
        *([NamedValue("Continues", f"with its guess{format_until(until)}")] if until is not None else []),
    )
    return DetailsView(
        title="Question",
        aside=(str(gate.evidence["agent"]), gate.subject),
        facts=facts,
        quote=tuple(question.text.splitlines()[:MAX_QUOTED_LINES]),
        lines=tuple(MarkedLine(f"{n}", "id", option) for n, option in enumerate(question.options, start=1)),
    )


def _build_curation(_session: Session, gate: Gate) -> DetailsView:
    tones = {"-": "bad", "+": "good"}
    diff = (str(line) for line in gate.evidence.get("diff", ()))
    lines = [
        MarkedLine(line[:1], tones[line[0]], line[1:]) if line[:1] in tones else MarkedLine("", "", line)
        for line in diff
    ]
    refused = [MarkedLine(BAD, "warn", f"refused: {each}") for each in gate.evidence.get("refused", ())]
    return DetailsView(
        title="Knowledge",
        aside=(str(gate.evidence.get("attempt", "")),),
        lines=(*lines, *refused),
    )


def _build_overlap(session: Session, gate: Gate) -> DetailsView:
    names = [name for name in gate.evidence.get("tasks", ()) if name in session.tasks]
    near = "in the same lines" if gate.evidence.get("kind") == "lines" else "in other lines so far"
    return DetailsView(
        title="Two agents in one file",
        aside=(near, gate.subject),
        tasks=tuple(
            (name, session.tasks[name].task.title, when)
            for name, when in zip(names, ("began first", "began later"), strict=False)
        ),
        lines=tuple(MarkedLine(NOTE, "warn", str(path)) for path in gate.evidence.get("paths", ())),
    )


def _build_assignment(session: Session, gate: Gate) -> DetailsView:
    record = session.tasks.get(str(gate.evidence.get("subject", "")))
    facts = (
        NamedValue("Task", f"{gate.evidence.get('subject', '')}{f' {record.task.title}' if record else ''}"),
        NamedValue("Project", str(gate.evidence.get("project", ""))),
        NamedValue("Needs", gate.subject),
        NamedValue("Occupied by", "; ".join(map(str, gate.evidence.get("occupants", ())))),
        NamedValue("Queue", str(gate.evidence.get("queue", ""))),
    )
    return DetailsView(title="No free agent", aside=(gate.subject,), facts=tuple(fact for fact in facts if fact.text))


def _build_list(title: str, session: Session, points: Sequence[object]) -> DetailsView:
    return DetailsView(title=title, aside=(session.id,), points=tuple(str(point) for point in points))


def _build_plain(_session: Session, gate: Gate) -> DetailsView:
    """Build the view of a kind without one of its own: what is asked, and all that is known."""
    facts = (NamedValue(name.replace("_", " ").capitalize(), _join(value)) for name, value in gate.evidence.items())
    title = gate.kind.value.replace("_", " ").capitalize()
    return DetailsView(title=title, aside=(gate.subject,), facts=tuple(facts), points=(gate.title,))


def _join(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _build_resume(session: Session, _gate: Gate) -> DetailsView:
    left = f"{len(session.unfinished)} of {len(session.tasks)} tasks left, cycle {session.cycle}"
    return _build_list("Unfinished session", session, (session.request, left))


BUILDERS: Mapping[GateKind, Callable[[Session, Gate], GateView]] = {
    GateKind.PLAN: build_plan_view,
    GateKind.CHANGESET: lambda session, gate: build_changeset_view(session, gate.subject),
    GateKind.SESSION: lambda session, _gate: build_cycle_view(session),
    GateKind.VALIDATION: _build_validation,
    GateKind.VALIDATOR: _build_validator,
    GateKind.ESCALATION: _build_escalation,
    GateKind.BUDGET: _build_budget,
    GateKind.RATE_LIMIT: _build_rate_limit,
    GateKind.ENVIRONMENT: lambda session, gate: _build_list(
        "Cannot be done", session, gate.evidence.get("problems", ())
    ),
    GateKind.DRIFT: lambda session, gate: _build_list(
        "Configuration changed", session, gate.evidence.get("changes", ())
    ),
    GateKind.STALL: _build_stall,
    GateKind.CLARIFICATION: _build_clarification,
    GateKind.OVERLAP: _build_overlap,
    GateKind.ASSIGNMENT: _build_assignment,
    GateKind.CURATION: _build_curation,
    GateKind.TASKS: lambda session, gate: _build_list("Tasks file", session, gate.evidence.get("problems", ())),
    GateKind.BASE: lambda session, gate: _build_list("Base branch", session, gate.evidence.get("ways", ())),
    GateKind.RESUME: _build_resume,
    GateKind.STALE: lambda session, gate: _build_list("Left behind", session, (gate.title,)),
}
