"""Read what a report is made of: from the journal, the attempts' folders and git."""

from __future__ import annotations

from typing import NamedTuple

from blueflame.orchestrator.costs import read_costs
from blueflame.orchestrator.project import Project
from blueflame.orchestrator.sessions import find_session, open_journal
from blueflame.report.build import Report, build_report
from blueflame.report.calibration import KINDS, MAX_SESSIONS, build_calibration
from blueflame.report.evidence import Evidence, collect_evidence
from blueflame.session.replay import replay


class FoundReport(NamedTuple):
    report: Report
    evidence: Evidence


def read_report(project: Project, session: str | None, *, now: float, diffs: bool = False) -> FoundReport:
    with open_journal(project) as journal:
        events = journal.read_events(find_session(journal, session))
        judged = [journal.read_events_of(each.id, KINDS) for each in journal.list_sessions()[:MAX_SESSIONS]]
    entries = read_costs(project, events, now=now)
    made = build_report(events, replay(events), entries, now=now, calibration=build_calibration(judged))
    return FoundReport(made, collect_evidence(made, project.repo, project.paths, diffs=diffs))
