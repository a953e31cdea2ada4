"""Sentences for the outcomes of a session."""

from __future__ import annotations

from collections.abc import Mapping

OUTCOME_WORDS: Mapping[str, str] = {
    "completed": "completed: everything has landed",
    "stopped": "stopped",
    "plan_rejected": "plan rejected: nothing has been touched",
    "max_cycles": "stopped: the last cycle that the configuration allows is over",
    "planning_failed": "no plan: the planner gave none that can be used",
    "abandoned": "abandoned",
}
