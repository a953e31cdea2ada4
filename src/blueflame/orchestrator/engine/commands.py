"""Commands of ours that may hang: diagnostics, setup, a person's hooks. They run under a warden like any attempt.

So they end with all their children at their time limit even when we are gone, and an orchestrator that starts again
finds what became of them instead of running them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from blueflame.model.errors import ProcessFailed
from blueflame.orchestrator.engine.interface import (
    AttemptEngine,
    AttemptSpec,
    EndedWith,
    ExitReason,
    ProcessOutcome,
    Walls,
)

MAX_TRIES = 5  # under new names, when its warden was killed again and again
EXIT_STOPPED = 1
SIGNAL_EXIT_BASE = 128
EXIT_NOT_STARTED = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line for the shell. `name` begins with the session and is the key under which it runs at most once."""

    name: str
    text: str
    cwd: Path
    env: Mapping[str, str]
    timeout: float
    stdin: str = ""
    wall: Callable[[Path], Walls] | None = None  # puts up its walls, given the folder that is its own; None: none


class CommandResult(NamedTuple):
    exit_code: int
    seconds: float
    timed_out: bool
    attempt: str  # under which the engine has its log: both outputs in the order in which they came


async def run_command(engine: AttemptEngine, command: Command) -> CommandResult | None:
    """Run it to its end, or find the end that it had; None when it was cancelled."""
    n = 1
    for _try in range(MAX_TRIES):
        while _was_stopped_or_lost(await engine.inspect(f"{command.name}.{n}")):  # however often: a stop is no failure
            n += 1
        name = f"{command.name}.{n}"
        await engine.submit(_build_spec(command, name, engine.stage(name)))
        outcome = await engine.wait(name)
        if outcome.reason is ExitReason.CANCELLED:
            return None
        if outcome.reason is not ExitReason.LOST:
            return _build_result(outcome)
    raise ProcessFailed(f"{command.text!r} was ended from outside {MAX_TRIES} times ({engine.locate(command.name)}.*)")


def _was_stopped_or_lost(standing: object) -> bool:
    """Ended by a stop or lost with its warden, in an earlier life of ours: it is run again under a new name."""
    return isinstance(standing, EndedWith) and standing.outcome.reason in (ExitReason.CANCELLED, ExitReason.LOST)


def _build_spec(command: Command, name: str, folder: Path) -> AttemptSpec:
    walls = command.wall(folder) if command.wall else Walls(env=command.env)
    return AttemptSpec(
        attempt=name,
        argv=("/bin/sh", "-c", f"exec 2>&1\n{command.text}"),
        env=walls.env,
        cwd=str(command.cwd),
        prompt=command.stdin,
        timeout=command.timeout,
        limits=walls.limits,
        walls=walls.keys,
    )


def _build_result(outcome: ProcessOutcome) -> CommandResult:
    return CommandResult(
        _find_exit_code(outcome), outcome.seconds, outcome.reason is ExitReason.TIMEOUT, outcome.attempt
    )


def _find_exit_code(outcome: ProcessOutcome) -> int:
    """As a shell reports it; what we ended has failed, even if it exits with 0 at the last moment."""
    if outcome.reason is ExitReason.SPAWN_FAILED:
        return EXIT_NOT_STARTED
    if outcome.signal is not None:
        return SIGNAL_EXIT_BASE + outcome.signal
    if outcome.reason is not ExitReason.EXITED:
        return outcome.exit_code or EXIT_STOPPED
    assert outcome.exit_code is not None, f"{outcome.attempt} exited without a code"
    return outcome.exit_code
