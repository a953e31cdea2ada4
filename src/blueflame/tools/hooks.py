"""Runs the commands that a person hung on the moments of a session. docs/hooks.md is the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from blueflame.tools.process import run_logged, tail

OUTPUT_BYTES = 4000


class HookResult(NamedTuple):
    exit_code: int
    output: str  # the end of what it said
    timed_out: bool
    seconds: float


async def run_hook(
    command: str,
    payload: Mapping[str, Any],
    *,
    cwd: Path,
    timeout: float,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> HookResult:
    """The payload as JSON on stdin; killed with all its children at the timeout. A log of an earlier run goes."""
    log.unlink(missing_ok=True)
    stdin = json.dumps(payload, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace") + b"\n"
    finished = await run_logged(command, cwd=cwd, env=env, log=log, timeout=timeout, stdin=stdin)
    return HookResult(finished.code, tail(log, OUTPUT_BYTES), finished.timed_out, finished.seconds)


def hook_environment(base: Mapping[str, str], payload: Mapping[str, Any], *, root: Path) -> dict[str, str]:
    """The person's own environment, for it is their command; only what would point git elsewhere is left out."""
    own = {name: value for name, value in base.items() if not name.startswith("GIT_")}
    return own | {
        "BLUEFLAME_ROOT": str(root),
        "BLUEFLAME_HOOK": str(payload["hook"]),
        "BLUEFLAME_SESSION": str(payload["session"]),
        "BLUEFLAME_CYCLE": str(payload["cycle"]),
        "BLUEFLAME_PROJECT": str(payload["project"]),
        "BLUEFLAME_BASE_BRANCH": str(payload["base_branch"]),
    }
