"""What `show` and `diff` are about: a plan, task, attempt, changeset or gate of a session, found by its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from difflib import unified_diff
from typing import Any, NamedTuple

from blueflame.checks.leftovers import find_leftover_note
from blueflame.documents.plans import format_plan
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import PLAN_SUBJECT, AttemptOutcome, AttemptRecord, Duty, SentMessage
from blueflame.model.errors import Refused, UsageError
from blueflame.model.gate import GateKind
from blueflame.model.suggestions import suggest
from blueflame.model.task import TaskRecord, dump_task
from blueflame.model.verdict import StageVerdict
from blueflame.session.hand_offs import StageHandOff, build_hand_off, list_last_hand_offs
from blueflame.session.next_try import find_rung
from blueflame.session.state import Session
from blueflame.text.fixed_work import name_fixed_work
from blueflame.text.format import format_attempt, format_count, format_duration
from blueflame.text.marks import BAD, DOT, NOTE, OK
from blueflame.text.seats import describe_seat
from blueflame.views.changeset import build_changeset_json, build_changeset_view
from blueflame.views.gates import GateView, build_gate_view
from blueflame.views.hand_offs import build_hand_off_json, list_document_lines
from blueflame.views.parts import DetailsView, MarkedLine, NamedValue, pick
from blueflame.views.plan import (
    PlanView,
    build_plan_json,
    build_plan_view,
    describe_choices,
    list_plan_changes,
    list_planned_tasks,
)
from blueflame.views.session import build_attempt_json, build_gates_json, find_wait_reason

PLAN, TASK, ATTEMPT, CHANGESET, GATE = "plan", "task", "attempt", "changeset", "gate"


class Item(NamedTuple):
    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class CommitRange:
    base: str
    tip: str


def list_items(session: Session) -> dict[str, Item]:
    """All items by every name that they have. An attempt is also known without its session, and by its agent."""
    named = {PLAN: Item(PLAN, PLAN)}
    named |= {task.id: Item(TASK, task.id) for task in list_planned_tasks(session)}
    named |= {name: Item(TASK, name) for name in session.tasks}
    named |= {name: Item(CHANGESET, name) for name in session.changesets}
    for name, record in session.attempts.items():
        short = name.removeprefix(f"{session.id}.")
        named |= dict.fromkeys((name, short, record.attempt.agent_id), Item(ATTEMPT, name))
    return named | {name: Item(GATE, name) for name in session.gates if name != PLAN}


def find_item(session: Session, wanted: str | None) -> Item:
    """Find an item by a name or its unique beginning; without one, what the first open gate asks about."""
    if wanted is None:
        gate = next(iter(session.open_gates.values()), None)
        return Item(PLAN, PLAN) if gate is None or gate.kind is GateKind.PLAN else Item(GATE, gate.id)
    named = list_items(session)
    found = {named[wanted]} if wanted in named else {item for name, item in named.items() if name.startswith(wanted)}
    if len(found) == 1:
        return found.pop()
    if found:
        names = sorted(each.id.removeprefix(f"{session.id}.") for each in found)
        raise UsageError(f"{wanted!r} is the beginning of several names: {', '.join(names[:8])}")
    near = suggest(wanted, named) or "'blueflame status' lists them"
    raise UsageError(f"{session.id} has no plan, task, attempt, changeset or gate called {wanted!r}: {near}")


def find_attempt(session: Session, wanted: str) -> AttemptRecord:
    """Find the attempt of that name; for a task, the newest one that makes it; for the plan, the newest planner."""
    item = find_item(session, wanted)
    makers = {PLAN: PLAN_SUBJECT, TASK: item.id}
    records = [
        each
        for each in session.attempts.values()
        if (item.kind == ATTEMPT and each.attempt.id == item.id)
        or (each.attempt.subject == makers.get(item.kind) and each.attempt.duty in (Duty.PLAN, Duty.MAKE))
    ]
    if not records:
        raise Refused(f"no agent has worked on {wanted!r}: name an agent or a task of 'blueflame status'")
    return records[-1]


def _describe_lessons(record: AttemptRecord) -> str:
    given = [each for each in record.lessons or () if each.left_out is None]
    return f"{len(given)} of earlier sessions, see 'blueflame memory why {record.attempt.agent_id}'" if given else ""


def find_item_diff(session: Session, item: Item) -> CommitRange | str:
    """Return the commits between which the item's diff is, or the diff of a plan. Refused when it has none."""
    match item.kind:
        case "plan":
            return _diff_plans(session)
        case "changeset":
            return _find_changeset_range(session, item.id)
        case "task":
            return _find_task_range(session, item.id)
        case "attempt":
            return _find_attempt_range(session, session.attempts[item.id])
    gate = session.gates[item.id]
    if gate.kind is GateKind.PLAN:
        return _diff_plans(session)
    if gate.kind is GateKind.CHANGESET:
        return _find_changeset_range(session, gate.subject)
    return _find_task_range(session, gate.subject)


def _diff_plans(session: Session) -> str:
    now = list_planned_tasks(session)
    if not any(list_plan_changes(session.plan_before, now)) or not session.plan_before:
        raise Refused("the plan has no diff: it was not changed since it was first proposed; 'blueflame show plan'")
    old, new = (format_plan(tasks).splitlines() for tasks in (session.plan_before, now))
    return "\n".join(unified_diff(old, new, "plan before", "plan", lineterm="")) + "\n"


def _find_changeset_range(session: Session, name: str) -> CommitRange:
    build = session.changesets[name].build
    if build is None:
        raise Refused(f"{name} has no diff yet: it is not built; 'blueflame show {name}' says why")
    return CommitRange(build.base, build.commit)


def _find_task_range(session: Session, name: str) -> CommitRange:
    record = session.tasks.get(name)
    if record is not None and record.result is not None:
        return CommitRange(record.result.base, record.result.sha)
    begun = (each for each in session.attempts.values() if each.attempt.subject == name)
    attempts = [each for each in begun if each.ended is not None and _find_tip(each.ended) is not None]
    if not attempts:
        raise Refused(f"{name} has no diff: there is no work on it yet; 'blueflame show {name}' has its state")
    return _find_attempt_range(session, attempts[-1])


def _find_tip(ended: AttemptOutcome) -> str | None:
    """The newest commit with its work: what it had not committed is kept on top of what it had."""
    return ended.unfinished or ended.tip


def _find_attempt_range(session: Session, record: AttemptRecord) -> CommitRange:
    attempt, ended = record.attempt, record.ended
    if ended is None:
        place = f"; its files are in {record.worktree}" if record.worktree else ""
        raise Refused(f"{attempt.agent_id} has no diff yet: it is still working{place}")
    base = ended.base or record.base
    tip = _find_tip(ended)
    if tip and base:
        return CommitRange(base, tip)
    if attempt.branch is None and attempt.subject in session.tasks:
        return _find_task_range(session, attempt.subject)  # what a validator reviewed
    raise Refused(f"{attempt.agent_id} has no diff: it left nothing; 'blueflame show {attempt.agent_id}'")


def build_item_view(session: Session, item: Item, *, now: float | None = None) -> GateView:
    """`now`: by which a countdown is shown; left out, the time of the last event."""
    match item.kind:
        case "plan":
            return _build_plan_view(session)
        case "changeset":
            return build_changeset_view(session, item.id)
        case "task":
            return _build_task_details(session, _find_task(session, item.id), session.last_at if now is None else now)
        case "attempt":
            return _build_attempt_details(session, session.attempts[item.id])
    return build_gate_view(session, session.gates[item.id])


def _build_plan_view(session: Session) -> PlanView:
    return build_plan_view(
        session, next((gate for gate in session.open_gates.values() if gate.kind is GateKind.PLAN), None)
    )


def _find_task(session: Session, name: str) -> TaskRecord:
    planned = (TaskRecord(task=task) for task in list_planned_tasks(session) if task.id == name)
    return session.tasks.get(name) or next(planned)


def _build_task_details(session: Session, record: TaskRecord, now: float) -> DetailsView:
    task, result = record.task, record.result
    spend, budget = session.spend_by_subject.get(task.id), session.limits.session_budget
    waits = find_wait_reason(session, task.id, now) if task.id in session.tasks else ""
    facts = (
        NamedValue("Group", task.cohesion_group),
        NamedValue("Fixes", name_fixed_work(session.fixes[task.id].work) if task.id in session.fixes else ""),
        NamedValue("After", ", ".join(task.dependencies) or "nothing"),
        NamedValue("Locks", ", ".join(task.file_locks) or "the whole repository"),
        NamedValue("Workflow", session.find_workflow(task).name),
        NamedValue("Chosen by the plan", describe_choices(task)),
        NamedValue("Reason", record.reason or waits),
        NamedValue("Next", waits if task.id in session.waiting else ""),
        NamedValue("Result", f"{result.sha[:12]}, by {format_attempt(result.attempt)}" if result else ""),
        NamedValue("Changeset", session.changeset_of.get(task.id, "")),
        NamedValue("Cost", budget.format_amount(budget.measure(spend)) if spend else ""),
        *(NamedValue(f"Verdict of {each.name}", f"{each.summary} (on {each.sha[:12]})") for each in record.verdicts),
    )
    return DetailsView(
        title=f"{task.id}: {task.title}",
        aside=(record.state.value if task.id in session.tasks else "proposed", f"priority {task.priority}"),
        facts=tuple(fact for fact in facts if fact.text),
        quote=tuple(task.description.strip().splitlines()),
        lines=tuple(_list_checks(session, task.id)),
        document=list_document_lines(list_last_hand_offs(session, task.id)),
        history=tuple(
            (f"attempt {entry.attempt}", entry.result.value.replace("_", " "), entry.rejection_reason or entry.notes)
            for entry in record.history
        ),
    )


def _list_checks(session: Session, task: str) -> Iterator[MarkedLine]:
    for check in session.checks.get(task, ()):
        mark, tone = (OK, "good") if check.passed else (NOTE, "warn") if check.red_before else (BAD, "bad")
        if check.passed and check.ran_fewer_tests:
            mark, tone = NOTE, "warn"
        words = ", ".join(
            filter(None, (f"{check.name}: {check.state}", check.tests_beside_base, format_duration(check.seconds)))
        )
        yield MarkedLine(mark, tone, words if check.passed else f"{words}\n{check.output.strip()}")


def _build_attempt_details(session: Session, record: AttemptRecord) -> DetailsView:
    attempt, ended, left = record.attempt, record.ended, build_hand_off(session, record)
    facts = [
        NamedValue("Attempt", attempt.id),
        NamedValue("Runtime", " ".join(part for part in (attempt.runtime, attempt.model) if part)),
        NamedValue("Level", attempt.unguarded),
        NamedValue("Seat", describe_seat(attempt)),
        NamedValue("Ladder", f"rung {attempt.rung}" if attempt.rung else ""),
        NamedValue("Built on", ", ".join(f"{below.task} at {below.sha[:12]}" for below in attempt.built_on)),
        NamedValue("Lessons", _describe_lessons(record)),
        NamedValue("Base", (record.base or "")[:12]),
        NamedValue("Checkout", record.worktree if ended is None and record.worktree else ""),
    ]
    if ended is not None:
        code = f", exit code {ended.exit_code}" if ended.exit_code else ""
        commits = f"{ended.tip[:12]}, {format_count(ended.commits, 'commit')}" if ended.tip else ""
        facts += [
            NamedValue("Ended", f"{record.ending_words}{code}, after {format_duration(ended.seconds)}"),
            NamedValue("Waited", format_duration(ended.waited) if ended.waited >= 1 else ""),
            NamedValue("Result", commits),
            NamedValue(
                "Uncommitted", f"kept as {ended.unfinished[:12]} for the next attempt" if ended.unfinished else ""
            ),
            NamedValue("Cost", attempt.budget.format_amount(attempt.budget.measure(ended.spend))),
        ]
    facts.append(NamedValue("Prompt and output", f".blueflame/attempts/{attempt.id}/"))
    return DetailsView(
        title=f"{attempt.agent_id}: {attempt.role} of {attempt.subject}",
        aside=(record.ending_words,),
        facts=tuple(fact for fact in facts if fact.text),
        quote=tuple(_list_words(record)),
        lines=(
            *(MarkedLine(BAD, "bad", str(violation)) for violation in (ended.violations if ended else ())),
            *(_describe_message(record, message) for message in record.messages),
        ),
        document=list_document_lines([left]) if left else (),
    )


def _describe_message(record: AttemptRecord, message: SentMessage) -> MarkedLine:
    if message.delivered_at is not None:
        return MarkedLine(OK, "good", f"{message.by} said: {message.text}")
    state = "not delivered, it waits for the next tool call" if record.live else "not delivered, the agent ended first"
    return MarkedLine(DOT if record.live else BAD, "warn", f"{message.by} said: {message.text} ({state})")


def _list_words(record: AttemptRecord) -> Iterator[str]:
    """What is known in words: the notes on its end, and those of its verdict."""
    ended = record.ended
    if ended is None:
        return
    if ended.remark:
        yield f"It {ended.remark}."
    if ended.hand_off is not None and ended.passed:  # which has its words
        yield from filter(None, (find_leftover_note(ended.notes),))
        return
    yield from ended.notes.strip().splitlines()
    output = ended.output or {}
    yield from str(output.get("notes", "")).strip().splitlines()
    yield from (f"- {issue}" for issue in output.get("issues") or ())


def build_item_json(session: Session, item: Item, *, now: float) -> dict[str, Any]:
    head = {"session": session.id, "kind": item.kind, "id": item.id}
    match item.kind:
        case "plan":
            return head | {"plan": build_plan_json(_build_plan_view(session))}
        case "changeset":
            record = session.changesets[item.id]
            return head | {"changeset": build_changeset_json(record), **build_hand_offs_json(session, item)}
        case "task":
            task = _build_task_json(session, _find_task(session, item.id))
            return head | {"task": task, **build_hand_offs_json(session, item)}
        case "attempt":
            attempt = _build_attempt_json(session.attempts[item.id], now)
            return head | {"attempt": attempt, **build_hand_offs_json(session, item)}
    answer = session.answers.get(item.id)
    given = {"choice": answer.choice, "note": answer.note, "by": answer.by} if answer else None
    return head | {"gate": build_gates_json([session.gates[item.id]])[0] | {"answer": given}}


def build_verdict_json(given: StageVerdict) -> dict[str, Any]:
    verdict = given.verdict
    return {
        "stage": given.stage,
        "commit": given.sha,
        **pick(verdict, "status by notes issues confidence"),
    }


def find_hand_offs(session: Session, item: Item) -> tuple[StageHandOff, ...]:
    """Find what the agents of an item left: all of an attempt, else the last word of each stage of its tasks."""
    subject = session.gates[item.id].subject if item.kind == GATE else item.id
    if item.kind == ATTEMPT:
        return tuple(filter(None, (build_hand_off(session, session.attempts[item.id]),)))
    record = session.changesets.get(subject)
    return list_last_hand_offs(session, *(record.changeset.tasks if record else (subject,)))


def build_hand_offs_json(session: Session, item: Item) -> dict[str, Any]:
    return {"hand_offs": [build_hand_off_json(each) for each in find_hand_offs(session, item)]}


def _build_task_json(session: Session, record: TaskRecord) -> dict[str, Any]:
    result = record.result
    return dump_task(record.task) | {
        "state": record.state.value,
        "retries": record.retries,
        "rung": find_rung(session.limits, record),
        "retry_at": session.waiting.get(record.task.id),
        "reason": record.reason,
        "fixes": asdict(session.fixes[record.task.id].work) if record.task.id in session.fixes else None,
        "base": result.base if result else None,
        "commit": result.sha if result else None,
        "verdict": {"status": record.verdict, "notes": record.verdict_notes if record.verdict else ""},
        "verdicts": [build_verdict_json(each) for each in record.verdicts],
        "checks": [
            pick(each, "name passed exit_code tests tests_before output")
            for each in session.checks.get(record.task.id, ())
        ],
        "history": [
            {"attempt": each.attempt, "result": each.result.value, "notes": each.rejection_reason or each.notes}
            for each in record.history
        ],
    }


def _build_attempt_json(record: AttemptRecord, now: float) -> dict[str, Any]:
    ended = record.ended
    return build_attempt_json(record, now, {}) | {
        "base": record.base,
        "commit": ended.tip if ended else None,
        "worktree": record.worktree,
        "notes": ended.notes if ended else "",
        "violations": [str(violation) for violation in (ended.violations if ended else ())],
        "defied": list(ended.defied) if ended else [],
        "put_back": list(ended.put_back) if ended else [],
        "output": ended.output if ended else None,
        "messages": [pick(each, "text by at delivered_at") for each in record.messages],
    }
