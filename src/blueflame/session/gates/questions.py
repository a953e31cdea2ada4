"""The gates of a session: what is asked, with which options, and whether an answer is accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from blueflame.model.attempt import CURATION_SUBJECT, Attempt, Duty
from blueflame.model.changeset import ChangesetRecord
from blueflame.model.event import (
    BaseLost,
    ConfigDrifted,
    CurationProposed,
    EditRefused,
    EnvironmentFailed,
    Event,
    GateOpened,
    OverlapSeen,
    RuntimeParked,
)
from blueflame.model.gate import FORMS, Answer, Gate, GateKind, build_gate_id
from blueflame.model.limits import Capacity, SlotWait
from blueflame.model.memory import KnowledgeEdit
from blueflame.model.question import Question
from blueflame.model.spend import NO_SPEND, Unit, to_micro_usd
from blueflame.model.task import TaskRecord, TaskState
from blueflame.model.verdict import Verdict
from blueflame.session.budget import (
    DAY,
    describe_task_budget,
    find_day_budget,
    format_budget_use,
    format_session_budget,
)
from blueflame.session.cascade import block_dependants
from blueflame.session.changesets.remarks import list_remarks
from blueflame.session.clarifications import MAX_ANSWER_CHARS, list_assumptions
from blueflame.session.environment import describe_problem, join_problems
from blueflame.session.gates.assignments import find_assignment_problem, list_known_runtimes
from blueflame.session.gates.edits import EDIT_CHOICES, find_edit_problems, parse_edit_payload
from blueflame.session.overlaps import describe_overlap, order_by_start
from blueflame.session.plan_problems import find_new_plan_problems
from blueflame.session.rate_limits import ACCOUNT_KINDS, describe_parked
from blueflame.session.retries import list_spent, truncate_text
from blueflame.session.state import Session

MAX_TITLE_CHARS = 200  # of a question; the evidence has all of it


def _open_gate(
    session: Session,
    kind: GateKind,
    subject: str,
    title: str,
    *,
    without: Collection[str] = (),
    group: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> GateOpened:
    """Build a gate; one about a task gets the task's group."""
    times, form = session.gate_counts.get((kind, subject), 0) + 1, FORMS[kind]
    if subject in session.tasks:
        group = session.tasks[subject].task.cohesion_group
    return GateOpened(
        gate=Gate(
            id=build_gate_id(kind, subject, times),
            kind=kind,
            subject=subject,
            title=title,
            options=tuple(option for option in form.options if option.name not in without),
            default=form.safe if form.safe not in without else "stop",
            group=group,
            evidence=evidence or {},
        )
    )


def open_plan_gate(session: Session) -> GateOpened:
    plan = session.plan
    wrong = plan.problems if plan else session.plan_failures
    without = {"approve"} if wrong or plan is None else set()
    title = (
        f"Approve the plan of {_count_tasks(len(plan.tasks))}?" if plan and not wrong else "The plan cannot be used."
    )
    if session.one_agent is None or session.tasks:
        without.add("single")
    if len(session.replan_notes) >= session.limits.max_replans:
        without.add("replan")
        title += f" The planner was asked {session.limits.max_replans} times: write the plan by hand (edit) or quit."
    evidence = {
        "round": session.plan_round,
        "problems": list(wrong),
        "warnings": list(plan.warnings) if plan else [],
        "tasks": len(plan.tasks) if plan else 0,
    }
    return _open_gate(session, GateKind.PLAN, GateKind.PLAN.value, title, without=without, evidence=evidence)


def open_curation_gate(session: Session, found: CurationProposed) -> GateOpened:
    evidence = {
        "attempt": found.attempt,
        "diff": [line for edit in found.edits for line in _list_edit_lines(edit)],
        "refused": list(found.refused),
    }
    return _open_gate(
        session,
        GateKind.CURATION,
        CURATION_SUBJECT,
        f"Change the knowledge files? {describe_curation(found)}",
        evidence=evidence,
    )


def _list_edit_lines(edit: KnowledgeEdit) -> Iterator[str]:
    """As in a diff: what was, what will be, and why."""
    yield f"@@ {edit.file}: {edit.why}"
    yield from (f"-{words}" for words in edit.old)
    if edit.text:
        yield f"+{edit.text}"


def describe_curation(found: CurationProposed) -> str:
    """`4 entries replaced by 2, 1 dropped`; where nothing is left of it, why."""
    replaced = [edit for edit in found.edits if edit.text]
    dropped = sum(len(edit.keys) for edit in found.edits if not edit.text)
    parts = [f"{sum(len(edit.keys) for edit in replaced)} entries replaced by {len(replaced)}"] if replaced else []
    parts += [f"{dropped} dropped"] if dropped else []
    if not parts:
        return "; ".join([found.problem or "nothing to change", *(f"refused: {each}" for each in found.refused)])
    return ", ".join(parts) + (f" ({len(found.refused)} refused)" if found.refused else "")


def _count_tasks(n: int) -> str:
    return f"{n} task" if n == 1 else f"{n} tasks"


def open_changeset_gate(session: Session, record: ChangesetRecord) -> GateOpened:
    changeset, build = record.changeset, record.build
    assert build is not None, f"{changeset.id} is presented before it is built"
    evidence = {
        "tasks": list(changeset.tasks),
        "files": len(build.files),
        "added": build.added,
        "deleted": build.deleted,
        "commit": build.commit,
        "base": build.base,
        "missing": list(changeset.missing),
        **_collect_review_evidence(session, record),
        "flaky": list(build.flaky),
        "resolved": [f"{', '.join(each.paths)} by {each.by}: {each.notes}" for each in record.resolutions],
    }
    title = f"[{changeset.group}] {changeset.title}"
    return _open_gate(session, GateKind.CHANGESET, changeset.id, title, group=changeset.group, evidence=evidence)


def _collect_review_evidence(session: Session, record: ChangesetRecord) -> dict[str, Any]:
    """Collect what a reviewer needs who sees only the gate."""
    build, tasks = record.build, record.changeset.tasks
    assert build is not None, f"{record.changeset.id} is presented before it is built"
    spent = sum((session.spend_by_subject.get(name, NO_SPEND) for name in tasks), NO_SPEND)
    records = [session.tasks[name] for name in tasks if name in session.tasks]
    return {
        "why": {record.task.id: truncate_text(record.task.description) for record in records},
        "review": {record.task.id: truncate_text(record.verdict_notes) for record in records if record.verdict_notes},
        "verdicts": {
            record.task.id: [f"{each.name}: {each.summary}" for each in record.standing_verdicts] for record in records
        },
        "checks": [
            {
                "name": check.name,
                "passed": check.passed,
                "seconds": check.seconds,
                "flaky": check.flaky,
                "red_before": check.red_before,
                "tests": check.tests,
                "tests_before": check.tests_before,
            }
            for check in build.checks
        ],
        "cost_usd": spent.usd,
        "tokens": spent.tokens,
        "risks": [str(risk) for risk in build.risks],
        "weakened": [str(each) for each in build.weakened],
        "losses": [str(loss) for loss in build.losses],
        "assumptions": [f"{name} {assumed}" for name in tasks for assumed in list_assumptions(session, name)],
        "remarks": [f"{name} {remark}" for name in tasks for remark in list_remarks(session, name)],
    }


def open_session_gate(session: Session, cycle: int) -> GateOpened:
    counts = {state.value: session.count_in_state(state) for state in TaskState if session.count_in_state(state)}
    left = len(session.unfinished)
    spent = list_spent(session) if session.limits.on_exhausted != "ask" else ()  # else the next gates are about them
    why = f" (no attempt is left by limits.max_attempts, and 'blueflame retry' grants one: {', '.join(spent)})"
    title = f"Cycle {cycle} is over, {_count_tasks(left)} left{why if spent else ''}. Continue?"
    evidence = {"counts": counts, "unfinished": list(session.unfinished), "budget": format_session_budget(session)}
    without = set() if session.workflow.is_planned else {"replan"}
    return _open_gate(session, GateKind.SESSION, f"cycle-{cycle}", title, without=without, evidence=evidence)


def open_validation_gate(session: Session, record: TaskRecord, verdict: Verdict) -> GateOpened:
    evidence = {"notes": verdict.notes, "issues": list(verdict.issues), "by": verdict.by}
    title = f"{record.task.id} ({record.task.title}) did not pass validation."
    return _open_gate(session, GateKind.VALIDATION, record.task.id, title, evidence=evidence)


def open_validator_gate(session: Session, record: TaskRecord, reason: str) -> GateOpened:
    title = f"The validator of {record.task.id} ({record.task.title}) failed {record.validator_failures + 1} times."
    return _open_gate(session, GateKind.VALIDATOR, record.task.id, title, evidence={"reason": reason})


def open_unpaid_review_gate(session: Session, record: TaskRecord) -> GateOpened:
    """Ask a person to review: the task's budget has nothing left for a validator."""
    reason = describe_task_budget(session, record.task.id)
    title = f"{record.task.id} ({record.task.title}) cannot be reviewed: {reason}."
    return _open_gate(session, GateKind.VALIDATOR, record.task.id, title, evidence={"reason": reason})


def open_escalation_gate(session: Session, record: TaskRecord, reason: str) -> GateOpened:
    """Ask who tries a task once more: nothing is left that may be tried without asking."""
    limits = session.limits
    evidence = {
        "reason": truncate_text(reason),
        "attempts": record.attempts,
        "roles": list(limits.makers),
        "runtimes": list(list_known_runtimes(limits)),
        "tried": list(dict.fromkeys(_list_who_tried(session, record.task.id))),
    }
    title = f"{record.task.id} ({record.task.title}) failed, and no attempt is left. Who tries it again?"
    return _open_gate(session, GateKind.ESCALATION, record.task.id, title, evidence=evidence)


def ask_or_give_up(session: Session, record: TaskRecord, reason: str) -> Iterator[Event]:
    """Ask who tries a failed task again, which nothing may do without asking; or block what depends on it."""
    if session.limits.on_exhausted == "ask":
        yield open_escalation_gate(session, record, reason)
    else:
        yield from block_dependants(session, record.task.id, f"dependency {record.task.id} failed")


def _list_who_tried(session: Session, task: str) -> Iterator[str]:
    for each in session.attempts.values():
        if each.attempt.subject == task and each.attempt.duty is Duty.MAKE:
            yield " ".join(word for word in (each.attempt.role, each.attempt.runtime, each.attempt.model) if word)


def open_budget_gate(session: Session) -> GateOpened:
    title = f"The session's budget is used up: {format_session_budget(session)}."
    evidence = {"budget": format_session_budget(session), "unit": session.limits.session_budget.unit.value}
    return _open_gate(session, GateKind.BUDGET, GateKind.BUDGET.value, title, evidence=evidence)


def open_day_budget_gate(session: Session, capacity: Capacity) -> GateOpened:
    """Ask to raise the day's budget, which all sessions share; it is raised for this day and this session."""
    budget = find_day_budget(session, capacity)
    used = format_budget_use(budget, capacity.day_spend)
    title = f"The budget of this day is used up: {used} by all sessions since midnight."
    evidence = {
        "budget": used,
        "unit": budget.unit.value,
        "day": capacity.day,
        "used": budget.measure(capacity.day_spend),
        "limit": budget.limit,
    }
    return _open_gate(session, GateKind.BUDGET, DAY, title, evidence=evidence)


def open_rate_limit_gate(session: Session, parked: RuntimeParked) -> GateOpened:
    evidence = {
        "kind": parked.kind,
        "reason": parked.reason,
        "until": parked.until,
        "agents": parked.agents,
        "outages": parked.outages,
    }
    without = {"wait"} if parked.kind in ACCOUNT_KINDS else set()  # an open gate waits
    title = f"{describe_parked(parked)}. {parked.reason}".rstrip()
    return _open_gate(session, GateKind.RATE_LIMIT, parked.runtime, title, without=without, evidence=evidence)


def open_environment_gate(session: Session, problem: EnvironmentFailed) -> GateOpened:
    others = [each for act, each in session.problems.items() if act != problem.act]
    evidence = {
        "problems": [f"{describe_problem(each)}: {each.reason}" for each in join_problems((problem, *others))],
        "cause": problem.cause,
        "reason": problem.reason,
    }
    title = f"{describe_problem(problem)}. {problem.reason.strip().splitlines()[0] if problem.reason.strip() else ''}"
    kind = GateKind.ENVIRONMENT
    return _open_gate(session, kind, kind.value, title.strip(), evidence=evidence)


def open_drift_gate(session: Session, drift: ConfigDrifted) -> GateOpened:
    unusable = drift.limits == session.limits and not drift.digest
    title = "The configuration changed since the session began."
    if unusable:
        title = f"The configuration on disk can no longer be used: {drift.changes[0][:MAX_TITLE_CHARS]}"
    without = {"use"} if unusable else set()
    evidence = {"changes": list(drift.changes)}
    return _open_gate(session, GateKind.DRIFT, GateKind.DRIFT.value, title, without=without, evidence=evidence)


def is_unusable_config(gate: Gate) -> bool:
    """Whether it asks about a configuration that cannot be adopted."""
    return gate.kind is GateKind.DRIFT and all(option.name != "use" for option in gate.options)


def open_stall_gate(session: Session, attempt: Attempt, seconds: float) -> GateOpened:
    title = f"{attempt.agent_id} ({attempt.role} of {attempt.subject}) has had no output for {seconds:.0f} s."
    evidence = {"attempt": attempt.id, "agent": attempt.agent_id, "seconds": seconds}
    return _open_gate(session, GateKind.STALL, attempt.subject, title, evidence=evidence)


def open_clarification_gate(session: Session, attempt: Attempt, question: Question, now: float) -> GateOpened:
    limits, subject = session.limits, attempt.subject
    first = " ".join(question.text.split())
    title = f"{attempt.agent_id} ({attempt.role} of {subject}) asks: {first[:MAX_TITLE_CHARS]}"
    evidence = {
        "attempt": attempt.id,
        "agent": attempt.agent_id,
        "question": question.text,
        "guess": question.guess,
        "options": list(question.options),
        "until": now + limits.question_wait if limits.question_wait else None,
    }
    return _open_gate(session, GateKind.CLARIFICATION, subject, title, evidence=evidence)


def open_overlap_gate(session: Session, event: OverlapSeen) -> GateOpened:
    """Ask about an overlap; its subject is the task that started later."""
    attempts = order_by_start(session, event.attempts)
    tasks = [session.attempts[name].attempt.subject for name in attempts]
    evidence = {"tasks": tasks, "attempts": list(attempts), "paths": list(event.paths), "kind": event.kind}
    return _open_gate(session, GateKind.OVERLAP, tasks[-1], f"{describe_overlap(event)}.", evidence=evidence)


def open_assignment_gate(session: Session, role: str, wait: SlotWait) -> GateOpened:
    """Ask whether to wait for an agent of a role; its subject is the role, so one question is open about each."""
    record = session.tasks.get(wait.subject)
    title = f"{wait.subject}{f' ({record.task.title})' if record else ''} waits for a {role} agent: {wait.queue}."
    evidence = {
        "subject": wait.subject,
        "project": wait.project,
        "role": role,
        "occupants": list(wait.occupants),
        "ahead": wait.ahead,
        "seconds": wait.seconds,
        "queue": wait.queue,
    }
    return _open_gate(session, GateKind.ASSIGNMENT, role, title, evidence=evidence)


def open_tasks_gate(session: Session, event: EditRefused) -> GateOpened:
    title = "The changed tasks file cannot be used; nothing was taken from it."
    evidence = {"problems": list(event.problems), "digest": event.digest}
    return _open_gate(session, GateKind.TASKS, GateKind.TASKS.value, title, evidence=evidence)


def open_base_gate(session: Session, event: BaseLost) -> GateOpened:
    title = f"The base branch {event.branch} no longer exists; the session has built on {event.expected[:12]}."
    if event.found:
        title = (
            f"The base branch {event.branch} was replaced: {event.found[:12]} does not contain {event.expected[:12]}, "
            "which the session has built on."
        )
    if event.without:
        title += f" What had landed is not in it: {', '.join(event.without)}."
    expected = event.expected[:12]
    back = f"git switch {event.branch} && git reset --keep {expected}"  # git moves no branch that is checked out
    ways = [
        f"put it back: {back if event.found else f'git branch {event.branch} {expected}'}",
        "a renamed one: git branch -m NEW-NAME " + event.branch,
    ]
    evidence = {"branch": event.branch, "expected": event.expected, "found": event.found, "ways": ways}
    evidence |= {"without": list(event.without), "gone": list(event.gone)}
    without = set() if event.related else {"use"}
    return _open_gate(session, GateKind.BASE, event.branch, title, without=without, evidence=evidence)


def build_resume_gate(session: Session) -> Gate:
    """Build the question about an unfinished session; it is asked before a new one begins, and not journalled."""
    lines = session.request.strip().splitlines() or ["the request"]
    title = f"{session.id} is unfinished: {lines[0][:80]}"
    return _open_gate(session, GateKind.RESUME, session.id, title).gate


def build_stale_gate(title: str) -> Gate:
    """Build the question about stale checkouts; it is asked before a session begins, and not journalled."""
    kind, form = GateKind.STALE, FORMS[GateKind.STALE]
    return Gate(id=kind.value, kind=kind, subject=kind.value, title=title, options=form.options, default=form.safe)


def answer_error(session: Session, gate_id: str, answer: Answer) -> str:
    """Say why an answer is not accepted; empty when it is. The first valid answer counts."""
    gate = session.open_gates.get(gate_id)
    if gate is None:
        return _explain_closed_gate(session, gate_id)
    option = gate.find_option(answer.choice)
    if option is None:
        offered = ", ".join(option.name for option in gate.options)
        return f"gate {gate.id} does not offer {answer.choice!r}; choose one of: {offered}"
    if option.needs_note and not answer.note.strip() and not answer.payload:
        return f"{answer.choice} at gate {gate.id} needs a note that says why"
    if gate.kind is GateKind.BUDGET and answer.choice == "raise":
        return _find_raise_error(session, gate, answer)
    if gate.kind is GateKind.ESCALATION and answer.choice == "reassign":
        return find_assignment_problem(session.limits, answer)
    if gate.kind is GateKind.CLARIFICATION and len(answer.note) > MAX_ANSWER_CHARS:
        return f"the answer has {len(answer.note):,} characters, the limit is {MAX_ANSWER_CHARS:,}: shorten it"
    if answer.choice in EDIT_CHOICES:
        return _find_edit_error(session, gate, answer)
    return ""


def _find_edit_error(session: Session, gate: Gate, answer: Answer) -> str:
    if not answer.payload.get("tasks"):
        return f"{answer.choice} at gate {gate.id} needs the edited tasks; use a terminal, or give a file with --file"
    try:
        tasks = parse_edit_payload(answer.payload)
    except (TypeError, ValueError, AttributeError) as error:
        return f"the edited tasks at gate {gate.id} cannot be read: {error}"
    wrong = find_edit_problems(gate, tasks)
    if not wrong and gate.kind is not GateKind.PLAN:  # an edited plan is checked when it is proposed
        plan = {name: record.task for name, record in session.tasks.items()}
        edited = {**plan, **{task.id: task for task in tasks}}
        wrong = find_new_plan_problems(plan.values(), edited.values(), session.limits)
    return "; ".join(wrong)


def _explain_closed_gate(session: Session, gate_id: str) -> str:
    if gate_id in session.answers:
        answer = session.answers[gate_id]
        return f"gate {gate_id} was already answered: {answer.choice} (by {answer.by})"
    if gate_id in session.withdrawn:
        return f"gate {gate_id} needs no answer any more: {session.withdrawn[gate_id]}"
    about = [gate.id for gate in session.open_gates.values() if gate.subject == gate_id]
    if about:
        return f"there is no open gate {gate_id}: the one about it is {', '.join(about)}"
    waiting = ", ".join(session.open_gates) or "none"
    return f"there is no open gate {gate_id}; open gates: {waiting}"


def parse_raised_limit(gate: Gate, answer: Answer) -> int | None:
    """Parse the new limit in an answer, in the unit of the budget; 0 is no limit, None when it is not a number."""
    text = str(answer.payload.get("limit", answer.note)).strip().lstrip("$").replace(",", "").replace("_", "")
    try:
        number = float(text)
    except ValueError:
        return None
    if not 0 <= number < float("inf"):
        return None
    limit = to_micro_usd(number) if gate.evidence.get("unit") == Unit.USD else round(number)
    return limit if limit or not number else None  # a tiny number must not round to 0, which is no limit


def _find_raise_error(session: Session, gate: Gate, answer: Answer) -> str:
    of_day = gate.subject == DAY
    budget = session.limits.day_budget if of_day else session.limits.session_budget
    used = int(gate.evidence["used"]) if of_day else budget.measure(session.spend)
    limit = parse_raised_limit(gate, answer)
    unit = "dollars" if budget.unit is Unit.USD else "tokens"
    if limit is None:
        return f"raise needs the new limit as a number of {unit}, for instance --note 25 (0 = no limit)"
    if limit and limit <= used:
        return f"{budget.format_amount(limit)} is not above what is already used: {gate.evidence.get('budget', '')}"
    return ""
