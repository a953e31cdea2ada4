"""The real command lines of agents, where they are installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


def find_bundled_claude() -> Path | None:
    """The one that comes with the Python package claude-agent-sdk."""
    found = find_spec("claude_agent_sdk")
    if found is None or found.origin is None:
        return None
    program = Path(found.origin).parent / "_bundled" / "claude"
    return program if program.is_file() else None


needs_claude = pytest.mark.skipif(
    find_bundled_claude() is None, reason="claude-agent-sdk, which brings claude, is not installed"
)
