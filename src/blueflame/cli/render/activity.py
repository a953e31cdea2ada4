"""What agents do now, cut to the width of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from blueflame.model.activity import Activity, AgentState
from blueflame.text.sanitize import clean_line
from blueflame.views.activity import describe_activity, format_usage, is_waiting_for_person

ACTIVITY_MARKS: Mapping[AgentState, tuple[str, str]] = {
    AgentState.STARTING: ("·", "quiet"),
    AgentState.SETUP: ("·", "quiet"),
    AgentState.WORKING: ("▸", "id"),
    AgentState.SILENT: ("!", "warn"),
    AgentState.PARKED: ("‖", "warn"),
    AgentState.ASKING: ("?", "warn"),
    AgentState.ENDING: ("◂", "warn"),
    AgentState.ENDED: ("■", "quiet"),
}
MIN_SECOND_WIDTH = 12  # columns: below that the older of call and words is left out
SEPARATOR = " · "


def draw_activity(activity: Activity, *, now: float, width: int) -> Text:
    """Draw the newer of call and message first; of a long path the end is kept."""
    if activity.status.state is not AgentState.WORKING or is_waiting_for_person(activity):
        words = describe_activity(activity, now=now)
        return Text(_shorten_to_width(words, width), ACTIVITY_MARKS[activity.status.state][1])
    call, words = clean_line(activity.call), clean_line(activity.last_words)
    first, second = (words, call) if activity.spoke_last and words else (call, words)
    if not first:
        return Text(_shorten_to_width(second or "thinking", width))
    text = Text(_shorten_call(first, width) if first == call else _shorten_to_width(first, width))
    left = width - cell_len(text.plain) - len(SEPARATOR)
    if second and left >= MIN_SECOND_WIDTH:
        text.append(SEPARATOR + _shorten_to_width(second, left), "quiet")
    return text


def _shorten_to_width(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…" if width > 0 else ""


def _shorten_call(call: str, width: int) -> str:
    """`Edit …/cli/live.py`: a path is known by its end, a command by its beginning."""
    tool, _, target = call.partition(" ")
    if cell_len(call) <= width or " " in target or "/" not in target:
        return _shorten_to_width(call, width)
    left = width - cell_len(tool) - 2
    tails = (target[at:] for at, sign in enumerate(target) if sign == "/")
    fitting = next((tail for tail in tails if cell_len(tail) <= left), None)
    return f"{tool} …{fitting}" if fitting else _shorten_to_width(call, width)


def draw_budget_bar(activity: Activity, width: int, *, warn_at: float) -> Text:
    """Draw the used share of the tightest budget, with a `!` from `warn_at` on; empty without a budget."""
    if activity.tightest_budget is None:
        return Text()
    share = activity.used_share
    style = "bad" if share >= 1 else "warn" if share >= warn_at else "id"
    filled = min(int(share * width), width)
    text = Text("━" * filled, style).append("─" * (width - filled), "quiet")
    return text.append("!" if share >= warn_at else " ", style)


def draw_activity_line(activity: Activity, *, now: float) -> Text:
    """`14:32:05  ▸ task-001 #1  Edit src/a.py  12.4k tokens, $0.42`: for pipes."""
    mark, style = ACTIVITY_MARKS[activity.status.state]
    attempt, used = activity.attempt, format_usage(activity.spend, activity.calls, activity.refused)
    return Text.assemble(
        _draw_time(now),
        (f"{mark} ", style),
        (f"{attempt.agent_id}  ", "id"),
        f"{clean_line(attempt.subject)} #{attempt.n}  {describe_activity(activity, now=now)}",
        (f"  ({used})" if used else "", "quiet"),
    )


def draw_command_line(name: str, *, now: float, state: AgentState = AgentState.WORKING) -> Text:
    """`14:32:05  ▸ checks of task-001`: what runs or waits without an agent, for pipes."""
    mark, style = ACTIVITY_MARKS[state]
    return Text.assemble(_draw_time(now), (f"{mark} ", style), clean_line(name))


def _draw_time(now: float) -> tuple[str, str]:
    return f"{datetime.fromtimestamp(now).astimezone():%H:%M:%S}  ", "quiet"
