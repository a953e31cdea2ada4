"""The hook program that agents ask before each tool call (hook.sh)."""

from __future__ import annotations

import os
from pathlib import Path

from blueflame.model.errors import WorldError

HOOK_VARIABLE = "BLUEFLAME_HOOK"
PORT_VARIABLE = "BLUEFLAME_HOOK_PORT"
HOOK_TIMEOUT = 5  # seconds (not milliseconds) that an agent gives its hook; hook.sh itself gives up after 4


def find_hook() -> Path:
    """Return its path. Raises WorldError when it cannot be run: agents would be refused everything without a reason."""
    path = Path(__file__).with_name("hook.sh")
    if not os.access(path, os.R_OK | os.X_OK):
        raise WorldError(
            f"the hook program {path} is missing or not executable; install blueflame again, or chmod 755 it"
        )
    return path
