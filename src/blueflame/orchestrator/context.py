"""What a session works with, built in wiring.py and given to every effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from blueflame.agents.runtime import AgentOutput, Runtime
from blueflame.config.load import LoadedConfig
from blueflame.git.repository import Repository
from blueflame.lazy_dataclass import dataclass
from blueflame.memory.provider import NO_MEMORY, MemoryProvider
from blueflame.model.attempt import Attempt
from blueflame.model.event import Event
from blueflame.model.question import Question
from blueflame.model.settings import Settings
from blueflame.orchestrator.baseline import BaselineFile
from blueflame.orchestrator.engine.interface import AttemptEngine, ExitReason, ProcessOutcome
from blueflame.sandbox.toolchains import Toolchains
from blueflame.session.attempt_verdict import find_crash
from blueflame.system.clock import SystemClock
from blueflame.system.layout import ProjectPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassette:
    """The folder in which model answers are recorded, or from which they are replayed."""

    record: Path | None = None
    replay: Path | None = None


NO_CASSETTE = Cassette()


ConnectTerminal: TypeAlias = Callable[[Attempt, Path], Awaitable[None]]
"""Connects the person's terminal to that of an agent, by its folder, until the agent ends or the person leaves."""


class ScratchCheckout(NamedTuple):
    """A checkout that only checks used, and the first run of each command there."""

    path: Path
    runs: Sequence[str]


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
    baseline: BaselineFile
    filters: tuple[str, ...] = ()  # of the person's git, when the session was opened
    scripted: bool = False  # every agent plays a script
    cassette: Cassette = NO_CASSETTE
    memory: MemoryProvider = NO_MEMORY
    installing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while dependencies are installed for all
    converse: ConnectTerminal | None = None  # None: no person at a terminal, planners plan alone
    unneeded: list[ScratchCheckout] | None = None  # to be removed when the effect is recorded; None: removed at once


Emit: TypeAlias = Callable[[Sequence[Event]], None]
"""Records events of an effect that is still running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAttempt:
    """An attempt whose process has ended, with its output, before it is judged."""

    attempt: Attempt
    base: str
    outcome: ProcessOutcome
    gathered: AgentOutput
    reports_end: bool = False  # its program always prints a result at the end
    question: Question | None = None  # with which it ended
    asked: bool = True  # its model for anything; a program that needs none has, too
    printed: str = ""  # the end of its error output

    @property
    def crash(self) -> int | None:
        """The signal by which its program crashed, where that program is not the agent's own."""
        outcome = self.outcome
        is_foreign = self.reports_end and outcome.reason is ExitReason.EXITED
        return find_crash(outcome.exit_code, outcome.signal) if is_foreign else None

    @property
    def failure(self) -> str:
        """The failure that its program reports, as session/attempt_verdict names it; "" for none."""
        last = self.gathered.result
        if last is not None:
            return last.failure
        return "error" if self.reports_end else ""
