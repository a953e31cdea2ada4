"""The stages that a session goes through, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Stages as data. With a barrier every task waits at the end of a stage; without it each moves on when it may."""

    name: str = "waves"
    stages: tuple[str, ...] = ("plan", "work", "validate", "merge")
    barrier: bool = True

    def has_stage(self, stage: str) -> bool:
        return stage in self.stages
