"""Named behaviours for scripted agents: how real ones behave and misbehave."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, TypeAlias

from blueflame.agents.runtime import AgentBrief
from blueflame.agents.scripted.placeholders import escape_placeholders
from blueflame.model.attempt import Duty

Step: TypeAlias = Mapping[str, Any]
"""One step for the player: `do` names it, the other keys are its arguments."""

NOTE_FILE = "blueflame-note.md"
MAX_TITLE = 60  # characters of a title that go into a commit's subject


def build_good_steps(brief: AgentBrief) -> tuple[Step, ...]:
    """Build the smallest result that is accepted: a size, a plan of one task, a note and a commit, or a pass."""
    match brief.duty:
        case Duty.SIZE:
            used = _build_usage(input_tokens=600, output_tokens=40, cost_usd=0.002)
            return ({"do": "answer", "output": {"tier": 3, "reason": "several parts of the code take part"}}, used)
        case Duty.PLAN:
            return (
                {"do": "say", "text": "One task will do."},
                {"do": "answer", "output": {"tasks": [_build_only_task(brief)]}},
                _build_usage(input_tokens=2400, output_tokens=350, cost_usd=0.02),
            )
        case Duty.CURATE:
            return (
                {"do": "answer", "output": {"changes": []}},
                _build_usage(input_tokens=1200, output_tokens=40, cost_usd=0.005),
            )
        case Duty.JUDGE | Duty.MERGE:
            used = _build_usage(input_tokens=1800, output_tokens=120, cost_usd=0.01)
            return (_build_verdict("pass", "does what the task asks"), used)
    return (
        {"do": "say", "text": "Working on {title}."},
        {"do": "note", "text": "{title} ({task}, attempt {attempt}, {session})", "file": NOTE_FILE},
        COMMIT,
        USUAL_USAGE,
    )


def build_steps(behaviour: str, brief: AgentBrief) -> tuple[Step, ...]:
    """Build the steps of a behaviour; WORK becomes what a good agent would do."""
    return tuple(
        step for part in BEHAVIOURS[behaviour] for step in (build_good_steps(brief) if part is WORK else (part,))
    )


WORK: Step = {"do": "work"}
"""Replaced by what a good agent would do."""


def _build_usage(**used: float) -> Step:
    return {"do": "usage", **used}


def _build_verdict(status: str, notes: str) -> Step:
    return {"do": "answer", "output": {"status": status, "notes": notes, "issues": [], "confidence": 0.9}}


COMMIT: Step = {"do": "commit", "message": "{title}"}
USUAL_USAGE = _build_usage(input_tokens=1500, output_tokens=400, cost_usd=0.03)
SMALL_USAGE = _build_usage(input_tokens=900, output_tokens=80, cost_usd=0.01)
_KEY = "AKIA" + "Z7Q2X4W6V8U1T3S5"  # a fake, and split: scanners of our own source would find it

BEHAVIOURS: Mapping[str, tuple[Step, ...]] = {
    "good": (WORK,),
    "stuck": ({"do": "say", "text": "Let me think about this."}, {"do": "sleep", "seconds": -1}),
    "stubborn": ({"do": "say", "text": "I will not stop."}, {"do": "sleep", "seconds": -1, "ignore_term": True}),
    # Claims to be done without a commit or a structured answer.
    "liar": ({"do": "say", "text": "Done. All tests pass."}, SMALL_USAGE),
    "crasher": (
        {"do": "say", "text": "Starting."},
        {"do": "note", "text": "half done", "file": NOTE_FILE},
        {"do": "exit", "signal": int(signal.SIGSEGV)},
    ),
    # Two of them with the same lock cannot be merged.
    "conflicter": (
        {"do": "note", "text": "only {task} may write this line", "file": "conflict.md", "overwrite": True},
        COMMIT,
        USUAL_USAGE,
    ),
    "secret-leaker": ({"do": "note", "text": f"aws_access_key_id = {_KEY}", "file": NOTE_FILE}, COMMIT, SMALL_USAGE),
    "scope-breaker": (
        {
            "do": "write",
            "path": "out-of-scope-{task}.md",
            "text": "{task} wrote where it has no lock.\n",
            "rogue": True,
        },
        WORK,
    ),
    "huge-output": ({"do": "flood", "megabytes": 1000}, WORK),
    "slow": ({"do": "say", "text": "This takes a while."}, {"do": "sleep", "seconds": 3}, WORK),
    # Does its work and exceeds every budget.
    "broke": (_build_usage(input_tokens=40_000_000, output_tokens=2_000_000, cost_usd=1000.0), WORK),
}


def _build_only_task(brief: AgentBrief) -> Mapping[str, Any]:
    words = " ".join(brief.request.split()) or "carry out the request"
    return {
        "id": "task-001",
        "title": escape_placeholders(words[:MAX_TITLE]),
        "description": escape_placeholders(brief.request.strip() or words),
        "priority": 1,
        "cohesion_group": "main",
        "dependencies": [],
        "file_locks": [_choose_file(brief.allowed_paths)],
    }


def _choose_file(allowed: tuple[str, ...]) -> str:
    """Choose a file that the first allowed pattern permits: `src/**` gives src/blueflame-note.md."""
    pattern = allowed[0] if allowed else "**"
    folder, _, last = pattern.rpartition("/")
    if not any(sign in pattern for sign in "*?["):
        return f"{folder}/{NOTE_FILE}" if folder and not last else pattern
    parts = [part for part in folder.split("/") if part not in ("", "**")]
    still = ["blueflame" if any(sign in part for sign in "*?[") else part for part in parts]
    ending = last.rpartition(".")[2] if last.startswith("*.") and last[2:].isalnum() else ""
    return "/".join([*still, f"blueflame_note.{ending}" if ending else NOTE_FILE])
