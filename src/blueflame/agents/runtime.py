"""How an agent is driven: how to start one, and how to read what it says. The warden owns the process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from blueflame.agents.structured_output import parse_object
from blueflame.model.audit import ObservedCall
from blueflame.model.spend import NO_SPEND, UNLIMITED, Budget, Spend
from blueflame.model.task import Task
from blueflame.system.lines import (
    BLOCK_BYTES,
    MAX_LINE_BYTES,
    SkippedBytes,
    read_bytes_at,
    read_spool_lines,
    split_lines,
)

MAX_PARSED_BYTES = (
    128 * 1024 * 1024
)  # bytes of a spool that are read, line by line; claude says things in many small pieces
MAX_PROBLEMS = 20
MAX_ACTS = 100_000  # more than that cannot be compared with the audit log: they count as not read


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBrief:
    """What one agent is to do, in terms that every runtime understands."""

    attempt: str
    agent_id: str
    role: str
    subject: str
    n: int
    session: str
    worktree: str
    prompt: str
    model: str = ""
    schema: Mapping[str, Any] | None = None  # of the structured output that is expected
    base: str = ""
    branch: str = ""
    ports: tuple[int, ...] = ()
    request: str = ""
    task: Task | None = None
    allowed_paths: tuple[str, ...] = ()
    watched: bool = True  # there will be a hook to ask: an agent that finds none must do nothing
    tools: tuple[str, ...] = ()  # that its policy lets it use, in the policy's words
    system: str = ""  # what is added to its system prompt
    home: str = ""  # its HOME, as it sees it
    gateway: str = ""  # where it reaches its model: http://127.0.0.1:PORT; "" when it is not to have one
    token: str = ""  # what it shows the gateway in place of a key
    budget: Budget = UNLIMITED
    skills: tuple[str, ...] = ()
    interactive: bool = False  # it talks with a person: `Launch.terminal` must be set


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLaunch:
    argv: tuple[str, ...]
    env: Mapping[str, str]  # in addition to what every agent gets
    stdin: str
    needs: tuple[Path, ...] = ()  # files and folders that it reads, to be shown in its box
    home: Mapping[str, str] = field(default_factory=dict)  # files put into its HOME first: relative path -> content
    apis: tuple[str, ...] = ()  # that it calls its model by, at the gateway: anthropic, openai, gemini
    dialect: str = "claude"  # in which words it asks its hook (watcher/dialects.py)
    terminal: bool = False  # its stdin is a terminal that a person can be connected to


@dataclass(frozen=True, slots=True)
class TextOutput:
    text: str
    more: bool = False  # it goes on from what was said just before, without a break


@dataclass(frozen=True, slots=True)
class UsageReport:
    spend: Spend


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """The structured output: a plan, a verdict. The last one counts."""

    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutputProblem:
    """Something about the agent's output is wrong, or the agent itself reports an error."""

    text: str


@dataclass(frozen=True, slots=True)
class CallNotRun:
    """A call that its own program turned away, before anybody was asked: there is no such tool in its session."""

    call: str


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of an open call has come back. `denied`: its program says that it was refused, and not done."""

    call: str
    denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Its program's own last word. `failure` is "" when all went well, else a word
    of session/attempt_verdict.ENDING_BY_FAILURE, or
    `error`. The last one counts; `reported` is what it says the whole run has cost, by its own prices; `in_words`: its
    structured output, where one is asked for, is what it said last."""

    failure: str = ""
    detail: str = ""
    reported: Spend | None = None
    in_words: bool = False


Acted: TypeAlias = ObservedCall
Signal: TypeAlias = (
    TextOutput | UsageReport | StructuredOutput | OutputProblem | CallNotRun | CallResult | RunResult | Acted
)


class Runtime(Protocol):
    @property
    def finishes(self) -> bool:
        """Whether it always ends with a last word of its own, so that one that is missing is a failure."""

    def find_problems(self) -> tuple[str, ...]:
        """Why it cannot be used on this machine, in words to act on: no program, too old, lacks a flag."""

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        """How to start an agent for this brief; files that it needs are put into the attempt's directory."""

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        """What one line of its output means. Never raises: a line that makes no sense is a complaint."""


@runtime_checkable
class InstalledRuntime(Protocol):
    """A runtime that drives a program which a person has installed."""

    def describe_program(self) -> str:
        """Which one would be started, its version and place, for people; "" when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOutput:
    """What a whole spool amounts to. `metered` is False when the agent never said what it used: not the same as 0."""

    said: str = ""
    spend: Spend = NO_SPEND
    metered: bool = False
    output: Mapping[str, Any] | None = None
    complaints: tuple[str, ...] = ()
    complaint_count: int = 0
    actions: int = 0
    acts: tuple[ObservedCall, ...] = ()
    unread_bytes: int = 0
    finished: RunResult | None = None

    @property
    def unread(self) -> bool:
        """Part of what it did is not known: of a flood not everything is read."""
        return self.unread_bytes > 0 or self.actions > len(self.acts)


@dataclass(slots=True)
class _OutputCollector:
    said: str = ""
    spend: Spend = NO_SPEND
    metered: bool = False
    output: Mapping[str, Any] | None = None
    complaints: list[str] = field(default_factory=list)
    complaint_count: int = 0
    actions: int = 0
    acts: list[ObservedCall] = field(default_factory=list)
    not_run: set[str] = field(default_factory=set)
    answered: dict[str, bool] = field(default_factory=dict)
    finished: RunResult | None = None
    speaking: bool = False

    def add(self, signal: Signal) -> None:
        was_speaking, self.speaking = self.speaking, isinstance(signal, TextOutput)
        match signal:
            case TextOutput(text, more):
                self.said = self.said + text if more and was_speaking else text
            case UsageReport(spend):
                self.spend, self.metered = self.spend + spend, True
            case StructuredOutput(output):
                self.output = output
            case ObservedCall():
                self.actions += 1
                if len(self.acts) < MAX_ACTS:
                    self.acts.append(signal)
            case CallNotRun(call):
                self.not_run.add(call)
            case CallResult(call, denied):
                self.answered[call] = denied
            case RunResult():
                self.finished = signal
            case OutputProblem(text):
                self.complaint_count += 1
                if len(self.complaints) < MAX_PROBLEMS:
                    self.complaints.append(text)

    def find_structured_output(self) -> Mapping[str, Any] | None:
        in_words = self.output is None and self.finished is not None and self.finished.in_words
        return parse_object(self.said) if in_words else self.output

    def list_acts(self) -> Iterator[ObservedCall]:
        """Without the calls that came to nothing. One that still waits for its result counts, unless its program
        broke off by itself: then there was nobody left to ask for it, and the attempt has failed anyway."""
        broken_off = self.finished is None or self.finished.failure != ""
        for act in self.acts:
            if act.call in self.not_run or (act.open and broken_off and act.call not in self.answered):
                continue
            yield replace(act, denied=act.denied or self.answered.get(act.call, False), open=False)


def read_spool(runtime: Runtime, path: Path, *, max_bytes: int = MAX_PARSED_BYTES) -> AgentOutput:
    """All that an ended agent said. Of a huge spool the beginning and the end, and the gap is a complaint."""
    gathering = _OutputCollector()
    unread = 0
    for part in read_spool_lines(path, max_bytes):
        if isinstance(part, SkippedBytes):
            unread += part.size
            gathering.add(OutputProblem(_describe_gap(part, path.name)))
            continue
        for signal in runtime.parse_line(part):
            gathering.add(signal)
    acts = tuple(gathering.list_acts())
    return AgentOutput(
        said=gathering.said,
        spend=gathering.spend,
        metered=gathering.metered,
        output=gathering.find_structured_output(),
        complaints=tuple(gathering.complaints),
        complaint_count=gathering.complaint_count,
        actions=gathering.actions - len(gathering.acts) + len(acts),
        acts=acts,
        unread_bytes=unread,
        finished=gathering.finished,
    )


def _describe_gap(gap: SkippedBytes, name: str) -> str:
    if gap.in_one_line:
        return f"a line of {gap.size} bytes in {name} was not read: it is too long"
    return f"{gap.size} bytes in the middle of {name} were not read: it is too large"


def read_new_signals(
    runtime: Runtime, path: Path, offset: int, *, step: int = BLOCK_BYTES, max_bytes: int = MAX_LINE_BYTES
) -> tuple[tuple[Signal, ...], int]:
    """What was said since `offset`, whole lines only, and where to go on. For live views: call again and again.

    At most about `step` bytes at a time, so that a flood holds nobody up; a longer line is read whole.
    """
    data = read_bytes_at(path, offset, min(step, max_bytes))
    if b"\n" not in data and len(data) == step < max_bytes:
        data = read_bytes_at(path, offset, max_bytes)
    end = data.rfind(b"\n") + 1
    if not end:
        if len(data) < max_bytes:
            return (), offset
        return (OutputProblem(f"a line longer than {max_bytes} bytes was left out"),), offset + len(data)
    signals = tuple(signal for line in split_lines(data[:end]) for signal in runtime.parse_line(line))
    return signals, offset + end
