"""How a command of Blue Flame ends: one number per meaning, stable, so that scripts can rely on them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    NOT_LANDED = 1
    USAGE = 2
    REFUSED = 3
    WORLD = 4
    PLAN_REJECTED = 5
    STOPPED = 6
    NO_ANSWER = 7
    INTERNAL = 70
    INTERRUPTED = 130


MEANING: Mapping[Exit, str] = {
    Exit.OK: "All went well: everything asked for has landed, or the command did what it was told.",
    Exit.NOT_LANDED: "The session ended with work that has not landed.",
    Exit.USAGE: "The command line, the configuration or a file given to it is wrong; nothing was changed.",
    Exit.REFUSED: "Refused to start here: repository unfit, another orchestrator at work, or a guard is missing.",
    Exit.WORLD: "Git, the disk, a process or the journal failed.",
    Exit.PLAN_REJECTED: "The plan was rejected; nothing has been touched.",
    Exit.STOPPED: "Stopped with work left; `blueflame resume` goes on from there.",
    Exit.NO_ANSWER: "A gate got no answer: the decisions file ran out, or nobody can be asked.",
    Exit.INTERNAL: "A bug in Blue Flame; a crash log was written.",
    Exit.INTERRUPTED: "Interrupted from the keyboard.",
}
"""A sentence for each; the documentation is made from it."""

OUTCOMES: Mapping[str, Exit] = {
    "completed": Exit.OK,
    "stopped": Exit.NOT_LANDED,
    "plan_rejected": Exit.PLAN_REJECTED,
    "max_cycles": Exit.NOT_LANDED,
    "planning_failed": Exit.NOT_LANDED,
    "abandoned": Exit.NOT_LANDED,
}
"""How an ended session maps to an exit code; a session that was put down without ending is Exit.STOPPED."""


def exit_for(outcome: str | None, *, all_landed: bool) -> Exit:
    """None is a session that has not ended. Landing everything counts, even when a person then said stop."""
    if outcome is None:
        return Exit.STOPPED
    exit_code = OUTCOMES.get(outcome, Exit.NOT_LANDED)
    if exit_code is Exit.NOT_LANDED and all_landed:
        return Exit.OK
    return exit_code if exit_code is not Exit.OK or all_landed else Exit.NOT_LANDED
