"""What a session works with, built in wiring.py. Every effect gets it; nothing else reaches the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from blueflame.agents.runtime import AgentOutput, Runtime
from blueflame.config.load import LoadedConfig
from blueflame.git.repository import Repository
from blueflame.memory.provider import NO_MEMORY, MemoryProvider
from blueflame.model.attempt import Attempt
from blueflame.model.event import Event
from blueflame.model.settings import Settings
from blueflame.orchestrator.engine.interface import AttemptEngine, ProcessOutcome
from blueflame.sandbox.toolchains import Toolchains
from blueflame.system.clock import SystemClock
from blueflame.system.layout import ProjectPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassette:
    """Where the model's answers are kept, or where they come from instead of a model."""

    record: Path | None = None
    replay: Path | None = None


NO_CASSETTE = Cassette()


ConnectTerminal: TypeAlias = Callable[[Attempt, Path], Awaitable[None]]
"""Connects the person's terminal with the agent's, whose folder it gets; until the agent ends or the person leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    settings: Settings
    repo: Repository
    paths: ProjectPaths
    engine: AttemptEngine
    runtimes: Mapping[str, Runtime]
    clock: SystemClock
    environ: Mapping[str, str]
    read_config: Callable[[], LoadedConfig]
    make_runtimes: Callable[[Settings], Mapping[str, Runtime]]
    find_tools: Callable[[], Toolchains]  # slow, and needed only with a sandbox
    cassette: Cassette = NO_CASSETTE
    memory: MemoryProvider = NO_MEMORY
    converse: ConnectTerminal | None = None  # None: there is no person at a terminal, and planners plan in one shot


Emit: TypeAlias = Callable[[Sequence[Event]], None]
"""How an effect tells of something before it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAttempt:
    """What an attempt leaves in our hands when its process is gone."""

    attempt: Attempt
    base: str
    outcome: ProcessOutcome
    gathered: AgentOutput
    finishes: bool = False  # its program always has a last word

    @property
    def failure(self) -> str:
        """How its own program says that it failed, in a word of session/attempt_verdict; "" when it does not."""
        last = self.gathered.result
        if last is not None:
            return last.failure
        return "error" if self.finishes else ""
