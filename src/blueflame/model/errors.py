"""The errors, as one tree with their exit codes.

BlueFlameError
├── UsageError            the request, a flag or a file is wrong; the user can fix it                         exit 2
│   ├── ConfigError       blueflame.yaml: carries every problem, not the first
│   ├── PlanError         a plan (planner's or person's) breaks the rules: carries every problem
│   └── ScriptError       a script for scripted agents is wrong
├── Refused               will not start: repository unfit, not trusted, another orchestrator, missing guard  exit 3
├── WorldError            git, the disk, a process or the journal failed                                    exit 4
│   ├── GitFailed
│   ├── NoStartingPoint   what an attempt would start from does not exist: its foundations conflict
│   ├── ProcessFailed
│   │   └── ProcessTimedOut
│   ├── JournalError
│   ├── MemoryFailed      memory cannot be read or written; the session continues without it
│   └── NotifierFailed    a notification could not be sent; the session continues
├── NoAnswer              a gate needs an answer and none can be given (decisions ran out)                   exit 7
└── InternalError         a bug in Blue Flame                                                               exit 70
"""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.model.exit_codes import ExitCode


class BlueFlameError(Exception):
    """Base of all errors. The message says what is wrong, where, and what to do."""

    exit_code = ExitCode.NOT_LANDED


class UsageError(BlueFlameError):
    exit_code = ExitCode.USAGE


class _ListedProblems(UsageError):
    """A usage error that carries all problems, so that they can be fixed at once."""

    def __init__(self, headline: str, problems: Sequence[str]) -> None:
        super().__init__("\n".join([headline, *(f"  - {problem}" for problem in problems)]))
        self.headline = headline
        self.problems = tuple(problems)


class ConfigError(_ListedProblems):
    pass


class PlanError(_ListedProblems):
    pass


class ScriptError(_ListedProblems):
    pass


class Refused(BlueFlameError):
    exit_code = ExitCode.REFUSED


class NoBaseBranch(Refused):
    """The base branch does not exist."""


class WorldError(BlueFlameError):
    exit_code = ExitCode.WORLD


class GitFailed(WorldError):
    pass


class NoStartingPoint(WorldError):
    pass


class ProcessFailed(WorldError):
    pass


class ProcessTimedOut(ProcessFailed):
    pass


class JournalError(WorldError):
    pass


class MemoryFailed(WorldError):
    pass


class NotifierFailed(WorldError):
    pass


class NoAnswer(BlueFlameError):
    exit_code = ExitCode.NO_ANSWER


class InternalError(BlueFlameError):
    exit_code = ExitCode.INTERNAL


def find_first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of tasks that ended together, not itself a group: it has the words for people."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
