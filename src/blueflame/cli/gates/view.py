"""What belongs on the screen before a gate is answered, for every kind of gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, columns, facts, stack
from blueflame.cli.gates.prompt import GateContext
from blueflame.cli.render.changeset import show_changeset
from blueflame.cli.render.plan import show_plan
from blueflame.cli.render.session import budget_line, show_continuation
from blueflame.model.changeset import ChangesetRecord, ChangesetState
from blueflame.model.gate import Gate, GateKind
from blueflame.model.task import Task
from blueflame.session.budget import DAY
from blueflame.session.estimate import batches, cost_range
from blueflame.session.gates.answers import proposal
from blueflame.session.state import Session
from blueflame.text.format import duration, until
from blueflame.text.marks import BAD, DOT, NOTE
from blueflame.text.sanitize import clean


def context_of(session: Session, gate: Gate, *, diff: Callable[[], str] | None = None) -> GateContext:
    """The view, the diff and the tasks that go with a gate of a session."""
    return GateContext(
        view=VIEWS[gate.kind](session, gate),
        diff=diff,
        tasks=_tasks_of(session, gate),
        problems_of=lambda tasks: (
            proposal(session, tuple(tasks), "edit", session.plan_round).problems if gate.kind is GateKind.PLAN else ()
        ),
    )


def _tasks_of(session: Session, gate: Gate) -> tuple[Task, ...]:
    if gate.kind is GateKind.PLAN:
        return session.plan.tasks if session.plan else ()
    if gate.kind is GateKind.OVERLAP:
        return tuple(session.tasks[name].task for name in gate.evidence.get("tasks", ()))
    record = session.tasks.get(gate.subject)
    return (record.task,) if record else ()


def _plan(session: Session, gate: Gate) -> RenderableType:
    tasks = session.plan.tasks if session.plan else ()
    wrong = [*gate.evidence.get("problems", ())]
    return show_plan(
        tasks,
        session=session.id,
        request=session.request,
        round=session.plan_round,
        batches=() if wrong else batches(tasks, session.limits.workers),
        cost=cost_range(tasks, session.limits, session.workflow),
        problems=wrong,
        warnings=[*gate.evidence.get("warnings", ())],
    )


def _changeset(session: Session, gate: Gate) -> RenderableType:
    record = session.changesets[gate.subject]
    peers = [r for r in session.changesets.values() if r.changeset.cycle == record.changeset.cycle]
    view = show_changeset(
        record,
        session=session.id,
        place=(peers.index(record) + 1, len(peers)),
        tasks=session.tasks,
        spend=session.spend,
        costs=session.spend_by_subject,
        budget=session.limits.session_budget,
    )
    deferred = [peer for peer in peers if peer.state is ChangesetState.DEFERRED]
    return stack(view, *(_deferred(peer) for peer in deferred))


def _deferred(record: ChangesetRecord) -> RenderableType:
    why = clean(record.note) or "it builds on a rejected changeset"
    return Text.assemble(("  ! NOTE: ", "warn"), f"[{clean(record.changeset.group)}] is deferred: {why}.")


def _continuation(session: Session, _gate: Gate) -> RenderableType:
    hint = "  To change what has not landed, edit .blueflame/tasks.yaml, then continue."
    return stack(show_continuation(session), Text(hint, "quiet"))


def _validation(session: Session, gate: Gate) -> RenderableType:
    by = str(gate.evidence.get("by", "")) or "the validator"
    issues = [str(issue) for issue in gate.evidence.get("issues", ())]
    return stack(
        Heading("Validation failed", f"by {clean(by)}", gate.subject),
        _quoted(str(gate.evidence.get("notes", ""))),
        columns([(Text(BAD, "bad"), clean(issue)) for issue in issues]) if issues else None,
        _earlier(session, gate.subject),
    )


def _validator(session: Session, gate: Gate) -> RenderableType:
    return stack(
        Heading("Validator failed", gate.subject),
        _quoted(str(gate.evidence.get("reason", ""))),
        _earlier(session, gate.subject),
    )


def _quoted(text: str) -> RenderableType | None:
    """The last lines of what somebody said, indented: enough to judge by, and the question stays on the screen."""
    lines = clean(text).strip().splitlines()
    shown = ([f"… {len(lines) - 20} lines above"] if len(lines) > 20 else []) + lines[-20:]
    return columns([(Text("│", "quiet"), line) for line in shown]) if lines else None


def _earlier(session: Session, task: str) -> RenderableType | None:
    record = session.tasks.get(task)
    if record is None or not record.history:
        return None
    rows = [
        (Text(DOT, "quiet"), f"attempt {entry.attempt}", entry.result.value.replace("_", " "), _first(entry.notes))
        for entry in record.history
    ]
    return Group(Text("Earlier attempts", "head"), columns(rows))


def _first(text: str) -> str:
    lines = clean(text).strip().splitlines()
    return lines[0] if lines else ""


def _budget(session: Session, gate: Gate) -> RenderableType:
    about: dict[str, RenderableType] = {
        "Session budget:": budget_line(session.limits.session_budget, session.spend),
        "Left to do:": f"{len(session.unfinished)} of {len(session.tasks)} tasks",
    }
    if gate.subject == DAY:
        about = {"Budget of the day:": clean(str(gate.evidence.get("budget", ""))), **about}
    return Group(Heading("Budget reached", session.id), facts(about))


def _rate_limit(session: Session, gate: Gate) -> RenderableType:
    ends = gate.evidence.get("until")
    about: Mapping[str, RenderableType] = {
        "Runtime:": clean(gate.subject),
        "It says:": clean(str(gate.evidence.get("reason", ""))) or "nothing",
        "Over:": until(float(ends)).strip() if ends is not None else "nobody knows when",
        "Meanwhile:": f"{len(session.live)} agents at work or waiting; nothing is lost",
    }
    return Group(Heading("No model for now", gate.subject), facts(about))


def _listing(title: str, lines: Sequence[str], session: Session) -> RenderableType:
    return Group(Heading(title, session.id), columns([(Text(DOT, "quiet"), clean(line)) for line in lines]))


def _drift(session: Session, gate: Gate) -> RenderableType:
    return _listing("Configuration changed", [str(change) for change in gate.evidence.get("changes", ())], session)


def _stall(session: Session, gate: Gate) -> RenderableType:
    about: Mapping[str, RenderableType] = {
        "Agent:": clean(str(gate.evidence.get("agent", ""))),
        "Silent for:": duration(float(gate.evidence.get("seconds", 0))),
        "Time limit:": _time_limit(session, gate),
    }
    return stack(Group(Heading("Silent agent", gate.subject), facts(about)), _earlier(session, gate.subject))


def _time_limit(session: Session, gate: Gate) -> str:
    record = session.attempts.get(str(gate.evidence.get("attempt", "")))
    return f"{duration(record.attempt.timeout)}: it is ended then in any case" if record else ""


def _overlap(session: Session, gate: Gate) -> RenderableType:
    names = [name for name in gate.evidence.get("tasks", ()) if name in session.tasks]
    rows = [
        (Text(name, "id"), clean(session.tasks[name].task.title), Text(when, "quiet"))
        for name, when in zip(names, ("began first", "began later"), strict=False)
    ]
    paths = [(Text(NOTE, "warn"), clean(str(path))) for path in gate.evidence.get("paths", ())]
    near = "in the same lines" if gate.evidence.get("kind") == "lines" else "in other lines so far"
    return stack(Group(Heading("Two agents in one file", near, gate.subject), columns(rows)), columns(paths))


def _tasks(session: Session, gate: Gate) -> RenderableType:
    return _listing("Tasks file", [str(problem) for problem in gate.evidence.get("problems", ())], session)


def _resume(session: Session, _gate: Gate) -> RenderableType:
    left = f"{len(session.unfinished)} of {len(session.tasks)} tasks left, cycle {session.cycle}"
    return _listing("Unfinished session", [session.request, left], session)


def _stale(session: Session, gate: Gate) -> RenderableType:
    return _listing("Left behind", [gate.title], session)


VIEWS: Mapping[GateKind, Callable[[Session, Gate], RenderableType]] = {
    GateKind.PLAN: _plan,
    GateKind.CHANGESET: _changeset,
    GateKind.SESSION: _continuation,
    GateKind.VALIDATION: _validation,
    GateKind.VALIDATOR: _validator,
    GateKind.BUDGET: _budget,
    GateKind.RATE_LIMIT: _rate_limit,
    GateKind.DRIFT: _drift,
    GateKind.STALL: _stall,
    GateKind.OVERLAP: _overlap,
    GateKind.TASKS: _tasks,
    GateKind.RESUME: _resume,
    GateKind.STALE: _stale,
}
