"""What the orchestrator asks of an engine, the same on one machine and on a fleet.

The orchestrator owns the order of tasks, locks, budgets, retries and gates. The engine owns where an attempt runs,
whether it lives, and how it is ended. An attempt that fails is a result; lost machinery is the engine's affair.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from blueflame.agents.runtime import AgentOutput, Runtime
from blueflame.model.errors import WorldError

MAX_OUTPUT_BYTES = 200 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """Makes the worktree ready before the agent starts. A string is the person's, for the shell."""

    name: str
    command: str | tuple[str, ...]
    timeout: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What stands around a process, in the warden's own words; nothing at all by default."""

    env: Mapping[str, str] = field(default_factory=dict)  # the whole environment, as it is inside
    limits: Mapping[str, int] = field(default_factory=dict)  # core cpu data fsize nofile nproc stack
    keys: Mapping[str, Any] = field(default_factory=dict)  # sandbox memory_mb processes min_free_disk_mb watch gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpec:
    """Everything that is needed to run one attempt; the id is the key under which it is started at most once."""

    attempt: str
    argv: tuple[str, ...]
    env: Mapping[str, str]  # the whole environment, nothing is inherited
    cwd: str
    prompt: str = ""  # given on stdin: no limit on its length, and not to be seen in `ps`
    setup: tuple[SetupStep, ...] = ()
    timeout: float = 300.0  # 0: no limit, here and for the next two
    silence: float = 0.0
    max_output: int = MAX_OUTPUT_BYTES
    grace: float = 5.0  # between being asked to end and being killed
    limits: Mapping[str, int] = field(default_factory=dict)  # core cpu data fsize nofile nproc stack
    walls: Mapping[str, Any] = field(default_factory=dict)
    """Keys for the warden: sandbox, memory_mb, processes, min_free_disk_mb, watch, gateway; {} = no walls."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the gateway alone, by name: through a pipe to the warden, never to the disk."""


class ExitReason(StrEnum):
    EXITED = "exited"  # by itself: exit_code or signal say how
    TIMEOUT = "timeout"
    SILENT = "silent"  # no output for longer than allowed
    OUTPUT = "output"  # more output than allowed
    CANCELLED = "cancelled"
    SETUP_FAILED = "setup_failed"
    SPAWN_FAILED = "spawn_failed"  # the program could not be started at all
    MEMORY = "memory"  # more than the sandbox allows, as the next two
    PROCESSES = "processes"
    DISK = "disk"
    BUDGET = "budget"  # the gateway has refused a model call: its money or tokens are used up
    OUTAGE = "outage"  # the model could not be reached for longer than it may wait
    UNWATCHED = "unwatched"  # its hook was not answered, or the canary was let through
    LOST = "lost"  # its warden vanished; what it left running has been ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutcome:
    """How an attempt ended, as its warden saw it."""

    attempt: str
    reason: ExitReason
    stage: str = "agent"  # setup | agent
    step: str = ""  # the setup step that failed
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    cause: str = ""  # whose budget was used up (attempt, task, session, day) or what was out (see `Running.parked`)
    started_at: float = 0.0
    ended_at: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    max_rss: int = 0  # bytes
    setup_output: str = ""
    left_running: tuple[int, ...] = ()  # processes that not even SIGKILL could end
    watch: Mapping[str, Any] = field(default_factory=dict)  # the watcher's own report at the end; {} = none


@dataclass(frozen=True, slots=True)
class Queued:
    """Nothing of it has been started (yet); `submit` starts it."""


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
    parked: Mapping[str, Any] = field(default_factory=dict)  # why it waits for its model: kind, reason, until, since
    held: float = 0.0  # seconds that it has waited so, in all: they do not count for its time


@dataclass(frozen=True, slots=True)
class EndedWith:
    outcome: ProcessOutcome


@dataclass(frozen=True, slots=True)
class Lost:
    """It was started, and its warden is gone. `submit` or `wait` clear up and record the loss."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """We cannot tell. Never kills and never frees a slot."""

    why: str


class StatusUnknown(WorldError):
    """Unknown for too long: a person has to look. It may be running, so its record may not be ended."""


AttemptStatus: TypeAlias = Queued | Running | EndedWith | Lost | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCapabilities:
    remote: bool = False
    heartbeat: float = 1.0  # seconds between two signs of life, at best
    slots: Mapping[str, int] = field(default_factory=dict)  # per role; a role that is not named has no limit


@dataclass(frozen=True, slots=True)
class ChangeHint:
    """Something happened to an attempt. May come late, twice or not at all: look, then believe."""

    attempt: str


@dataclass(frozen=True, slots=True)
class LogTail:
    text: str
    sha256: str


class AttemptEngine(Protocol):
    def capabilities(self) -> EngineCapabilities: ...

    def stage(self, attempt: str) -> Path:
        """A local folder for what goes along with the attempt (policy, programs); `submit` takes it from there."""

    def mirror(self, attempt: str) -> Path:
        """A local copy of what the attempt has written so far, current now; for readers that follow it."""

    def locate(self, attempt: str) -> str:
        """Where a person finds the attempt, for messages."""

    def is_submitted(self, attempt: str) -> bool:
        """Whether it was submitted and something of it is left."""

    def read_file(self, attempt: str, name: str) -> bytes | None:
        """A small file that was staged or that its warden wrote; None when there is none."""

    def read_log(self, attempt: str, max_bytes: int) -> LogTail:
        """The end of its output, and the digest of all of it."""

    def read_output(self, attempt: str, runtime: Runtime) -> AgentOutput:
        """The whole output of an agent that has ended, as its runtime reads it."""

    async def submit(self, order: AttemptSpec) -> None:
        """Start it, or attach to it when it runs, or do nothing when it has ended. Never runs anything twice."""

    async def cancel(self, attempt: str, reason: str, grace: float | None = None) -> None:
        """Ask it to end, and make it end after the grace. A later call may only hurry it."""

    async def inspect(self, attempt: str) -> AttemptStatus: ...

    async def live(self, session: str) -> tuple[str, ...]:
        """Attempts of the session that run, whose status is unknown, or that are lost and not yet recorded."""

    async def wait(self, attempt: str) -> ProcessOutcome:
        """Until it has ended; at once when it has. Also for attempts that an earlier orchestrator submitted."""

    def events(self) -> AsyncIterator[ChangeHint]: ...
