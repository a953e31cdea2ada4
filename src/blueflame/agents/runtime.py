"""What every runtime provides: how to start an agent, and how to read its output. The warden owns the process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from blueflame.agents.structured_output import parse_object
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Duty, find_usual_duty
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

MAX_PARSED_BYTES = 128 * 1024 * 1024  # of a spool; claude prints its output in many small pieces
MAX_PROBLEMS = 20
MAX_CALLS = 100_000  # calls beyond that cannot be compared with the audit log: they count as not read
MAX_DETAIL_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBrief:
    """What one agent has to do, in terms that every runtime understands."""

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
    watched: bool = True  # there is a hook: an agent that cannot reach it must do nothing
    tools: tuple[str, ...] = ()  # allowed by its policy, with the policy's names
    system: str = ""  # added to its system prompt
    home: str = ""  # its HOME inside the sandbox
    gateway: str = ""  # where it reaches its model: http://127.0.0.1:PORT; "" for no model
    token: str = ""  # sent to the gateway instead of a key
    budget: Budget = UNLIMITED
    skills: tuple[str, ...] = ()
    interactive: bool = False  # it talks with a person: `AgentLaunch.terminal` must be set
    conversation: tuple[Mapping[str, Any], ...] = ()  # of the attempt that it continues (ResumingRuntime)
    declared_duty: Duty | None = None  # None: that of the built-in role of this name
    questions: int = 0  # that it may ask a person
    seat: str = ""
    ad_hoc: bool = False  # it works beside the agents of its role that the house's pool has

    @property
    def duty(self) -> Duty:
        return self.declared_duty or find_usual_duty(self.role)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLaunch:
    """How the warden starts one agent."""

    argv: tuple[str, ...]
    env: Mapping[str, str]  # in addition to what every agent gets
    stdin: str
    needs: tuple[Path, ...] = ()  # files and folders that its sandbox must show
    home: Mapping[str, str] = field(default_factory=dict)  # files written to its HOME first: relative path -> content
    apis: tuple[str, ...] = ()  # model APIs that it calls at the gateway: anthropic, openai, gemini
    dialect: str = "claude"  # of its questions to the hook (policy/dialects)
    terminal: bool = False  # its stdin is a terminal that a person can connect to
    questions: int = 0  # that it can ask with the tool `ask` (watcher/ask_tool)


@dataclass(frozen=True, slots=True)
class TextOutput:
    text: str
    more: bool = False  # continues the text before it


@dataclass(frozen=True, slots=True)
class UsageReport:
    spend: Spend


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """A plan or a verdict. The last one counts."""

    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutputProblem:
    """Output that cannot be read, or an error that the agent reports."""

    text: str


@dataclass(frozen=True, slots=True)
class CallNotRun:
    """A call that the agent's program rejected without asking the hook: its session has no such tool."""

    call: str


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of an open call. `denied`: the agent reports that it was refused and not done; `hook_failed`: because
    its hook gave no answer."""

    call: str
    denied: bool = False
    hook_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How the agent reports that its run ended.

    `failure` is "", `error` or a key of session/attempt_verdict.ENDING_BY_FAILURE; `reported` is the cost of the whole
    run by the agent's own prices; `in_words`: its last text is the structured output, if one is expected.
    """

    failure: str = ""
    detail: str = ""
    reported: Spend | None = None
    in_words: bool = False


Signal: TypeAlias = (
    TextOutput | UsageReport | StructuredOutput | OutputProblem | CallNotRun | CallResult | RunResult | ObservedCall
)


class Runtime(Protocol):
    @property
    def reports_end(self) -> bool:
        """Whether it always prints a RunResult, so that a missing one is a failure."""

    def find_problems(self) -> tuple[str, ...]:
        """Return why it cannot be used on this machine, and the fix: program missing, too old, lacks a flag."""

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        """Return how to start an agent for this brief; write the files that it needs to the attempt's directory."""

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        """Return the signals in one line of output. Never raises: an unreadable line is an OutputProblem."""


@runtime_checkable
class InstalledRuntime(Protocol):
    """A runtime that drives an installed program."""

    def describe_program(self) -> str:
        """Return name, version and path of the program; "" when it is not installed."""


@runtime_checkable
class ResumingRuntime(Protocol):
    """A runtime that can continue the conversation of an earlier attempt."""

    def read_conversation(self, folder: Path) -> tuple[Mapping[str, Any], ...]:
        """Return the messages of an ended attempt, from its folder; () when they cannot be continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOutput:
    """The sum of a whole spool. `metered` is False when the agent reported no usage, which is not the same as 0."""

    text: str = ""
    spend: Spend = NO_SPEND
    metered: bool = False
    output: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = ()
    problem_count: int = 0
    calls: tuple[ObservedCall, ...] = ()
    call_count: int = 0
    hook_failures: int = 0  # calls that were refused because the hook gave no answer
    unread_bytes: int = 0
    result: RunResult | None = None

    @property
    def answer(self) -> Mapping[str, Any] | None:
        """Its structured output; of an agent whose program enforces none, the object that is its last text."""
        return self.output if self.output is not None else parse_object(self.text)

    @property
    def is_incomplete(self) -> bool:
        """Whether a part of what the agent did is unknown, because its output was too large to read."""
        return self.unread_bytes > 0 or self.call_count > len(self.calls)


@dataclass(slots=True)
class _OutputCollector:
    text: str = ""
    spend: Spend = NO_SPEND
    metered: bool = False
    output: Mapping[str, Any] | None = None
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    calls: list[ObservedCall] = field(default_factory=list)
    call_count: int = 0
    unread_bytes: int = 0
    not_run: set[str] = field(default_factory=set)
    results: dict[str, bool] = field(default_factory=dict)
    hook_failures: int = 0
    result: RunResult | None = None
    after_text: bool = False

    def add(self, signal: Signal) -> None:
        after_text, self.after_text = self.after_text, isinstance(signal, TextOutput)
        match signal:
            case TextOutput(text, more):
                self.text = self.text + text if more and after_text else text
            case UsageReport(spend):
                self.spend, self.metered = self.spend + spend, True
            case StructuredOutput(output):
                self.output = output
            case ObservedCall():
                self.call_count += 1
                if len(self.calls) < MAX_CALLS:
                    self.calls.append(signal)
            case CallNotRun(call):
                self.not_run.add(call)
            case CallResult(call, denied, failed):
                self.results[call] = denied
                self.hook_failures += failed
            case RunResult():
                self._add_result(signal)
            case OutputProblem(text):
                self.problem_count += 1
                if len(self.problems) < MAX_PROBLEMS:
                    self.problems.append(text)

    def _add_result(self, result: RunResult) -> None:
        """A program reports one result; a second one may come from code that it ran, so neither is believed."""
        if self.result is None:
            self.result = result
        elif not self.result.failure:
            self.result = replace(
                self.result, failure="error", detail="it reported more than one result: one is forged"
            )

    def build_output(self) -> AgentOutput:
        calls = tuple(self._list_finished_calls())
        in_words = self.output is None and self.result is not None and self.result.in_words
        return AgentOutput(
            text=self.text,
            spend=self.spend,
            metered=self.metered,
            output=parse_object(self.text) if in_words else self.output,
            problems=tuple(self.problems),
            problem_count=self.problem_count,
            calls=calls,
            call_count=self.call_count - len(self.calls) + len(calls),
            hook_failures=self.hook_failures,
            unread_bytes=self.unread_bytes,
            result=self.result,
        )

    def _list_finished_calls(self) -> Iterator[ObservedCall]:
        """List all calls that were run, and open calls. After a failure of the program, open calls are left out: their
        results cannot come any more, and the attempt has failed anyway."""
        failed = self.result is None or self.result.failure != ""
        for call in self.calls:
            if call.call in self.not_run or (call.open and failed and call.call not in self.results):
                continue
            yield replace(call, denied=call.denied or self.results.get(call.call, False), open=False)


def read_spool(runtime: Runtime, path: Path, *, max_bytes: int = MAX_PARSED_BYTES) -> AgentOutput:
    """Read the output of an ended agent. Of a huge spool, read the beginning and the end; the gap is a problem."""
    collector = _OutputCollector()
    for part in read_spool_lines(path, max_bytes):
        if isinstance(part, SkippedBytes):
            collector.unread_bytes += part.size
            collector.add(OutputProblem(_describe_gap(part, path.name)))
        else:
            for signal in runtime.parse_line(part):
                collector.add(signal)
    return collector.build_output()


def _describe_gap(gap: SkippedBytes, name: str) -> str:
    if gap.in_one_line:
        return f"a line of {gap.size} bytes in {name} was not read: it is too long"
    return f"{gap.size} bytes in the middle of {name} were not read: it is too large"


def read_new_signals(
    runtime: Runtime, path: Path, offset: int, *, step: int = BLOCK_BYTES, max_bytes: int = MAX_LINE_BYTES
) -> tuple[tuple[Signal, ...], int]:
    """Return the signals since `offset`, from whole lines only, and the next offset. For live views, which poll it.

    Reads about `step` bytes at a time, so that a flood does not block; a longer line is read whole.
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


def parse_json_line(line: str, parse: Callable[[Mapping[str, Any]], Iterable[Signal]]) -> tuple[Signal, ...]:
    """Return the signals that `parse` finds in a line, which must be one JSON object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return (OutputProblem(f"a line of its output is not JSON: {line[:200]!r}"),)
    if not isinstance(message, dict):
        return (OutputProblem(f"a line of its output is not an object: {line[:200]!r}"),)
    return tuple(parse(message))


def parse_own_message(message: Mapping[str, Any]) -> Signal:
    """Parse what both our own agent programs print, the scripted player and the ACP client."""
    match message.get("type"):
        case "say":
            return TextOutput(str(message.get("text", "")))
        case "action":
            tool, target, call, digest = (str(message.get(name, "")) for name in ("tool", "target", "call", "digest"))
            return ObservedCall(tool, target, call, digest, message.get("denied") is True)
        case "error":
            return OutputProblem(str(message.get("text", "an error without a text")))
        case kind:
            return OutputProblem(f"a line of its output has an unknown type: {kind!r:.80}")


def parse_error_message(error: object) -> str:
    """Return the `message` of an error object, cut to a length for display."""
    text = error.get("message") if isinstance(error, dict) else None
    return (text if isinstance(text, str) and text else "it failed without a message")[:MAX_DETAIL_CHARS]
