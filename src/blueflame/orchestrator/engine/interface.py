"""The interface of an engine: start, inspect, wait for and end attempts, by their ids.

The orchestrator owns the order of tasks, locks, budgets, retries and gates. The engine owns where an attempt runs,
whether it is alive, and how it is ended. An attempt that fails is a result, not an error of the engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from blueflame.agents.runtime import AgentOutput, Runtime
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError

MAX_OUTPUT_BYTES = 200 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """Prepares the worktree before the agent starts. A command that is a string is run by a shell."""

    name: str
    command: str | tuple[str, ...]
    timeout: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """The walls around a process, as keys of the launch file; none by default."""

    env: Mapping[str, str] = field(default_factory=dict)  # the whole environment inside
    limits: Mapping[str, int] = field(default_factory=dict)  # core cpu data fsize nofile nproc stack
    keys: Mapping[str, Any] = field(default_factory=dict)  # sandbox memory_mb processes min_free_disk_mb watch gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpec:
    """Everything needed to run one attempt; an id is started at most once."""

    attempt: str
    argv: tuple[str, ...]
    env: Mapping[str, str]  # the whole environment, nothing is inherited
    cwd: str
    prompt: str = ""  # on stdin: of any length, and not visible in `ps`
    setup: tuple[SetupStep, ...] = ()
    timeout: float = 300.0  # 0: no limit, here and for the next two
    silence: float = 0.0
    max_output: int = MAX_OUTPUT_BYTES
    grace: float = 5.0  # seconds between SIGTERM and SIGKILL
    limits: Mapping[str, int] = field(default_factory=dict)  # core cpu data fsize nofile nproc stack
    walls: Mapping[str, Any] = field(default_factory=dict)
    """Keys for the warden: sandbox, memory_mb, processes, min_free_disk_mb, watch, gateway; {} = no walls."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the gateway, by name: passed to the warden through a pipe, never written to disk."""


class ExitReason(StrEnum):
    EXITED = "exited"  # by itself: exit_code or signal say how
    TIMEOUT = "timeout"
    SILENT = "silent"  # no output for longer than allowed
    OUTPUT = "output"  # more output than allowed
    CANCELLED = "cancelled"
    SETUP_FAILED = "setup_failed"
    SPAWN_FAILED = "spawn_failed"  # the program could not be started at all
    MEMORY = "memory"  # more than the sandbox allows, like the next two
    PROCESSES = "processes"
    DISK = "disk"
    BUDGET = "budget"  # the gateway refused a model call: a budget is used up
    OUTAGE = "outage"  # the model was unavailable for longer than limits.outage_wait
    ACCOUNT = "account"  # the provider refuses the account: its login, its credit or the model
    UNWATCHED = "unwatched"  # its hook got no answer, or the canary call was allowed
    LOST = "lost"  # its warden died; what it left running was ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutcome:
    """How an attempt ended, as its warden recorded it."""

    attempt: str
    reason: ExitReason
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    cause: str = ""  # the budget that was used up (attempt, task, session, day), or the kind of outage
    unanswered: str = ""  # why its last call to its model got no whole answer, if that is not its doing
    seconds: float = 0.0  # of work: without those that it waited
    waited: float = 0.0  # seconds, for a person's answer or for its model
    setup_output: str = ""
    watch: Mapping[str, Any] = field(default_factory=dict)  # the report of the watcher; {}: no watcher ran
    free_disk: int | None = None  # the fewest bytes while it ran; None: not known, as from earlier wardens
    refused_forks: int = 0  # processes that a limit of others kept from starting while it ran
    was_removed: bool = False  # its folder, with all that is known of it


@dataclass(frozen=True, slots=True)
class Queued:
    """Not started yet; `submit` starts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    pid: int
    start_time: float
    agent_pid: int | None = None
    state: str = "starting"  # starting | setup | working | stopping | ended
    since: float | None = None
    state_since: float | None = None
    last_output: float | None = None
    output_bytes: int = 0
    parked: Mapping[str, Any] = field(default_factory=dict)  # why it waits for its model: kind, reason, since, until
    asking_since: float | None = None  # when it began to wait for an answer of a person
    held: float = 0.0  # seconds of such waits in all; they do not count for the timeout
    hindrance: str = ""  # why its warden cannot supervise it or record its end, and what to do


@dataclass(frozen=True, slots=True)
class Ended:
    outcome: ProcessOutcome


@dataclass(frozen=True, slots=True)
class WardenLost:
    """Started, and its warden is gone. `submit` or `wait` clean up and record the loss."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The status cannot be read. Nothing is killed and no slot is freed."""

    why: str


class StatusUnknown(WorldError):
    """Unknown for too long: a person must act. It may be running, so its record is not ended."""


AttemptStatus: TypeAlias = Queued | Running | Ended | WardenLost | Unreadable


@dataclass(frozen=True, slots=True)
class LogTail:
    text: str
    sha256: str


class AttemptEngine(Protocol):
    def stage(self, attempt: str) -> Path:
        """A local folder for files that belong to the attempt (policy, programs); `submit` takes them from there."""

    def mirror(self, attempt: str) -> Path:
        """A local copy of what the attempt has written so far, for readers that follow it."""

    def locate(self, attempt: str) -> str:
        """The place of the attempt, for messages to people."""

    def is_submitted(self, attempt: str) -> bool:
        """Whether it was submitted and its files still exist."""

    def read_file(self, attempt: str, name: str) -> bytes | None:
        """A small file that was staged or written by the warden; None when it does not exist."""

    def read_log(self, attempt: str, max_bytes: int) -> LogTail:
        """The end of its output, and the digest of the whole."""

    def read_output(self, attempt: str, runtime: Runtime) -> AgentOutput:
        """The whole output of an agent that has ended, as its runtime reads it."""

    async def submit(self, spec: AttemptSpec) -> None:
        """Start it; do nothing when it runs or has ended. Never runs anything twice."""

    async def cancel(self, attempt: str, reason: str, grace: float | None = None) -> None:
        """Ask it to end, and kill it after the grace. A later call can only shorten that."""

    def send_messages(self, attempt: str, texts: Sequence[str]) -> None:
        """Pass words to its agent: all so far, of which each is passed on once."""

    def count_read_messages(self, attempt: str) -> int:
        """How many of them the agent has read; also after it has ended."""

    def read_questions(self, attempt: str) -> Sequence[Mapping[str, Any]]:
        """What its agent has asked so far and waits, or waited, an answer for."""

    async def inspect(self, attempt: str) -> AttemptStatus: ...

    async def list_live(self, session: str) -> tuple[str, ...]:
        """Attempts of the session that run, whose status is unknown, or that are lost and not yet recorded."""

    async def wait(self, attempt: str) -> ProcessOutcome:
        """Wait until it has ended. Also for attempts that an earlier orchestrator submitted."""

    def iterate_hints(self) -> AsyncIterator[str]:
        """Ids of attempts to which something happened: hints that may come late, twice or not at all."""
