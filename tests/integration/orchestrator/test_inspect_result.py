"""What is said of an attempt that failed."""

from __future__ import annotations

import pytest

from blueflame.agents.runtime import AgentOutput
from blueflame.orchestrator.attempts.inspect_result import describe_ending
from blueflame.orchestrator.context import FinishedAttempt
from blueflame.orchestrator.engine.interface import ExitReason, ProcessOutcome
from support.recorded_session import ID, Story


@pytest.mark.parametrize(
    ("reason", "words"),
    [(ExitReason.EXITED, "nothing to commit"), (ExitReason.SETUP_FAILED, "+ npm ci\nno network")],
)
def test_the_output_of_a_setup_is_shown_only_where_it_failed(reason: ExitReason, words: str) -> None:
    attempt = Story().working().session.attempts[f"{ID}.task-001.worker.1"].attempt
    outcome = ProcessOutcome(attempt=attempt.id, reason=reason, exit_code=1, setup_output="+ npm ci\nno network\n")
    problems = ("nothing to commit",) if reason is ExitReason.EXITED else ()
    finished = FinishedAttempt(attempt=attempt, base="a" * 40, outcome=outcome, gathered=AgentOutput(problems=problems))
    assert describe_ending(finished) == words
