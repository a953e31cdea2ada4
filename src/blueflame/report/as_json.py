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
from blueflame.views.parts import pick


def build_report_json(report: Report, evidence: Evidence, *, html: Path | None = None) -> dict[str, Any]:
    foreseen = report.foreseen
    return {
        **pick(report, "session project request"),
        "outcome": report.outcome or None,
        **pick(report, "reason base_branch base_before base_now began until seconds agent_seconds cycles"),
        "cost_usd": report.spend.usd,
        "tokens": report.spend.tokens,
        "foreseen": None if foreseen is None else {"base": foreseen.low / 1e6, "with_retries": foreseen.high / 1e6},
        "tasks": [
            {
                **pick(task, "id title group state reason dependencies attempts failures seconds"),
                "cost_usd": task.spend.usd,
                "changeset": task.changeset or None,
            }
            for task in report.tasks
        ],
        "attempts": [_build_attempt_json(each) for each in report.attempts],
        "checks": [
            {
                **pick(run, "at subject commit"),
                **pick(run.check, "name passed exit_code seconds flaky red_before tests tests_before failures"),
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
        **pick(row, "confidence right brier is_enough"),
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
        **pick(each, "id agent seat role subject n runtime model began ended ending seconds waited"),
        "cost_usd": each.spend.usd,
        "tokens": each.spend.tokens,
        "commits": each.commits,
        "reason": each.reason,
    }


def _build_decision_json(each: GateDecision) -> dict[str, Any]:
    return {
        "gate": each.gate.id,
        **pick(each.gate, "kind subject title"),
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
        **pick(audit, "logs absent findings"),
    }
