"""What running agents have written and used so far, read incrementally."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from blueflame.agents.runtime import CallNotRun, Runtime, Signal, TextOutput, UsageReport, read_new_signals
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt
from blueflame.model.audit import ObservedCall
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.telemetry.usage import UsageTail

STEP_BYTES = 64 * 1024  # small: views read several agents several times a second


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgress:
    text: str = ""  # what it wrote last
    tool: str = ""  # of the latest call that its output shows
    target: str = ""
    text_is_last: bool = False  # the text came after that call
    calls: int = 0
    spend: Spend = NO_SPEND  # by the gateway's count; without a gateway by the agent's report
    offset: int = 0


class ProgressReader:
    """One for each reader; keeps its read positions."""

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = runtimes
        self._progress: dict[str, AgentProgress] = {}
        self._meters: dict[str, UsageTail] = {}

    def read_progress(self, attempt: Attempt, directory: Path, *, most: int = 1) -> AgentProgress:
        """Return everything so far, after reading a step or about `most` new bytes."""
        progress = self._progress.get(attempt.id, AgentProgress())
        runtime = self._runtimes.get(attempt.runtime)
        goal = progress.offset + most
        while runtime is not None and progress.offset < goal:
            signals, offset = read_new_signals(runtime, directory / "stdout.log", progress.offset, step=STEP_BYTES)
            if offset == progress.offset:
                break
            progress = replace(_apply_signals(progress, signals), offset=offset)
        self._progress[attempt.id] = progress
        meter = self._meters.setdefault(attempt.id, UsageTail(directory))
        meter.read_new(most=most)
        return progress if meter.spend is None else replace(progress, spend=meter.spend)

    def keep_only(self, live: Mapping[str, object]) -> None:
        """Forget agents that have ended."""
        self._progress = {name: progress for name, progress in self._progress.items() if name in live}
        self._meters = {name: meter for name, meter in self._meters.items() if name in live}


def _apply_signals(progress: AgentProgress, signals: tuple[Signal, ...]) -> AgentProgress:
    for signal in signals:
        match signal:
            case TextOutput(text, more):
                progress = replace(
                    progress, text=progress.text + text if more and progress.text_is_last else text, text_is_last=True
                )
            case UsageReport(spend):
                progress = replace(progress, spend=progress.spend + spend)
            case ObservedCall(tool, target):
                progress = replace(progress, tool=tool, target=target, text_is_last=False, calls=progress.calls + 1)
            case CallNotRun():
                progress = replace(progress, calls=max(progress.calls - 1, 0))
    return progress
