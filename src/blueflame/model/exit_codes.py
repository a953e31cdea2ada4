"""Exit codes of the command line: one number per meaning, stable, so that scripts can rely on them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    NOT_LANDED = 1
    USAGE = 2
    REFUSED = 3
    WORLD = 4
    PLAN_REJECTED = 5
    STOPPED = 6
    NO_ANSWER = 7
    INTERNAL = 70
    TIMED_OUT = 124
    INTERRUPTED = 130


EXIT_CODE_MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.OK: "Success: everything requested has landed, or the command has done its work.",
    ExitCode.NOT_LANDED: "The session ended with work that has not landed.",
    ExitCode.USAGE: "The command line, the configuration or a file given to it is wrong; nothing was changed.",
    ExitCode.REFUSED: "Refused: repository unfit or not trusted, another orchestrator runs, or a guard is missing.",
    ExitCode.WORLD: "Git, the disk, a process, the journal or the model failed; repair it, then `blueflame resume`.",
    ExitCode.PLAN_REJECTED: "The plan was rejected; nothing was changed.",
    ExitCode.STOPPED: "Stopped with work left; `blueflame resume` continues.",
    ExitCode.NO_ANSWER: "A gate got no answer: the decisions file has no entry for it, or there is no terminal.",
    ExitCode.INTERNAL: "A bug in Blue Flame; a crash log was written.",
    ExitCode.TIMED_OUT: "`blueflame wait` waited as long as --timeout allows.",
    ExitCode.INTERRUPTED: "Interrupted from the keyboard.",
}
"""A sentence for each; the reference is generated from it."""

EXIT_CODES_BY_OUTCOME: Mapping[str, ExitCode] = {
    "completed": ExitCode.OK,
    "stopped": ExitCode.NOT_LANDED,
    "plan_rejected": ExitCode.PLAN_REJECTED,
    "max_cycles": ExitCode.NOT_LANDED,
    "planning_failed": ExitCode.NOT_LANDED,
    "abandoned": ExitCode.NOT_LANDED,
}
"""How an ended session maps to an exit code; a session that was stopped without ending is ExitCode.STOPPED."""


def choose_exit_code(outcome: str | None, *, all_landed: bool, hindered: bool = False) -> ExitCode:
    """None is a session that has not ended. Landing everything is success, even if the person then stopped it.

    `hindered`: something that we have to do ourselves could not be done, or a model is unavailable.
    """
    if outcome is None:
        return ExitCode.WORLD if hindered else ExitCode.STOPPED
    exit_code = EXIT_CODES_BY_OUTCOME.get(outcome, ExitCode.NOT_LANDED)
    if exit_code is ExitCode.NOT_LANDED and all_landed:
        return ExitCode.OK
    return exit_code if exit_code is not ExitCode.OK or all_landed else ExitCode.NOT_LANDED
