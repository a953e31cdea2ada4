"""What people and the next attempt are told about an ending."""

from __future__ import annotations

from blueflame.agents.runtime import AgentOutput
from blueflame.orchestrator.engine.interface import ProcessOutcome


def describe_ending(outcome: ProcessOutcome, gathered: AgentOutput) -> str:
    last = gathered.result.detail if gathered.result is not None else ""
    said = [outcome.detail, outcome.setup_output.strip(), last, *gathered.problems[:3]]
    return "\n".join(part for part in said if part) or gathered.text
