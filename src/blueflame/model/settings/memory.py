"""The part of the settings that says what is remembered across sessions, and where."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from blueflame.model.settings.fields import Duration, Section, Text


class MemorySettings(Section):
    provider: Literal["builtin", "beads", "none"] = "builtin"
    """Where: builtin, in .blueflame/memory.db; beads, mirrored to Beads through `bd` as well; none, nowhere."""
    context_tokens: int = Field(default=8_000, ge=0, le=15_000)
    """How much of it a planner is told at most, however many sessions there were; 0 = nothing."""
    codebase_tokens: int = Field(default=3_000, ge=0, le=15_000)
    """How large the map of the code base may be that a planner gets; 0 = none."""
    bd: Text = "bd"
    """The program of Beads."""
    bd_timeout: Duration = 20.0
    """Limit for each call of it; whoever takes longer is left out until the next session."""
