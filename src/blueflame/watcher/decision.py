"""Decide about one call within a time limit. Any failure is a refusal."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from contextlib import suppress

from blueflame.model.audit import compute_input_digest
from blueflame.model.policy import CANARY, Decision, ToolCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

DECISION_TIMEOUT = 3.0  # seconds for one decision; the hook gives up after 4, agents give it 5
SLOW_SECONDS = 1.5  # one that takes longer has no processor: the machine is overloaded, or we were stopped
TARGET_INPUTS = ("file_path", "notebook_path", "path", "command", "pattern", "url", "query", "skill")
"""The inputs that say what a call is about; the first one present counts."""


class _TooSlow(BaseException):
    """Not an Exception, so that no handler on the way catches it and continues."""


def describe_call(call: ToolCall | None) -> Mapping[str, str]:
    """Return the fields of the audit log for a call."""
    if call is None:
        return {"tool": "", "target": "", "call": "", "digest": ""}
    target = next((call.input[name] for name in TARGET_INPUTS if isinstance(call.input.get(name), str)), "")
    return {"tool": call.tool, "target": target, "call": call.id, "digest": compute_input_digest(call.input)}


def _measure_processor() -> float:
    """Seconds of the processor that we and our ended children used."""
    return sum(os.times()[:4])


class Decider:
    """Decides about calls after the canary has been refused."""

    __slots__ = ("_decide", "_deciding", "_hinder", "proven")

    def __init__(self, decide: Callable[[ToolCall], Decision], hinder: Callable[[str], None]) -> None:
        self._decide = decide
        self._hinder = hinder
        self._deciding = False
        self.proven = False  # the canary was refused

    def decide(self, call: ToolCall) -> Decision:
        if not self.proven and call.tool != CANARY:
            return Decision(False, "canary", "the watcher has not passed its self-test yet: no call is allowed")
        began, used = time.monotonic(), _measure_processor()
        decision = self._decide_safely(call)
        seconds, used = time.monotonic() - began, _measure_processor() - used
        if seconds > SLOW_SECONDS and used < seconds / 4:
            self._hinder(f"a tool call was judged in {seconds:.1f} s with {used:.1f} s of the processor")
        if call.tool != CANARY:
            return decision
        self.proven = True
        return Decision(False, "canary", decision.details)  # never allowed, whatever the policy decides

    def _decide_safely(self, call: ToolCall) -> Decision:
        try:
            return self._decide_in_time(call)
        except _TooSlow:
            return Decision(False, "malformed_call", f"no decision within {DECISION_TIMEOUT:g} s; simplify the call")
        except Exception:  # noqa: BLE001 (the boundary: a bug in a rule must refuse the call, not end the warden)
            with suppress(OSError):
                traceback.print_exc(file=sys.stderr)
            return Decision(False, "malformed_call", "the call could not be judged; try another way")

    def _decide_in_time(self, call: ToolCall) -> Decision:
        before = signal.signal(signal.SIGALRM, self._handle_alarm)
        self._deciding = True
        signal.setitimer(signal.ITIMER_REAL, DECISION_TIMEOUT)
        try:
            decision = self._decide(call)
        finally:
            self._deciding = False  # first: a late alarm is ignored from here on
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return decision

    def _handle_alarm(self, *_: int | FrameType | None) -> None:
        if self._deciding:
            raise _TooSlow
