"""What a report needs besides the journal: differences from git, the audit logs, and what is no longer there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blueflame.git.repository import Repository
from blueflame.git.results import diff_text
from blueflame.model.changeset import ChangesetRecord
from blueflame.model.errors import WorldError
from blueflame.report.build import Report
from blueflame.report.side_by_side import SideBySide, side_by_side
from blueflame.system.files import trouble
from blueflame.system.layout import Places
from blueflame.telemetry.audit import parse_audit

DIFF_BYTES = 2_000_000  # of one changeset
MOST_LINES = 6_000  # of all changesets
MOST_PER_CHANGESET = 2_500
MOST_PER_FILE = 400
AUDIT_BYTES = 64_000_000  # of all agents
SHOWN_REFUSALS = 5  # of each rule
CUT_HERE = "\n[cut here: "  # no line of a difference begins so


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    agent: str
    at: str
    tool: str
    target: str
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRule:
    rule: str
    count: int
    newest: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    calls: int = 0
    refused: tuple[RefusedRule, ...] = ()
    logs: int = 0
    absent: int = 0  # agents without a log: cleaned away, or never started
    findings: tuple[str, ...] = ()  # what is wrong with the logs themselves
    unread: int = 0  # logs that were too much to read

    @property
    def refusals(self) -> int:
        return sum(rule.count for rule in self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    diffs: dict[str, SideBySide] = field(default_factory=dict)  # by changeset
    audit: Audited = field(default_factory=Audited)
    gone: int = 0  # attempts whose folder was cleaned away


def evidence_for(report: Report, repo: Repository, places: Places, *, diffs: bool = True) -> Evidence:
    return Evidence(
        diffs=_diffs(report.changesets, repo) if diffs else {},
        audit=_audited(dict.fromkeys(each.agent for each in report.attempts), places),
        gone=sum(not (places.attempts / each.id).is_dir() for each in report.attempts),
    )


def _diffs(changesets: Sequence[ChangesetRecord], repo: Repository) -> dict[str, SideBySide]:
    """The newest changesets first while there is room."""
    found: dict[str, SideBySide] = {}
    left = MOST_LINES
    for record in reversed(changesets):
        if record.build is None:
            continue
        found[record.changeset.id] = diff = _diff(repo, record.build.base, record.build.commit, left)
        left -= diff.shown
    return found


def _diff(repo: Repository, base: str, commit: str, left: int) -> SideBySide:
    if left <= 0:
        return SideBySide(missing="left out, so that this page stays usable")
    try:
        text = diff_text(repo, base, commit, max_bytes=DIFF_BYTES)
    except WorldError:
        return SideBySide(missing="git no longer has the commits that it was built from")
    whole, cut, _ = text.rpartition(CUT_HERE)
    most = min(left, MOST_PER_CHANGESET)
    return side_by_side(whole if cut else text, most_lines=most, most_per_file=MOST_PER_FILE, cut=bool(cut))


def _audited(agents: Sequence[str] | dict[str, None], places: Places) -> Audited:
    calls, absent, unread, logs, room = 0, 0, 0, 0, AUDIT_BYTES
    counts: Counter[str] = Counter()
    newest: dict[str, list[Refusal]] = {}
    findings: list[str] = []
    for agent in agents:
        path = places.audit(agent)
        data = _read(path, room)
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
                    Refusal(agent=agent, at=line.timestamp, tool=line.tool, target=line.target, details=line.details)
                )
                del kept[:-SHOWN_REFUSALS]
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return Audited(
        calls=calls,
        refused=tuple(RefusedRule(rule=rule, count=n, newest=tuple(reversed(newest[rule]))) for rule, n in ranked),
        logs=logs,
        absent=absent,
        findings=tuple(findings[:20]),
        unread=unread,
    )


def _read(path: Path, room: int) -> bytes | None:
    """None when it is not there, or larger than there is room for."""
    try:
        if path.stat().st_size > room:
            return None
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as e:
        raise trouble("read the audit log", path, e) from e
