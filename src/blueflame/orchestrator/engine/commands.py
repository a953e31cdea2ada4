"""Run checks, setup commands and user hooks under a warden, like attempts.

So they end at their time limit with all their children even when the orchestrator is gone, and the next orchestrator
finds their results instead of running them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ProcessFailed
from blueflame.orchestrator.engine.interface import (
    AttemptEngine,
    AttemptSpec,
    Ended,
    ExitReason,
    ProcessOutcome,
    Walls,
)

MAX_TRIES = 5  # when it or its warden was killed each time
EXIT_STOPPED = 1
SIGNAL_EXIT_BASE = 128
CANNOT_RUN = frozenset({126, 127})  # of the shell: it cannot execute the program, or did not find it
RUN_FIX = "install its program, make it executable, or correct the command"
KEEP_FIX = "if it does that itself, correct the command; else keep other programs away from that folder"
MAX_LOG_BYTES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line for the shell. `name` begins with the session; a name runs at most once."""

    name: str
    text: str
    cwd: Path
    env: Mapping[str, str]
    timeout: float
    stdin: str = ""
    wall: Callable[[Path], Walls] | None = None  # builds its walls, given its folder; None: no walls
    judges: bool = False  # its exit code is a verdict: one that it did not give itself is an error


class CommandResult(NamedTuple):
    exit_code: int
    seconds: float
    timed_out: bool
    attempt: str  # its id in the engine; the log has stdout and stderr in order
    detail: str = ""  # the limit that it reached


async def run_command(engine: AttemptEngine, command: Command) -> CommandResult | None:
    """Run it, or find the result of an earlier run; None when it was cancelled.

    One that is killed from outside runs again. After some times its exit code counts: it may be its own doing.
    Raise ProcessFailed where it has no result.
    """
    n = 1
    for left in reversed(range(MAX_TRIES)):
        while _did_not_run(command, await engine.inspect(f"{command.name}.{n}")):  # stops do not count as tries
            n += 1
        name = f"{command.name}.{n}"
        await engine.submit(_build_spec(command, name, engine.stage(name)))
        outcome = await engine.wait(name)
        if outcome.reason is ExitReason.CANCELLED:
            return None
        if outcome.reason is ExitReason.SPAWN_FAILED:
            raise ProcessFailed(f"{command.text!r} could not be started in {command.cwd}: {outcome.detail}")
        if command.judges and outcome.exit_code in CANNOT_RUN:
            words = engine.read_log(name, MAX_LOG_BYTES).text.strip()
            raise ProcessFailed(f"{command.text!r} cannot be run in {command.cwd}: {words}; {RUN_FIX}")
        if outcome.was_removed:  # it has run: once more only after a pause, for it may remove its own folder
            raise ProcessFailed(f"the result of {command.text!r} is gone: {outcome.detail} while it ran; {KEEP_FIX}")
        if outcome.reason is not ExitReason.LOST or (not left and not command.judges and _has_result(outcome)):
            timed_out = outcome.reason is ExitReason.TIMEOUT
            detail = "" if timed_out else outcome.detail
            return CommandResult(_find_exit_code(outcome), outcome.seconds, timed_out, outcome.attempt, detail)
    raise ProcessFailed(f"{command.text!r} was killed from outside {MAX_TRIES} times ({engine.locate(command.name)}.*)")


NOT_RUN = frozenset({ExitReason.CANCELLED, ExitReason.LOST, ExitReason.SPAWN_FAILED})


def _did_not_run(command: Command, status: object) -> bool:
    """Whether an earlier run was stopped, killed or never started: then it runs under a new name."""
    if not isinstance(status, Ended):
        return False
    return status.outcome.reason in NOT_RUN or (command.judges and status.outcome.exit_code in CANNOT_RUN)


def _has_result(outcome: ProcessOutcome) -> bool:
    """Whether the command itself came to an end, and not only its warden."""
    return outcome.exit_code is not None or outcome.signal is not None


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


def _find_exit_code(outcome: ProcessOutcome) -> int:
    """As a shell reports it; a command that we ended has failed, even if it exits with 0 in the end."""
    if outcome.signal is not None:
        return SIGNAL_EXIT_BASE + outcome.signal
    if outcome.reason is not ExitReason.EXITED:
        return outcome.exit_code or EXIT_STOPPED
    assert outcome.exit_code is not None, f"{outcome.attempt} exited without a code"
    return outcome.exit_code
