"""The report in short, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns, build_facts, stack_parts
from blueflame.cli.render.changeset import render_outcome
from blueflame.report.build import AttemptRow, GateDecision, Report
from blueflame.report.calibration import CalibrationRow
from blueflame.report.evidence import AuditSummary, Evidence
from blueflame.text.format import format_attempt, format_clock, format_count, format_dollars, format_duration
from blueflame.text.marks import BAD, NOTE, OK
from blueflame.text.outcomes import describe_landed_work, describe_session_outcome
from blueflame.text.sanitize import clean_line, clean_text, shorten_line
from blueflame.views.parts import NamedValue
from blueflame.views.session import format_budget

MAX_ROWS = 15
TOLERANCE = 0.1  # between what reviewers say and what turns out right


def render_report(report: Report, evidence: Evidence) -> RenderableType:
    return stack_parts(
        Group(Heading("Report", report.session), build_facts(_build_head(report, evidence.audit))),
        _render_part("Changesets", [render_outcome(record) for record in report.changesets]),
        _render_table("Attempts that did not pass", [_build_failure_row(each) for each in report.failures]),
        _render_table(
            "Incidents",
            [(format_clock(each.at - report.began), each.kind, clean_line(each.words)) for each in report.incidents],
        ),
        _render_table("Confidence of reviewers", [_build_calibration_row(row) for row in report.calibration]),
        _render_table("Decisions", [_build_decision_row(each, report.began) for each in report.decisions]),
        _render_table(
            "Refused by the watcher", [(format_count(rule.count, "time"), rule.rule) for rule in evidence.audit.refused]
        ),
        Text(f"The full report as a page: blueflame report {report.session} --html report.html", "quiet"),
    )


def _build_head(report: Report, audit: AuditSummary) -> list[NamedValue]:
    outcome = describe_session_outcome(report.outcome, report.work) if report.ended else "not ended"
    reason = f" ({clean_line(report.reason)})" if report.reason else ""
    good = report.outcome == "completed" and report.work.is_whole
    estimate = f"; estimated {report.foreseen.text}" if report.foreseen else ""
    roles = [f"{clean_line(each.name)} {format_dollars(each.spend.micro_usd)}" for each in report.accounts["role"]]
    return [
        NamedValue("Request", shorten_line(report.request, 200)),
        NamedValue("Outcome", outcome + reason, "good" if good else "warn"),
        NamedValue("Tasks", describe_landed_work(report.work, within=f" in {format_count(report.cycles, 'cycle')}")),
        NamedValue("Attempts", f"{len(report.attempts)}, {len(report.failures)} did not pass"),
        NamedValue(
            "Time", f"{format_duration(report.seconds)} ({format_duration(report.agent_seconds)} of agents' work)"
        ),
        NamedValue("Cost", format_budget(report.budget, report.spend) + estimate),
        NamedValue("By role", ", ".join(roles)),
        NamedValue("Calls", f"{audit.calls:,}, {audit.refusals:,} refused"),
    ]


def _render_part(title: str, lines: Sequence[RenderableType]) -> RenderableType | None:
    more = [Text(f"  … and {len(lines) - MAX_ROWS} more", "quiet")] if len(lines) > MAX_ROWS else []
    return Group(Text(title, "head"), *lines[-MAX_ROWS:], *more) if lines else None


def _render_table(title: str, rows: Sequence[tuple[str | Text, ...]]) -> RenderableType | None:
    more = [Text(f"  … and {len(rows) - MAX_ROWS} more", "quiet")] if len(rows) > MAX_ROWS else []
    return Group(Text(title, "head"), build_columns(rows[-MAX_ROWS:]), *more) if rows else None


def _build_failure_row(each: AttemptRow) -> tuple[str | Text, ...]:
    ending = each.ending.value.replace("_", " ") if each.ending else ""
    return Text(BAD, "bad"), clean_text(format_attempt(each.id)), ending, shorten_line(each.reason, 200)


def _build_calibration_row(row: CalibrationRow) -> tuple[str | Text, ...]:
    verdict = Text("too few to tell", "quiet")
    if row.is_enough:
        verdict = Text("too sure", "warn") if row.gap > TOLERANCE else Text("fits", "good")
    who = clean_line(f"{row.role} {row.model}".strip())
    return who, f"said {row.confidence:.0%}", f"right {row.right:.0%} of {row.count:,}", verdict


def _build_decision_row(each: GateDecision, began: float) -> tuple[str | Text, ...]:
    if each.settled is None:
        return Text(NOTE, "warn"), format_clock(each.asked - began), clean_text(each.gate.id), "waits for an answer"
    answer = f"{each.choice}, by {each.by}" if each.choice else "withdrawn"
    note = f": {shorten_line(each.note, 120)}" if each.note else ""
    return Text(OK, "good"), format_clock(each.asked - began), clean_text(each.gate.id), clean_line(answer) + note
