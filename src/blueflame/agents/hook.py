"""The hook program that agents ask before each tool call (hook.sh)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from blueflame.model.errors import WorldError

HOOK_VARIABLE = "BLUEFLAME_HOOK"
PORT_VARIABLE = "BLUEFLAME_HOOK_PORT"
HOOK_TIMEOUT = 5  # seconds (not milliseconds) that an agent gives its hook; hook.sh itself gives up after 4


def find_hook() -> Path:
    """Return its path. Raises WorldError when it cannot be run: agents would be refused everything without a reason."""
    path = _get_path()
    if not os.access(path, os.R_OK | os.X_OK):
        raise WorldError(
            f"the hook program {path} is missing or not executable; install blueflame again, or chmod 755 it"
        )
    return path


def was_hook_replaced(since: float) -> bool:
    """Whether the hook is gone, or it or a folder that it is installed in was moved or replaced since then: agents
    without a sandbox could not ask it meanwhile."""
    path = _get_path()
    folders = [each for each in path.parents if each.is_relative_to(sys.prefix)] or path.parents[:2]
    try:
        return any(each.stat().st_ctime > since for each in (path, *folders))
    except OSError:
        return True


def _get_path() -> Path:
    return Path(__file__).with_name("hook.sh")
