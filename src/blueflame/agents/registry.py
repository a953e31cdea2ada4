"""Every way to drive an agent. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from blueflame.agents import acp, claude, codex, gemini, opencode, scripted, tmux
from blueflame.agents.runtime import Runtime

RUNTIMES: Mapping[str, Callable[[Mapping[str, Any], Path], Runtime]] = {
    "scripted": scripted.build_runtime,
    "claude": claude.build_runtime,
    "tmux": tmux.build_runtime,
    "codex": codex.build_runtime,
    "gemini": gemini.build_runtime,
    "opencode": opencode.build_runtime,
    "acp": acp.build_runtime,
}
"""From the runtime's settings and the folder that relative paths in them start from, to the runtime."""
