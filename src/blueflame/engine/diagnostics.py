"""Runs the diagnostic commands ourselves: an exit code that we saw counts, one that an agent tells of does not."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from blueflame.model.verdict import Check
from blueflame.tools.process import run_logged, tail

OUTPUT_BYTES = 8000


async def run_checks(
    commands: Sequence[str],
    *,
    checkout: Path,
    timeout: float,
    log_dir: Path,
    env: Mapping[str, str] | None = None,
    fail_fast: bool = False,
) -> tuple[Check, ...]:
    """In the given order, one after the other (they share a checkout, and often a port or a cache).

    The timeout is for each. All are run unless `fail_fast`: whoever mends a result wants to see everything at once.
    """
    checks: list[Check] = []
    for n, command in enumerate(commands, start=1):
        log = log_dir / f"check-{n:02d}.log"
        checks.append(await _run_check(command, checkout=checkout, timeout=timeout, log=log, env=env))
        if fail_fast and not checks[-1].passed:
            break
    return tuple(checks)


async def _run_check(
    command: str, *, checkout: Path, timeout: float, log: Path, env: Mapping[str, str] | None
) -> Check:
    log.unlink(missing_ok=True)  # logs are appended to, and the digest is of this run only
    finished = await run_logged(command, cwd=checkout, env=env, log=log, timeout=timeout)
    with log.open("rb") as said:
        digest = hashlib.file_digest(said, "sha256").hexdigest()
    return Check(
        name=command,
        exit_code=finished.code,
        seconds=finished.seconds,
        output=tail(log, OUTPUT_BYTES),
        output_sha256=digest,
        timed_out=finished.timed_out,
    )
