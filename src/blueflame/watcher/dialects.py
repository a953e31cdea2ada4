"""The hook's question in the words of each agent's program, read into the calls that the policy judges."""

from __future__ import annotations

from blueflame.model.policy import ToolCall
from blueflame.policy.dialects import CLAUDE, EVENTS, UntranslatableCall, translate_call
from blueflame.watcher.decision import Malformed, read_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blueflame.policy.dialects import ToolUse


def read_calls(body: bytes, dialect: str) -> tuple[ToolCall, ...]:
    """What is asked for: one call, or several that are allowed together or not at all. Raises Malformed."""
    call = read_call(body, events=EVENTS[dialect])
    if dialect == CLAUDE:
        return (call,)
    try:
        return tuple(_build_call(each, call) for each in translate_call(dialect, call.tool, call.input, call.cwd))
    except UntranslatableCall as e:
        raise Malformed(str(e)) from e


def _build_call(each: ToolUse, asked: ToolCall) -> ToolCall:
    cwd = each.folder if each.folder.startswith("/") else f"{asked.cwd}/{each.folder}" if each.folder else asked.cwd
    return ToolCall(tool=each.tool, input=each.input, cwd=cwd, id=asked.id)
