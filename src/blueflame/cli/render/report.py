"""The report in short, as a person reads it at the terminal, and as a machine does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.cli.render.changeset import build_changeset_json, render_outcome
from blueflame.cli.render.session import format_budget
from blueflame.model.task import TaskState
from blueflame.report.build import AttemptRow, GateDecision, Report
from blueflame.report.evidence import AuditSummary, Evidence
from blueflame.session.accounts import CostTotal
from blueflame.text.format import format_attempt, format_clock, format_count, format_dollars, format_duration
from blueflame.text.marks import BAD, NOTE, OK
from blueflame.text.outcomes import OUTCOME_WORDS
from blueflame.text.sanitize import clean_line, clean_text, shorten_line

MAX_ROWS = 15


def render_report(report: Report, evidence: Evidence) -> RenderableType:
    return stack_parts(
        Group(Heading("Report", report.session), build_facts(_build_head(report, evidence.audit))),
        _render_part("Changesets", [render_outcome(record) for record in report.changesets]),
        _render_table("Attempts that did not pass", [_build_failure_row(each) for each in report.failures]),
        _render_table(
            "Incidents",
            [(format_clock(each.at - report.began), each.kind, clean_line(each.words)) for each in report.incidents],
        ),
        _render_table("Decisions", [_build_decision_row(each, report.began) for each in report.decisions]),
        _render_table(
            "Refused by the watcher", [(f"{rule.count} times", rule.rule) for rule in evidence.audit.refused]
        ),
        Text(f"All of it as a page: blueflame report {report.session} --html report.html", "quiet"),
    )


def _build_head(report: Report, audit: AuditSummary) -> dict[str, RenderableType]:
    outcome = OUTCOME_WORDS.get(report.outcome, report.outcome) if report.ended else "not ended"
    reason = f" ({clean_line(report.reason)})" if report.reason else ""
    merged = report.in_state(TaskState.MERGED)
    foreseen = f"; foreseen {report.foreseen.text}" if report.foreseen else ""
    return {
        "Request:": shorten_line(report.request, 200),
        "Outcome:": Text(outcome + reason, "good" if report.outcome == "completed" else "warn"),
        "Tasks:": f"{merged} of {len(report.tasks)} landed in {format_count(report.cycles, 'cycle')}",
        "Attempts:": f"{len(report.attempts)}, {len(report.failures)} did not pass",
        "Time:": f"{format_duration(report.seconds)} ({format_duration(report.agent_seconds)} of agents' work)",
        "Cost:": format_budget(report.budget, report.spend) + foreseen,
        "By role:": ", ".join(
            f"{clean_line(each.name)} {format_dollars(each.spend.micro_usd)}" for each in report.accounts["role"]
        ),
        "Calls:": f"{audit.calls:,}, {audit.refusals:,} refused",
    }


def _render_part(title: str, lines: Sequence[RenderableType]) -> RenderableType | None:
    more = [Text(f"  … and {len(lines) - MAX_ROWS} more", "quiet")] if len(lines) > MAX_ROWS else []
    return Group(Text(title, "head"), *lines[-MAX_ROWS:], *more) if lines else None


def _render_table(title: str, rows: Sequence[tuple[str | Text, ...]]) -> RenderableType | None:
    more = [Text(f"  … and {len(rows) - MAX_ROWS} more", "quiet")] if len(rows) > MAX_ROWS else []
    return Group(Text(title, "head"), build_columns(rows[-MAX_ROWS:]), *more) if rows else None


def _build_failure_row(each: AttemptRow) -> tuple[str | Text, ...]:
    ending = each.ending.value.replace("_", " ") if each.ending else ""
    return Text(BAD, "bad"), clean_text(format_attempt(each.id)), ending, shorten_line(each.reason, 200)


def _build_decision_row(each: GateDecision, began: float) -> tuple[str | Text, ...]:
    if each.settled is None:
        return Text(NOTE, "warn"), format_clock(each.asked - began), clean_text(each.gate.id), "waits for an answer"
    answer = f"{each.choice}, by {each.by}" if each.choice else "withdrawn"
    note = f": {shorten_line(each.note, 120)}" if each.note else ""
    return Text(OK, "good"), format_clock(each.asked - began), clean_text(each.gate.id), clean_line(answer) + note


def build_report_json(report: Report, evidence: Evidence, *, html: Path | None = None) -> dict[str, Any]:
    foreseen = report.foreseen
    return {
        "session": report.session,
        "project": report.project,
        "request": report.request,
        "outcome": report.outcome or None,
        "reason": report.reason,
        "base_branch": report.base_branch,
        "base_before": report.base_before,
        "base_now": report.base_now,
        "began": report.began,
        "until": report.until,
        "seconds": report.seconds,
        "agent_seconds": report.agent_seconds,
        "cycles": report.cycles,
        "cost_usd": report.spend.usd,
        "tokens": report.spend.tokens,
        "foreseen": None if foreseen is None else {"base": foreseen.low / 1e6, "with_retries": foreseen.high / 1e6},
        "tasks": [
            {
                "id": task.id,
                "title": task.title,
                "group": task.group,
                "state": task.state.value,
                "reason": task.reason,
                "dependencies": list(task.dependencies),
                "attempts": task.attempts,
                "failures": task.failures,
                "seconds": task.seconds,
                "cost_usd": task.spend.usd,
                "changeset": task.changeset or None,
            }
            for task in report.tasks
        ],
        "attempts": [_build_attempt_json(each) for each in report.attempts],
        "checks": [
            {
                "at": run.at,
                "subject": run.subject,
                "commit": run.commit,
                "name": run.check.name,
                "passed": run.check.passed,
                "exit_code": run.check.exit_code,
                "seconds": run.check.seconds,
                "flaky": run.check.flaky,
            }
            for run in report.checks
        ],
        "verdicts": [
            {
                "at": each.at,
                "task": each.task,
                "commit": each.commit,
                "status": each.verdict.status.value,
                "by": each.verdict.by,
                "notes": each.verdict.notes,
                "issues": list(each.verdict.issues),
                "confidence": each.verdict.confidence,
            }
            for each in report.verdicts
        ],
        "changesets": [build_changeset_json(record) for record in report.changesets],
        "decisions": [_build_decision_json(each) for each in report.decisions],
        "incidents": [{"at": each.at, "kind": each.kind, "words": each.words} for each in report.incidents],
        "costs": {by: [_build_total_json(total) for total in rows] for by, rows in report.accounts.items()},
        "audit": _build_audit_json(evidence.audit),
        "cleaned_away": evidence.gone,
        "left_out": list(report.left_out),
        "html": str(html) if html is not None else None,
    }


def _build_attempt_json(each: AttemptRow) -> dict[str, Any]:
    return {
        "id": each.id,
        "agent": each.agent,
        "role": each.role,
        "subject": each.subject,
        "n": each.n,
        "runtime": each.runtime,
        "model": each.model,
        "began": each.began,
        "ended": each.ended,
        "ending": each.ending.value if each.ending else None,
        "seconds": each.seconds,
        "cost_usd": each.spend.usd,
        "tokens": each.spend.tokens,
        "commits": each.commits,
        "reason": each.reason,
    }


def _build_decision_json(each: GateDecision) -> dict[str, Any]:
    return {
        "gate": each.gate.id,
        "kind": each.gate.kind.value,
        "subject": each.gate.subject,
        "title": each.gate.title,
        "asked": each.asked,
        "settled": each.settled,
        "choice": each.choice or None,
        "by": each.by or None,
        "note": each.note,
        "withdrawn": each.withdrawn or None,
    }


def _build_total_json(total: CostTotal) -> dict[str, Any]:
    return {
        "name": total.name,
        "attempts": total.attempts,
        "cost_usd": total.spend.usd,
        "tokens": total.spend.tokens,
    }


def _build_audit_json(audit: AuditSummary) -> dict[str, Any]:
    return {
        "calls": audit.calls,
        "refused": {rule.rule: rule.count for rule in audit.refused},
        "logs": audit.logs,
        "absent": audit.absent,
        "findings": list(audit.findings),
    }
