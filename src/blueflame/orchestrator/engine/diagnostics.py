"""Run the diagnostic commands; only their exit codes count."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from blueflame.model.verdict import Check
from blueflame.orchestrator.engine.commands import Command, run_command
from blueflame.orchestrator.engine.interface import AttemptEngine

CHECK_OUTPUT_BYTES = 8000


async def run_checks(engine: AttemptEngine, lines: Sequence[str], like: Command) -> tuple[Check, ...] | None:
    """Run all of them, so that every failure is reported at once; None when they were stopped.

    One after the other, since they share a checkout and often a port or a cache. `like` gives folder, timeout and the
    beginning of the name.
    """
    checks: list[Check] = []
    for n, line in enumerate(lines, start=1):
        check = await run_check(engine, replace(like, name=f"{like.name}-{n:02d}", text=line))
        if check is None:
            return None
        checks.append(check)
    return tuple(checks)


async def run_check(engine: AttemptEngine, command: Command) -> Check | None:
    ran = await run_command(engine, command)
    if ran is None:
        return None
    log = await asyncio.to_thread(engine.read_log, ran.attempt, CHECK_OUTPUT_BYTES)
    return Check(
        name=command.text,
        exit_code=ran.exit_code,
        seconds=ran.seconds,
        output=log.text,
        output_sha256=log.sha256,
        timed_out=ran.timed_out,
    )
