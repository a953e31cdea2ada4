"""What follows from checks, verdicts and the hook that may veto: a result passes, goes back, or a person is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from blueflame.model.attempt import Duty
from blueflame.model.event import Checked, Event, HookRan, TaskMoved, VerdictGiven
from blueflame.model.limits import Hook
from blueflame.model.task import Cause
from blueflame.model.verdict import Check, Verdict, VerdictStatus
from blueflame.session.cascade import drop_task
from blueflame.session.gates.questions import open_validation_gate
from blueflame.session.retries import MAX_NOTE_CHARS, send_task_back, truncate_text
from blueflame.session.state import Session, is_about_result, is_judged, list_judged
from blueflame.session.user_hooks import has_vetoed


def _handle_checked(session: Session, event: Checked, _now: float) -> Iterator[Event]:
    record = session.tasks[event.task]
    if record.result is None or record.result.sha != event.sha or not is_judged(session, record):
        return
    stage, after = session.find_stage(event.task), session.find_workflow(record.task).find_next(record.stage)
    red = [check for check in event.checks if not check.is_acceptable]
    if red:
        yield VerdictGiven(task=event.task, sha=event.sha, verdict=build_failed_verdict(red), stage=stage.key)
    elif not stage.role and (after is None or after.duty is not Duty.JUDGE):
        verdict = Verdict(status=VerdictStatus.PASS, notes=_describe_passed(event.checks), by="checks")
        yield VerdictGiven(task=event.task, sha=event.sha, verdict=verdict, stage=stage.key)


def _describe_passed(checks: Sequence[Check]) -> str:
    if not checks:
        return "no checks are configured"
    known = [check.name for check in checks if not check.passed]
    passed = len(checks) - len(known)
    fewer = [f"{check.name} ({check.tests_beside_base})" for check in checks if check.ran_fewer_tests]
    return "; ".join(
        (
            f"{passed} {'check' if passed == 1 else 'checks'} passed",
            *([f"red before, same failures: {', '.join(known)}"] if known else []),
            *([f"fewer tests than on the base: {', '.join(fewer)}"] if fewer else []),
        )
    )


def build_failed_verdict(red: list[Check]) -> Verdict:
    """Build the verdict on a result whose checks failed: no reviewer is asked."""
    issues = tuple(
        f"`{check.name}` {'timed out' if check.timed_out else f'exited with {check.exit_code}'}" for check in red
    )
    room = MAX_NOTE_CHARS // len(red) - 2  # each output keeps its end, which sums it up
    outputs = (
        truncate_text(f"{issue}:\n{check.output.strip()}", room) for issue, check in zip(issues, red, strict=True)
    )
    return Verdict(status=VerdictStatus.FAIL, notes="\n\n".join(outputs), issues=issues, by="checks")


def apply_threshold(session: Session, event: VerdictGiven) -> VerdictGiven:
    """Turn an agent's pass below the threshold of the workflow into a fail; a missing number counts as 0."""
    threshold, verdict = session.find_review_threshold(session.tasks[event.task].task), event.verdict
    if threshold is None or not verdict.passed or (verdict.confidence or 0.0) >= threshold:
        return event
    given = "no confidence, which counts as 0" if verdict.confidence is None else f"confidence {verdict.confidence:g}"
    unsure = f"it was passed with {given}; the workflow asks for at least {threshold:g}"
    notes = f"{unsure}. {verdict.notes}".strip()
    failed = replace(verdict, status=VerdictStatus.FAIL, notes=notes, issues=(*verdict.issues, unsure))
    return replace(event, verdict=failed)


def _handle_verdict_given(session: Session, event: VerdictGiven, now: float) -> Iterator[Event]:
    record = session.tasks[event.task]
    if not is_about_result(session, event):
        return
    if event.verdict.passed:
        after = session.find_workflow(record.task).find_next(record.stage)
        if after is None or after.duty is Duty.MERGE:
            yield TaskMoved(task=event.task, cause=Cause.VALIDATE)
        else:
            yield TaskMoved(task=event.task, cause=Cause.HAND_OVER, reason=f"{after.name} is next")
    elif session.limits.on_validation_failed == "requeue":
        yield from send_task_back(session, record, event.verdict.notes, now)
    elif session.limits.on_validation_failed == "drop":
        yield from drop_task(session, event.task, "validation failed")
    else:
        yield open_validation_gate(session, record, event.verdict)


def _handle_hook_ran(session: Session, event: HookRan, _now: float) -> Iterator[Event]:
    due = session.hooks_due.get(event.key)
    if due is None or not has_vetoed(Hook(event.hook), exit_code=event.exit_code, timed_out=event.timed_out):
        return
    words = "timed out" if event.timed_out else f"exited with {event.exit_code}"
    verdict = Verdict(
        status=VerdictStatus.FAIL,
        notes=truncate_text(f"the pre_validation hook {words}: {event.output}"),
        issues=("vetoed by the pre_validation hook",),
        by="pre_validation hook",
    )
    for name in [due.subject] if due.subject else list_judged(session):
        record = session.tasks[name]
        if record.result is not None and record.verdict is None:
            stage = session.find_stage(name).key
            yield VerdictGiven(task=name, sha=record.result.sha, verdict=verdict, stage=stage)


VERDICT_CONSEQUENCES: dict[type, Callable[[Session, Any, float], Iterator[Event]]] = {
    Checked: _handle_checked,
    VerdictGiven: _handle_verdict_given,
    HookRan: _handle_hook_ran,
}
