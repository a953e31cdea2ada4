"""What agents do now, in words, figures and small bars; the same in the frame, in lines and in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from blueflame.model.activity import Activity, AgentState, AgentStatus
from blueflame.model.attempt import AttemptRecord
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.text.format import format_clock
from blueflame.text.sanitize import clean_line

ACTIVITY_MARKS: Mapping[AgentState, tuple[str, str]] = {
    AgentState.STARTING: ("·", "quiet"),
    AgentState.SETUP: ("·", "quiet"),
    AgentState.WORKING: ("▸", "id"),
    AgentState.SILENT: ("!", "warn"),
    AgentState.PARKED: ("‖", "warn"),
    AgentState.ENDING: ("◂", "warn"),
    AgentState.ENDED: ("■", "quiet"),
}
WAIT_REASONS: Mapping[str, str] = {
    "rate_limit": "rate limit",
    "outage": "the model is overloaded",
    "network": "no network",
}
MIN_SECOND_WIDTH = 12  # columns that must be left for a second thing to be told
SEPARATOR = " · "


def describe_activity(activity: Activity, *, now: float) -> str:
    """One line, whole: what it does, or why it does nothing."""
    stand = activity.status
    if stand.state is AgentState.WORKING:
        return find_latest_action(activity) or "thinking"
    return _describe_idle(stand, now) + (
        f"; last: {find_latest_action(activity)}" if stand.state is AgentState.SILENT else ""
    )


def find_latest_action(activity: Activity) -> str:
    """Its call, or its words when they are newer."""
    call, words = clean_line(activity.call), clean_line(activity.last_words)
    return (words or call) if activity.spoke_last else (call or words)


def draw_activity(activity: Activity, *, now: float, width: int) -> Text:
    """The same in so many columns: of a path the end is kept, and what is less new stands behind."""
    if activity.status.state is not AgentState.WORKING:
        return Text(
            _shorten_to_width(describe_activity(activity, now=now), width), ACTIVITY_MARKS[activity.status.state][1]
        )
    call, words = clean_line(activity.call), clean_line(activity.last_words)
    first, second = (words, call) if activity.spoke_last and words else (call, words)
    if not first:
        return Text(_shorten_to_width(second or "thinking", width))
    text = Text(_shorten_call(first, width) if first == call else _shorten_to_width(first, width))
    left = width - cell_len(text.plain) - len(SEPARATOR)
    return (
        text.append(SEPARATOR + _shorten_to_width(second, left), "quiet")
        if second and left >= MIN_SECOND_WIDTH
        else text
    )


def _describe_idle(stand: AgentStatus, now: float) -> str:
    match stand.state:
        case AgentState.STARTING:
            return "starting"
        case AgentState.SETUP:
            return "setup commands"
        case AgentState.PARKED:
            return describe_wait(stand)
        case AgentState.SILENT:
            return f"silent for {format_clock(now - (stand.since or now))}"
        case AgentState.ENDED:
            return clean_line(stand.reason) or "ended"
    return f"ending: {clean_line(stand.reason)}" if stand.reason else "ending"


def describe_wait(stand: AgentStatus) -> str:
    """`waits until 14:32: rate limit`, in the person's own time."""
    why = WAIT_REASONS.get(stand.kind, "") or clean_line(stand.reason) or "its model cannot be had"
    return f"waits until {_format_hour(stand.until, stand.since)}: {why}" if stand.until else f"waits: {why}"


def _format_hour(at: float, since: float | None) -> str:
    """With the day when it is not the same: limits of a week are waited for as well."""
    then, now = (datetime.fromtimestamp(when).astimezone() for when in (at, since or at))
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%a %H:%M}"


def _shorten_to_width(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…" if width > 0 else ""


def _shorten_call(call: str, width: int) -> str:
    """`Edit …/cli/live.py`: where it works is told by the end of a path, what it runs by the beginning."""
    tool, _, target = call.partition(" ")
    if cell_len(call) <= width or " " in target or "/" not in target:
        return _shorten_to_width(call, width)
    left = width - cell_len(tool) - 2
    tails = (target[at:] for at, sign in enumerate(target) if sign == "/")
    fitting = next((tail for tail in tails if cell_len(tail) <= left), None)
    return f"{tool} …{fitting}" if fitting else _shorten_to_width(call, width)


def format_tokens(tokens: int) -> str:
    """`940`, `12.4k`, `1.25M`: as exact as is useful while it grows."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 999_950 else f"{tokens / 1e6:.2f}M"


def format_cost(spend: Spend) -> str:
    return f"${spend.usd:.2f}"


def draw_budget_bar(activity: Activity, width: int, *, warn_at: float) -> Text:
    """How much of its tightest budget is used, with a `!` from the warning on; empty without a budget."""
    if activity.tightest_budget is None:
        return Text()
    share = activity.used_share
    style = "bad" if share >= 1 else "warn" if share >= warn_at else "id"
    filled = min(int(share * width), width)
    text = Text("━" * filled, style).append("─" * (width - filled), "quiet")
    return text.append("!" if share >= warn_at else " ", style)


def format_usage(spend: Spend, calls: int = 0, refused: int = 0) -> str:
    """`12.4k tokens, $0.42, 17 calls, 2 refused`; what is nothing is left out."""
    parts = [
        f"{format_tokens(spend.tokens)} tokens" if spend.tokens else "",
        format_cost(spend) if spend.micro_usd else "",
        f"{calls} call{'' if calls == 1 else 's'}" if calls else "",
        f"{refused} refused" if refused else "",
    ]
    return ", ".join(part for part in parts if part)


def draw_activity_line(activity: Activity, *, now: float) -> Text:
    """`14:32:05  ▸ task-001 #1  Edit src/a.py  12.4k tokens, $0.42`: for pipes."""
    mark, style = ACTIVITY_MARKS[activity.status.state]
    attempt, used = activity.attempt, format_usage(activity.spend, activity.calls, activity.refused)
    return Text.assemble(
        (f"{datetime.fromtimestamp(now).astimezone():%H:%M:%S}  ", "quiet"),
        (f"{mark} ", style),
        (f"{attempt.agent_id}  ", "id"),
        f"{clean_line(attempt.subject)} #{attempt.n}  {describe_activity(activity, now=now)}",
        (f"  ({used})" if used else "", "quiet"),
    )


def build_activity_json(activity: Activity, record: AttemptRecord, *, now: float) -> dict[str, Any]:
    attempt, stand = activity.attempt, activity.status
    ended_at = now if record.ended_at is None else record.ended_at
    return {
        "at": now,
        "session": attempt.session,
        "attempt": attempt.id,
        "agent": attempt.agent_id,
        "role": attempt.role,
        "runtime": attempt.runtime,
        "subject": attempt.subject,
        "n": attempt.n,
        "state": stand.state.value,
        "since": stand.since,
        "why": stand.reason,
        "until": stand.until,
        "tool": activity.tool,
        "target": activity.target,
        "words": activity.last_words,
        "calls": activity.calls,
        "refused": activity.refused,
        "tokens": activity.spend.tokens,
        "cost_usd": activity.spend.usd,
        "budgets": build_budgets_json(activity),
        "ending": record.ended.ending.value if record.ended else None,
        "seconds": round(max(ended_at - (record.started_at or record.intended_at), 0.0), 3),
    }


def build_budgets_json(activity: Activity) -> list[dict[str, Any]]:
    """What bounds it, its own budget first; none where there is no limit."""
    attempt = activity.attempt
    named: Sequence[tuple[str, Budget]] = [
        ("attempt", attempt.budget),
        *((ceiling.name, ceiling.budget) for ceiling in attempt.ceilings),
    ]
    return [
        {"name": name, "unit": budget.unit.value, "limit": _convert_to_unit(budget, budget.limit)}
        for name, budget in named
        if not budget.unlimited
    ]


def _convert_to_unit(budget: Budget, amount: int) -> float | int:
    return amount / 1e6 if budget.unit is Unit.USD else amount
