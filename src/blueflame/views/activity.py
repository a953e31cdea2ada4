"""What agents do now, in words and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from blueflame.model.activity import Activity, AgentState, AgentStatus
from blueflame.model.attempt import AttemptRecord
from blueflame.model.spend import Budget, Spend, Unit
from blueflame.text.format import format_clock, format_count, format_dollars
from blueflame.text.sanitize import clean_line
from blueflame.views.parts import pick

WAIT_REASONS: Mapping[str, str] = {"rate_limit": "rate limit", "outage": "model overloaded", "network": "no network"}


def describe_activity(activity: Activity, *, now: float) -> str:
    """Describe in one line what the agent does, or why it does nothing."""
    status = activity.status
    if is_waiting_for_person(activity):
        return f"waits for the person at its terminal (blueflame attach {activity.attempt.agent_id})"
    if status.state is AgentState.WORKING:
        return find_latest_action(activity) or "thinking"
    last = f"; last: {find_latest_action(activity)}" if status.state is AgentState.SILENT else ""
    return _describe_idle(status, now) + last


def is_waiting_for_person(activity: Activity) -> bool:
    """Whether an agent that talks with a person has said something and done nothing since."""
    is_up = activity.status.state in (AgentState.WORKING, AgentState.SILENT)
    return is_up and activity.attempt.interactive and activity.spoke_last


def find_latest_action(activity: Activity) -> str:
    """Return the agent's last call, or its last message when that is newer."""
    call, words = clean_line(activity.call), clean_line(activity.last_words)
    return (words or call) if activity.spoke_last else (call or words)


def _describe_idle(status: AgentStatus, now: float) -> str:
    match status.state:
        case AgentState.STARTING:
            return "starting"
        case AgentState.SETUP:
            return "setup commands"
        case AgentState.PARKED:
            return describe_wait(status)
        case AgentState.ASKING:
            return f"waits for your answer, {format_clock(now - (status.since or now))}"
        case AgentState.SILENT:
            return f"silent for {format_clock(now - (status.since or now))}"
        case AgentState.ENDED:
            return clean_line(status.reason) or "ended"
    return f"ending: {clean_line(status.reason)}" if status.reason else "ending"


def describe_wait(status: AgentStatus) -> str:
    """`waits until 14:32: rate limit`, in local time."""
    why = WAIT_REASONS.get(status.kind, "") or clean_line(status.reason) or "model unavailable"
    return f"waits until {_format_hour(status.until, status.since)}: {why}" if status.until else f"waits: {why}"


def _format_hour(at: float, since: float | None) -> str:
    """Format the hour, with the weekday when it is another day: some limits last a week."""
    then, now = (datetime.fromtimestamp(when).astimezone() for when in (at, since or at))
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%a %H:%M}"


def format_tokens(tokens: int) -> str:
    """`940`, `12.4k`, `1.25M`."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 999_950 else f"{tokens / 1e6:.2f}M"


def format_usage(spend: Spend, calls: int = 0, refused: int = 0) -> str:
    """`12.4k tokens, $0.42, 17 calls, 2 refused`, without what is zero."""
    parts = [
        f"{format_tokens(spend.tokens)} tokens" if spend.tokens else "",
        format_dollars(spend.micro_usd, places=2) if spend.micro_usd else "",
        format_count(calls, "call") if calls else "",
        f"{refused} refused" if refused else "",
    ]
    return ", ".join(part for part in parts if part)


def build_activity_json(activity: Activity, record: AttemptRecord, *, now: float) -> dict[str, Any]:
    attempt, status = activity.attempt, activity.status
    ended_at = now if record.ended_at is None else record.ended_at
    return {
        "at": now,
        "session": attempt.session,
        "attempt": attempt.id,
        "agent": attempt.agent_id,
        **pick(attempt, "seat role runtime unguarded subject n"),
        "state": status.state.value,
        "since": status.since,
        "why": status.reason,
        "until": status.until,
        "tool": activity.tool,
        "target": activity.target,
        "words": activity.last_words,
        "calls": activity.calls,
        "refused": activity.refused,
        "tokens": activity.spend.tokens,
        "cost_usd": activity.spend.usd,
        "budgets": _build_budgets_json(activity),
        "ending": record.ended.ending.value if record.ended else None,
        "seconds": round(max(ended_at - (record.started_at or record.intended_at), 0.0), 3),
    }


def _build_budgets_json(activity: Activity) -> list[dict[str, Any]]:
    """Return the attempt's limits, its own budget first."""
    attempt = activity.attempt
    named: Sequence[tuple[str, Budget]] = [
        ("attempt", attempt.budget),
        *((ceiling.name, ceiling.budget) for ceiling in attempt.ceilings),
    ]
    return [
        {
            "name": name,
            "unit": budget.unit.value,
            "limit": budget.limit / 1e6 if budget.unit is Unit.USD else budget.limit,
        }
        for name, budget in named
        if not budget.unlimited
    ]
