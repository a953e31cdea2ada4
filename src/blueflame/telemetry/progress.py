"""What running agents have written and used so far, read incrementally."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from blueflame.agents.runtime import CallNotRun, Runtime, Signal, TextOutput, UsageReport, read_new_signals
from blueflame.model.attempt import Attempt
from blueflame.model.audit import ObservedCall
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.telemetry.usage import UsageTail

STEP_BYTES = 64 * 1024  # bytes: a frame is drawn several times a second, for several agents


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgress:
    said: str = ""
    tool: str = ""  # of the latest call that its output shows
    target: str = ""
    spoke: bool = False  # the text came after that call
    acts: int = 0
    spend: Spend = NO_SPEND  # as the gateway counts it; without one as the agent says itself
    offset: int = 0


class ProgressReader:
    """One for each reader; keeps its read positions."""

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = runtimes
        self._heard: dict[str, AgentProgress] = {}
        self._meters: dict[str, UsageTail] = {}

    def read_progress(self, attempt: Attempt, directory: Path, *, most: int = 1) -> AgentProgress:
        """Return everything so far, after reading a step or about `most` new bytes."""
        heard = self._heard.get(attempt.id, AgentProgress())
        runtime = self._runtimes.get(attempt.runtime)
        goal = heard.offset + most
        while runtime is not None and heard.offset < goal:
            signals, offset = read_new_signals(runtime, directory / "stdout.log", heard.offset, step=STEP_BYTES)
            if offset == heard.offset:
                break
            heard = replace(_apply_signals(heard, signals), offset=offset)
        self._heard[attempt.id] = heard
        metered = self._read_spend(attempt, directory, most)
        return heard if metered is None else replace(heard, spend=metered)

    def _read_spend(self, attempt: Attempt, directory: Path, most: int) -> Spend | None:
        if attempt.id not in self._meters:
            self._meters[attempt.id] = UsageTail(directory)
        self._meters[attempt.id].read_new(most=most)
        return self._meters[attempt.id].spend

    def keep_only(self, living: Mapping[str, object]) -> None:
        """Forget agents that have ended."""
        self._heard = {name: heard for name, heard in self._heard.items() if name in living}
        self._meters = {name: meter for name, meter in self._meters.items() if name in living}


def _apply_signals(heard: AgentProgress, signals: tuple[Signal, ...]) -> AgentProgress:
    for signal in signals:
        match signal:
            case TextOutput(text, more):
                heard = replace(heard, said=heard.said + text if more and heard.spoke else text, spoke=True)
            case UsageReport(spend):
                heard = replace(heard, spend=heard.spend + spend)
            case ObservedCall(tool, target):
                heard = replace(heard, tool=tool, target=target, spoke=False, acts=heard.acts + 1)
            case CallNotRun():
                heard = replace(heard, acts=max(heard.acts - 1, 0))
    return heard
