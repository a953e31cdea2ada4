"""Compare the calls in an agent's output with the audit log: each must have been judged by the watcher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from blueflame.model.audit import AuditLine, ObservedCall

MAX_GAPS = 20
MAX_TEXT_LENGTH = 80
UNREAD_OUTPUT = "part of its output was too large to be read: its calls there are unknown"


def find_unaudited_calls(
    acts: Sequence[ObservedCall], audit: Sequence[AuditLine], *, unread: bool = False
) -> tuple[str, ...]:
    """Describe each gap: a call in the output without its own line in the log.

    A call without a digest is found by its id alone: its program shows other text than it asks with (short paths
    instead of whole ones), and chooses the ids itself.
    Lines without a call are not a gap: an agent that was ended may have asked and not reported the call.
    """
    gaps = [*([UNREAD_OUTPUT] if unread else []), *_find_reused_names(acts), *_find_unasked_calls(acts, audit)]
    left = len(gaps) - MAX_GAPS
    return (*gaps[:MAX_GAPS], f"and {left} more") if left > 0 else tuple(gaps)


def _find_reused_names(acts: Sequence[ObservedCall]) -> list[str]:
    """Describe ids that several calls have: one could hide behind the line of another."""
    counts = Counter(act.call for act in acts if act.call)
    return [f"the call {call!r:.{MAX_TEXT_LENGTH}} is {n} times in its output" for call, n in counts.items() if n > 1]


def _find_unasked_calls(acts: Sequence[ObservedCall], audit: Sequence[AuditLine]) -> list[str]:
    lines = Counter((line.call, line.digest) for line in audit)
    asked = {line.call: line for line in audit}
    named = Counter(line.call for line in audit)
    inputs = Counter((line.tool, line.digest) for line in audit)
    gaps = []
    for act in acts:
        if act.by_digest:
            if inputs[act.tool, act.digest] <= 0:
                gaps.append(f"{_describe_call(act)} was never asked for")
            inputs[act.tool, act.digest] -= 1
        elif act.call and not act.digest and named[act.call] > 0:
            named[act.call] -= 1
        elif not act.call:
            gaps.append(f"{_describe_call(act)} has no name to find it by in the audit log")
        elif lines[act.call, act.digest] > 0:
            lines[act.call, act.digest] -= 1
        elif act.call not in asked:
            gaps.append(f"{_describe_call(act)} was never asked for")
        elif act.digest and asked[act.call].digest != act.digest:
            gaps.append(f"{_describe_call(act)} is not what was asked for: {_describe_call(asked[act.call])}")
        else:
            gaps.append(f"{_describe_call(act)} was asked for less often than it was done")
    return gaps


def find_defied_refusals(acts: Sequence[ObservedCall], audit: Sequence[AuditLine]) -> tuple[AuditLine, ...]:
    """Return refused calls that the agent's output shows as done. The watcher saw them, so they are not gaps."""
    done = {(act.call, act.digest) for act in acts if not act.denied and act.call and not act.by_digest}
    inputs = {(act.tool, act.digest) for act in acts if not act.denied and act.by_digest}
    inputs -= {(line.tool, line.digest) for line in audit if line.allowed}
    allowed = {(line.call, digest) for line in audit if line.allowed for digest in (line.digest, "")}
    left = done - allowed
    return tuple(
        line
        for line in audit
        if not line.allowed
        and (not left.isdisjoint({(line.call, line.digest), (line.call, "")}) or (line.tool, line.digest) in inputs)
    )


def describe_defied(acts: Sequence[ObservedCall], audit: Sequence[AuditLine]) -> tuple[str, ...]:
    found = find_defied_refusals(acts, audit)
    more = (f"and {len(found) - MAX_GAPS} more",) if len(found) > MAX_GAPS else ()
    return (*(f"{_describe_call(line)} ({line.rule})" for line in found[:MAX_GAPS]), *more)


def _describe_call(done: ObservedCall | AuditLine) -> str:
    tool = done.tool[:MAX_TEXT_LENGTH] if done.tool.isprintable() else f"{done.tool!r:.{MAX_TEXT_LENGTH}}"
    return (
        f"{tool or 'a nameless tool'} {done.target!r:.{MAX_TEXT_LENGTH}}" if done.target else tool or "a nameless tool"
    )
