"""Every way to drive an agent. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from blueflame.agents.acp import acp
from blueflame.agents.claude import claude
from blueflame.agents.codex import codex
from blueflame.agents.gemini import gemini
from blueflame.agents.opencode import opencode
from blueflame.agents.runtime import Runtime
from blueflame.agents.scripted import scripted
from blueflame.agents.tmux import tmux

RUNTIMES: Mapping[str, Callable[[Mapping[str, Any], Path], Runtime]] = {
    "scripted": scripted,
    "claude": claude,
    "tmux": tmux,
    "codex": codex,
    "gemini": gemini,
    "opencode": opencode,
    "acp": acp,
}
"""From the runtime's settings and the folder that relative paths in them start from, to the runtime."""
