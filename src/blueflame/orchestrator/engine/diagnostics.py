"""Run the diagnostic commands; their exit codes count, and how many tests they ran."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from blueflame.checks.counted_tests import count_junit_tests, count_tests
from blueflame.checks.failed_tests import find_failed_tests
from blueflame.model.verdict import Check
from blueflame.orchestrator.engine.commands import EXIT_STOPPED, Command, CommandResult, run_command
from blueflame.orchestrator.engine.interface import AttemptEngine
from blueflame.telemetry.junit_reports import read_test_reports

ReportCheck: TypeAlias = Callable[[str, Check | None], None]
"""Called with None as a command begins, and with its result as it ends."""

CHECK_OUTPUT_BYTES = 8000
MAX_READ_BYTES = 4 << 20  # summaries and the names of failed tests are near the end


async def run_checks(
    engine: AttemptEngine, lines: Sequence[str], like: Command, report: ReportCheck = lambda _line, _check: None
) -> tuple[Check, ...] | None:
    """Run all of them, so that every failure is reported at once; None when they were stopped.

    One after the other, since they share a checkout and often a port or a cache. `like` gives folder, timeout and the
    beginning of the name.
    """
    checks: list[Check] = []
    for n, line in enumerate(lines, start=1):
        report(line, None)
        if checks and not like.cwd.is_dir():
            gone = f"not run: {like.cwd} is gone, `{checks[-1].name}` or one before it removed it\n"
            check: Check | None = Check(name=line, exit_code=EXIT_STOPPED, seconds=0.0, output=gone)
        else:
            check = await run_check(engine, replace(like, name=f"{like.name}-{n:02d}", text=line))
        if check is None:
            return None
        report(line, check)
        checks.append(check)
    return tuple(checks)


async def run_check(engine: AttemptEngine, command: Command) -> Check | None:
    ran = await run_command(engine, command)
    if ran is None:
        return None
    log = await asyncio.to_thread(engine.read_log, ran.attempt, CHECK_OUTPUT_BYTES)
    tests, failures = await asyncio.to_thread(_read_tests, engine, ran, command.cwd)
    return Check(
        name=command.text,
        exit_code=ran.exit_code,
        seconds=ran.seconds,
        output=f"{log.text}{ran.detail}\n" if ran.detail else log.text,
        output_sha256=log.sha256,
        timed_out=ran.timed_out,
        failures=failures,
        tests=tests,
    )


def _read_tests(engine: AttemptEngine, ran: CommandResult, checkout: Path) -> tuple[int | None, tuple[str, ...]]:
    """How many tests ran, and the names of those that failed; reports are read where the output says nothing."""
    text = engine.read_log(ran.attempt, MAX_READ_BYTES).text
    tests = count_tests(text)
    if tests is None:
        tests = count_junit_tests(read_test_reports(checkout))
    return tests, find_failed_tests(text) if ran.exit_code else ()
