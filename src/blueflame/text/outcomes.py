"""Sentences for the outcomes of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blueflame.model.verdict import Check
from blueflame.session.landed_work import LandedWork
from blueflame.text.sanitize import shorten_line

CHECK_WIDTH = 60

OUTCOME_WORDS: Mapping[str, str] = {
    "stopped": "stopped",
    "plan_rejected": "plan rejected: nothing has been touched",
    "max_cycles": "stopped: the last cycle that the configuration allows is over",
    "planning_failed": "no plan: the planner gave none that can be used",
    "abandoned": "abandoned",
}


def describe_session_outcome(outcome: str, work: LandedWork) -> str:
    """`completed` only says that nothing is left to do: dropped or undone work has not landed."""
    if outcome != "completed":
        return OUTCOME_WORDS.get(outcome, outcome)
    if not work.tasks:
        return "completed"
    if work.landed == work.tasks:
        return "completed: everything has landed"
    return f"completed: {describe_landed_work(work)}"


def describe_landed_work(work: LandedWork, *, within: str = "") -> str:
    """`3 of 5 landed in 2 cycles, 1 dropped, 1 undone`"""
    counts = {"proposed in pull requests": work.proposed, "undone": work.undone, "dropped": work.dropped}
    rest = [f"{count} {words}" for words, count in counts.items() if count]
    return ", ".join([f"{work.landed} of {work.tasks} landed{within}", *rest])


def describe_checks(checks: Sequence[Check]) -> str:
    """What was tested and how it ended: `npm test passed (12 tests)`."""
    ended = [f"{shorten_line(check.name, CHECK_WIDTH)} {describe_check(check)}" for check in checks]
    return "; ".join(ended) or "none are configured: nothing was tested"


def describe_check(check: Check) -> str:
    tests = f" ({check.tests_beside_base})" if check.tests_beside_base else ""
    if check.flaky or check.red_before:
        return f"is {check.state}{tests}"
    return f"{'passed' if check.passed else 'failed'}{tests}"
