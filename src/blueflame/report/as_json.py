"""The report as one JSON object: `blueflame report --json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from blueflame.report.build import AttemptRow, GateDecision, Report
from blueflame.report.calibration import CalibrationRow
from blueflame.report.evidence import AuditSummary, Evidence
from blueflame.session.accounts import CostTotal
from blueflame.views.changeset import build_changeset_json
from blueflame.views.hand_offs import build_hand_off_json
from blueflame.views.items import build_verdict_json


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
                "red_before": run.check.red_before,
                "tests": run.check.tests,
                "tests_before": run.check.tests_before,
                "failures": list(run.check.failures),
            }
            for run in report.checks
        ],
        "verdicts": [{"at": each.at, "task": each.task, **build_verdict_json(each.given)} for each in report.verdicts],
        "hand_offs": [build_hand_off_json(each) for each in report.hand_offs],
        "calibration": [_build_calibration_json(row) for row in report.calibration],
        "changesets": [build_changeset_json(record) for record in report.changesets],
        "decisions": [_build_decision_json(each) for each in report.decisions],
        "incidents": [{"at": each.at, "kind": each.kind, "words": each.words} for each in report.incidents],
        "costs": {by: [_build_total_json(total) for total in rows] for by, rows in report.accounts.items()},
        "audit": _build_audit_json(evidence.audit),
        "cleaned_away": evidence.gone,
        "left_out": list(report.left_out),
        "html": str(html) if html is not None else None,
    }


def _build_calibration_json(row: CalibrationRow) -> dict[str, Any]:
    return {
        "role": row.role,
        "model": row.model,
        "judged": row.count,
        "fates": {fate.value: count for fate, count in row.fates.items()},
        "confidence": row.confidence,
        "right": row.right,
        "brier": row.brier,
        "is_enough": row.is_enough,
        "curve": [
            {
                "low": step.low,
                "high": step.high,
                "judged": step.count,
                "confidence": step.confidence,
                "right": step.right,
            }
            for step in row.curve
        ],
    }


def _build_attempt_json(each: AttemptRow) -> dict[str, Any]:
    return {
        "id": each.id,
        "agent": each.agent,
        "seat": each.seat,
        "role": each.role,
        "subject": each.subject,
        "n": each.n,
        "runtime": each.runtime,
        "model": each.model,
        "began": each.began,
        "ended": each.ended,
        "ending": each.ending.value if each.ending else None,
        "seconds": each.seconds,
        "waited": each.waited,
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
