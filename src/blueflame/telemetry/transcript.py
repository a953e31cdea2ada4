"""What one agent wrote, called and used, entry by entry, in order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from blueflame.agents.runtime import OutputProblem, Runtime, Signal, TextOutput, UsageReport, read_new_signals
from blueflame.lazy_dataclass import dataclass
from blueflame.model.audit import ALLOW, ObservedCall
from blueflame.model.spend import NO_SPEND, Spend
from blueflame.system.lines import STEP_BYTES, FileTail
from blueflame.telemetry.activity import shorten_paths
from blueflame.telemetry.usage import USAGE_FILE, MeteredCall, UsageTail

MAX_STEP_BYTES = 1024 * 1024  # of output, read at a time


@dataclass(frozen=True, slots=True)
class AgentWords:
    text: str


@dataclass(frozen=True, slots=True)
class AgentComplaint:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptCall:
    """`allowed` is None while there is no decision, or none was needed."""

    tool: str
    target: str
    allowed: bool | None = None
    why: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCharge:
    """One answer of the model: its usage, and the total so far."""

    spend: Spend
    total: Spend
    model: str = ""
    refused: str = ""
    at: str = ""


TranscriptEntry: TypeAlias = AgentWords | AgentComplaint | TranscriptCall | ModelCharge


class AgentTranscript:
    """Reads incrementally. The audit log has a call first, the output has the order."""

    def __init__(self, runtime: Runtime | None, folder: Path, audit: Path, worktree: str | None) -> None:
        self._runtime, self._folder, self._worktree = runtime, folder, worktree
        self._offset = 0
        self._audit, self._usage = FileTail(audit), UsageTail(folder)
        self._lines = count()
        self._unreported: dict[int, Mapping[str, Any]] = {}  # decisions of the log, in order
        self._places: dict[str, deque[int]] = {}  # where they are, by call
        self._ahead: Counter[str] = Counter()  # calls from the log that the output does not show yet
        self._undecided: Counter[str] = Counter()  # the other way round
        self._charges: deque[MeteredCall] = deque()
        self._total = NO_SPEND
        self._all_read = False
        self._last_text = ""

    def read_entries(self) -> Iterator[TranscriptEntry]:
        """Yield new entries; of a large backlog a part."""
        self._read_logs()
        for signal in self._read_signals():
            yield from self._build_entries(signal)
        if self._all_read:
            for place in [*self._unreported]:
                yield from self._report_decision(place)
            yield from self._take_charges("~")

    def _read_signals(self) -> Iterator[Signal]:
        self._all_read = self._runtime is None
        goal = self._offset + MAX_STEP_BYTES
        while self._runtime is not None and self._offset < goal:
            signals, offset = read_new_signals(
                self._runtime, self._folder / "stdout.log", self._offset, step=STEP_BYTES
            )
            self._all_read = offset == self._offset
            if self._all_read:
                return
            self._offset = offset
            yield from signals

    def _read_logs(self) -> None:
        for line in self._audit.read_objects(most=MAX_STEP_BYTES):
            if line.get("rule") != "canary":
                place = next(self._lines)
                self._unreported[place] = line
                self._places.setdefault(_build_call_key(line), deque()).append(place)
        self._charges.extend(self._usage.read_calls(most=MAX_STEP_BYTES))

    def _build_entries(self, signal: Signal) -> Iterator[TranscriptEntry]:
        match signal:
            case TextOutput(text):
                if text != self._last_text:  # many agents repeat their last text as their result
                    self._last_text = text
                    yield AgentWords(text)
            case OutputProblem(text):
                yield AgentComplaint(text)
            case UsageReport(spend) if not (self._folder / USAGE_FILE).exists():
                self._total += spend
                yield ModelCharge(spend=spend, total=self._total)
            case ObservedCall():
                yield from self._match_call(signal)

    def _match_call(self, act: ObservedCall) -> Iterator[TranscriptEntry]:
        key = act.call or act.digest
        if self._places.get(key):
            yield from self._take_charges(self._read_time(self._places[key][0]))
            yield self._take_decision(self._places[key][0])
        elif self._ahead[key]:
            self._ahead[key] -= 1
        else:
            self._undecided[key] += 1
            yield TranscriptCall(
                tool=act.tool, target=shorten_paths(self._worktree, act.target), allowed=False if act.denied else None
            )

    def _report_decision(self, place: int) -> Iterator[TranscriptEntry]:
        """Yield a call that the output does not show yet; if it showed it undecided, only a refusal."""
        key, at = _build_call_key(self._unreported[place]), self._read_time(place)
        call = self._take_decision(place)
        known = self._undecided[key] > 0
        (self._undecided if known else self._ahead)[key] += -1 if known else 1
        if not known or not call.allowed:
            yield from self._take_charges(at)
            yield call

    def _read_time(self, place: int) -> str:
        return str(self._unreported[place].get("timestamp", ""))

    def _take_decision(self, place: int) -> TranscriptCall:
        line = self._unreported.pop(place)
        self._places[_build_call_key(line)].remove(place)
        allowed = line.get("decision") == ALLOW
        return TranscriptCall(
            tool=str(line.get("tool", "")),
            target=shorten_paths(self._worktree, str(line.get("target", ""))),
            allowed=allowed,
            why="" if allowed else shorten_paths(self._worktree, str(line.get("details", "") or line.get("rule", ""))),
            at=str(line.get("timestamp", "")),
        )

    def _take_charges(self, until: str) -> Iterator[TranscriptEntry]:
        """Yield the model's answers that ended before `until`: timestamps sort as text."""
        while self._charges and self._charges[0].at <= until:
            call = self._charges.popleft()
            self._total += call.spend
            yield ModelCharge(spend=call.spend, total=self._total, model=call.model, refused=call.refused, at=call.at)


def _build_call_key(line: Mapping[str, Any]) -> str:
    return str(line.get("call") or line.get("digest") or "")
