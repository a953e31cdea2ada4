"""The report as one HTML page that loads nothing from elsewhere.

All text that people, agents or files contain is escaped, and invisible characters are made visible, by the template's
settings. In addition the page's policy lets the browser use one script and one style, by their hashes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from blueflame import __version__
from blueflame.model.attempt import BLAMELESS, Ending
from blueflame.model.changeset import ChangesetState
from blueflame.model.task import TaskState
from blueflame.report.build import AttemptRow, GateDecision, Report, TaskRow
from blueflame.report.evidence import Evidence
from blueflame.report.side_by_side import FileDiff
from blueflame.session.accounts import CostTotal
from blueflame.text.event_lines import AGAIN
from blueflame.text.format import format_count, format_dollar_range, format_dollars, format_duration, format_time
from blueflame.text.hand_offs import format_hand_off
from blueflame.text.marks import MARKS
from blueflame.text.outcomes import describe_session_outcome
from blueflame.text.sanitize import clean_text, shorten_line

MAX_FAILURES = 60
CONTENTS = (
    ("time", "Time"),
    ("tasks", "Tasks"),
    ("changesets", "Changesets"),
    ("trouble", "What went wrong"),
    ("checks", "Checks and verdicts"),
    ("costs", "Costs"),
    ("decisions", "Decisions"),
    ("audit", "Refused"),
    ("attempts", "All attempts"),
)
LEGEND = (
    ("good", "passed"),
    ("bad", "failed"),
    ("warn", "out of time or budget"),
    ("idle", "ended without fault"),
    ("live", "running"),
    ("ask", "waits for you"),
)
TASK_TONES: Mapping[TaskState, str] = {
    TaskState.MERGED: "good",
    TaskState.VALIDATED: "live",
    TaskState.PARTIAL: "live",
    TaskState.DONE: "live",
    TaskState.CLAIMED: "live",
    TaskState.FAILED: "bad",
    TaskState.BLOCKED: "bad",
    TaskState.REQUEUED: "warn",
    TaskState.DEFERRED: "warn",
}
CHANGESET_TONES: Mapping[ChangesetState, str] = {
    ChangesetState.LANDED: "good",
    ChangesetState.PROPOSED: "good",
    ChangesetState.APPROVED: "live",
    ChangesetState.BUILT: "live",
    ChangesetState.REJECTED: "bad",
    ChangesetState.EVICTED: "bad",
    ChangesetState.CONFLICTED: "bad",
    ChangesetState.UNDONE: "warn",
    ChangesetState.SKIPPED: "warn",
    ChangesetState.DEFERRED: "warn",
}
RAN_OUT = frozenset({Ending.TIMEOUT, Ending.STALLED, Ending.BUDGET, Ending.RESOURCES})
CHOICE_TONES: Mapping[str, str] = {
    "approve": "good",
    "accept": "good",
    "continue": "good",
    "reject": "bad",
    "drop": "bad",
    "quit": "bad",
    "stop": "bad",
    "kill": "bad",
}


def render_page(report: Report, evidence: Evidence, *, made_at: float) -> str:
    style, script = _read_asset("report.css"), _read_asset("report.js")
    lines = report.request.strip().splitlines() or ["(no request)"]
    template = _build_environment().get_template("report.html.j2")
    return template.render(
        report=report,
        evidence=evidence,
        version=__version__,
        made_at=made_at,
        zone=datetime.fromtimestamp(made_at).astimezone().strftime("%Z (UTC%z)"),
        style=Markup(style),  # noqa: S704 (ours, from the package)
        script=Markup(script),  # noqa: S704
        style_hash=_hash_source(style),
        script_hash=_hash_source(script),
        headline=lines[0],
        request_is_long=len(lines) > 1 or len(lines[0]) > 220,
        outcome=_describe_outcome(report),
        landed=report.work.landed,
        budget_bar=_build_budget_bar(report),
        contents=CONTENTS,
        legend=LEGEND,
        titles={task.id: task.title for task in report.tasks},
        tasks_by_id={task.id: task for task in report.tasks},
        task_number={task.id: n for n, task in enumerate(report.tasks, start=1)},
        changeset_number={record.changeset.id: n for n, record in enumerate(report.changesets, start=1)},
        open_gates=[each for each in report.decisions if each.settled is None and not report.ended],
        settled=[each for each in report.decisions if each.settled is not None],
        shown_failures=report.failures[-MAX_FAILURES:],
        red=[run for run in report.checks if not run.check.is_acceptable],
        accounts=list(report.accounts.items()),
        left_out=[*report.left_out, *_list_not_shown(evidence)],
    )


def _list_not_shown(evidence: Evidence) -> Sequence[str]:
    lines = sum(file.hidden for diff in evidence.diffs.values() for file in diff.files)
    hidden = sum(diff.hidden_files for diff in evidence.diffs.values())
    return [
        *([f"{format_count(lines, 'line')} of long diffs"] if lines else []),
        *([f"the diffs of {format_count(hidden, 'file')}"] if hidden else []),
        *(["prompts and output of agents: they are in .blueflame/attempts"] if not evidence.gone else []),
    ]


def _describe_outcome(report: Report) -> Mapping[str, str]:
    if report.ended:
        tone = "good" if report.outcome == "completed" and report.work.is_whole else "warn"
        name, _, words = describe_session_outcome(report.outcome, report.work).partition(": ")
        return {"name": name, "tone": tone, "words": report.reason or words}
    words = "the state when this page was written"
    waiting = sum(each.settled is None for each in report.decisions)
    return {
        "name": f"waits for {format_count(waiting, 'answer')}" if waiting else "not ended",
        "tone": "live",
        "words": words,
    }


def _build_budget_bar(report: Report) -> Mapping[str, Any]:
    """Build the bar of used, allowed and estimated cost, in percent of the largest of them."""
    budget, used = report.budget, report.budget.measure(report.spend)
    foreseen = report.foreseen if report.foreseen is not None and budget.unit.value == "usd" else None
    high = foreseen.high if foreseen else 0
    whole = max(budget.limit, used, high)
    words = [f"of {budget.format_amount(budget.limit)} at most" if budget.limit else "no limit"]
    words += [f"estimated {format_dollar_range(foreseen.low, foreseen.high, joint='to')}"] if foreseen else []
    if budget.unit.value != "usd":
        words.insert(0, budget.format_amount(used))
    share = 100 / whole if whole else 0
    return {
        "whole": whole,
        "used": round(used * share, 2),
        "over": bool(budget.limit) and used > budget.limit,
        "low": round(foreseen.low * share, 2) if foreseen else 0,
        "high": round(high * share, 2),
        "limit": min(round(budget.limit * share, 2), 99.8) if budget.limit else 0,
        "words": ", ".join(words),
    }


def _hash_source(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _read_asset(name: str) -> str:
    return files("blueflame.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _build_environment() -> Environment:
    made = Environment(
        loader=PackageLoader("blueflame.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_make_visible,
    )
    made.filters.update(FILTERS)
    return made


def _make_visible(value: object) -> object:
    """Make characters visible that could move, hide or reverse text; our own markup is not changed."""
    return clean_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _shorten(value: object, most: int, keep: bool = False) -> str:
    """`keep`: line breaks are kept."""
    text = str(value)
    if keep:
        return text if len(text) <= most else f"{text[:most]}… [{len(text) - most:,} more characters]"
    return shorten_line(text[: most * 4], most)


def _keep_end(text: str, most: int) -> str:
    return text if len(text) <= most else f"[{len(text) - most:,} characters before] …{text[-most:]}"


def _format_moment(at: float) -> str:
    return format_time(at, "%Y-%m-%d %H:%M:%S", "at an unknown time")


def _format_offset(seconds: float) -> str:
    whole = max(int(seconds), 0)
    days, hours, minutes = whole // 86_400, whole % 86_400 // 3_600, whole % 3_600 // 60
    if whole < 3_600:
        return f"{minutes}:{whole % 60:02d}"
    return f"{days} d {hours}:{minutes:02d} h" if days else f"{hours}:{minutes:02d} h"


def _format_duration(seconds: float) -> str:
    days, hours = divmod(round(seconds / 3_600), 24)
    return format_duration(seconds) if seconds < 172_800 else f"{days} d {hours} h"


def _choose_tone(ending: Ending | None) -> str:
    if ending is None:
        return "live"
    if ending is Ending.PASSED:
        return "good"
    if ending is Ending.NOTHING_TO_DO or ending in BLAMELESS:
        return "idle"
    return "warn" if ending in RAN_OUT else "bad"


def _choose_mark(ending: Ending | None) -> str:
    return {"good": "✓", "bad": "✗", "warn": "!", "idle": "-", "live": "…"}[_choose_tone(ending)]


def _format_label(word: str) -> str:
    return word.replace("_", " ")


def _name_attempt(each: AttemptRow) -> str:
    if each.role == "worker":
        return f"{each.subject} #{each.n}"
    return (
        f"{each.role} #{each.n}" if each.subject in (each.role, "plan") else f"{each.role} of {each.subject} #{each.n}"
    )


def _describe_attempt(each: AttemptRow) -> str:
    ending = _format_label(each.ending.value) if each.ending else "running"
    facts = [
        _name_attempt(each),
        f"{ending}, {format_duration(each.seconds)}, {format_dollars(each.spend.micro_usd)}",
        each.agent,
        *([each.seat] if each.seat else []),
    ]
    if each.commits:
        facts.append(format_count(each.commits, "commit"))
    return "\n".join([*facts, *([shorten_line(each.reason, 240)] if each.reason else [])])


def _describe_gate(each: GateDecision) -> str:
    if each.settled is None:
        return f"{shorten_line(each.gate.title, 200)}\nwaits for an answer"
    after = format_duration(each.settled - each.asked)
    answer = f"{each.choice}, by {each.by}" if each.choice else "withdrawn"
    return f"{shorten_line(each.gate.title, 200)}\n{shorten_line(answer, 100)}, after {after}"


def _name_state(task: TaskRow) -> str:
    if task.undone:
        return "undone"
    return "landed" if task.state is TaskState.MERGED else task.state.value


def _describe_task(task: TaskRow) -> str:
    words = f"{task.id}: {shorten_line(task.title, 200)}\n{_name_state(task)}, {format_count(task.attempts, 'attempt')}"
    return words + (f"\n{shorten_line(task.reason, 200)}" if task.reason else "")


def _choose_side(file: FileDiff) -> str:
    """Return the class of a new or deleted file, which needs one column only."""
    kinds = {pair.kind for pair in file.pairs} - {"hunk"}
    return {"added": " new", "deleted": " gone"}.get(next(iter(kinds)), "") if len(kinds) == 1 and file.notes else ""


def _compute_share(total: CostTotal, rows: Sequence[CostTotal]) -> float:
    most = max((row.spend.micro_usd for row in rows), default=0)
    return round(100 * total.spend.micro_usd / most, 1) if most else 0.0


FILTERS: Mapping[str, Callable[..., Any]] = {
    "short": _shorten,
    "text": lambda text: text.replace("\r", "␍").replace("\t", "    "),
    "ending_of": _keep_end,
    "moment": _format_moment,
    "offset": _format_offset,
    "duration": _format_duration,
    "money": format_dollars,
    "counted": format_count,
    "label": _format_label,
    "sha": lambda sha: str(sha)[:10],
    "tone": _choose_tone,
    "mark": _choose_mark,
    "state_tone": lambda task: "idle" if task.undone else TASK_TONES.get(task.state, "idle"),
    "state_mark": lambda task: AGAIN if task.undone else MARKS[task.state][0],
    "state_word": _name_state,
    "changeset_tone": lambda state: CHANGESET_TONES.get(state, "idle"),
    "choice_tone": lambda choice: CHOICE_TONES.get(choice, "warn"),
    "attempt_name": _name_attempt,
    "attempt_tip": _describe_attempt,
    "asked_tip": _describe_gate,
    "landing_tip": lambda mark: f"{mark.name} landed\n{_format_moment(mark.at)}",
    "task_tip": _describe_task,
    "by_path": lambda diff: {file.path: file for file in diff.files} if diff is not None else {},
    "one_sided": _choose_side,
    "share_of": _compute_share,
    "hand_off": format_hand_off,
    "cost_of": lambda rows: sum(row.spend.micro_usd for row in rows),
}
