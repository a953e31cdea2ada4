"""What a report needs besides the journal: diffs from git, the audit logs, and what was cleaned up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from blueflame.git.repository import Repository
from blueflame.git.results import read_diff
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changeset import ChangesetRecord
from blueflame.model.errors import WorldError
from blueflame.report.build import Report
from blueflame.report.side_by_side import SideBySide, parse_diff
from blueflame.system.files import explain_file_errors
from blueflame.system.layout import ProjectPaths
from blueflame.telemetry.audit import parse_audit

MAX_DIFF_BYTES = 2_000_000  # of one changeset
MAX_LINES = 6_000  # of all changesets
MAX_LINES_PER_CHANGESET = 2_500
MAX_LINES_PER_FILE = 400
MAX_AUDIT_BYTES = 64_000_000  # of all agents
MAX_REFUSED_CALLS = 5  # of each rule
CUT_HERE = "\n[cut here: "  # no line of a diff begins with this


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    agent: str
    at: str
    tool: str
    target: str
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRule:
    rule: str
    count: int
    newest: tuple[RefusedCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSummary:
    calls: int = 0
    refused: tuple[RefusedRule, ...] = ()
    logs: int = 0
    absent: int = 0  # agents without a log: cleaned away, or never started
    findings: tuple[str, ...] = ()  # what is wrong with the logs themselves
    unread: int = 0  # logs that were too large to read

    @property
    def refusals(self) -> int:
        return sum(rule.count for rule in self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    diffs: dict[str, SideBySide] = field(default_factory=dict)  # by changeset
    audit: AuditSummary = field(default_factory=AuditSummary)
    gone: int = 0  # attempts whose folder was cleaned away


def collect_evidence(report: Report, repo: Repository, places: ProjectPaths, *, diffs: bool = True) -> Evidence:
    return Evidence(
        diffs=_read_diffs(report.changesets, repo) if diffs else {},
        audit=_read_audit_logs(dict.fromkeys(each.agent for each in report.attempts), places),
        gone=sum(not (places.attempts / each.id).is_dir() for each in report.attempts),
    )


def _read_diffs(changesets: Sequence[ChangesetRecord], repo: Repository) -> dict[str, SideBySide]:
    """Read the diffs, newest changesets first, up to MAX_LINES."""
    found: dict[str, SideBySide] = {}
    left = MAX_LINES
    for record in reversed(changesets):
        if record.build is None:
            continue
        found[record.changeset.id] = diff = _read_diff(repo, record.build.base, record.build.commit, left)
        left -= diff.shown
    return found


def _read_diff(repo: Repository, base: str, commit: str, left: int) -> SideBySide:
    if left <= 0:
        return SideBySide(missing="left out, so that this page stays usable")
    try:
        text = read_diff(repo, base, commit, max_bytes=MAX_DIFF_BYTES)
    except WorldError:
        return SideBySide(missing="git no longer has the commits that it was built from")
    whole, cut, _ = text.rpartition(CUT_HERE)
    most = min(left, MAX_LINES_PER_CHANGESET)
    return parse_diff(whole if cut else text, most_lines=most, most_per_file=MAX_LINES_PER_FILE, cut=bool(cut))


def _read_audit_logs(agents: Sequence[str] | dict[str, None], places: ProjectPaths) -> AuditSummary:
    calls, absent, unread, logs, room = 0, 0, 0, 0, MAX_AUDIT_BYTES
    counts: Counter[str] = Counter()
    newest: dict[str, list[RefusedCall]] = {}
    findings: list[str] = []
    for agent in agents:
        path = places.audit(agent)
        data = _read_log(path, room)
        if data is None:
            absent += not path.exists()
            unread += path.exists()
            continue
        room -= len(data)
        logs += 1
        audit = parse_audit(data, path.name)
        findings += audit.findings
        own = [line for line in audit.lines if line.rule != "canary"]
        calls += len(own)
        for line in own:
            if not line.allowed:
                counts[line.rule] += 1
                kept = newest.setdefault(line.rule, [])
                kept.append(
                    RefusedCall(
                        agent=agent, at=line.timestamp, tool=line.tool, target=line.target, details=line.details
                    )
                )
                del kept[:-MAX_REFUSED_CALLS]
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return AuditSummary(
        calls=calls,
        refused=tuple(RefusedRule(rule=rule, count=n, newest=tuple(reversed(newest[rule]))) for rule, n in ranked),
        logs=logs,
        absent=absent,
        findings=tuple(findings[:20]),
        unread=unread,
    )


def _read_log(path: Path, room: int) -> bytes | None:
    """Read a log; None when it does not exist or is larger than `room`."""
    with explain_file_errors("read the audit log", path), suppress(FileNotFoundError):
        if path.stat().st_size > room:
            return None
        return path.read_bytes()
    return None
