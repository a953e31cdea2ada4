"""
BlueFlameError
├── UsageError            the request, a flag or a file the person wrote is wrong; they can mend it           exit 2
│   ├── ConfigError       blueflame.yaml: carries every problem, not the first
│   ├── PlanError         a plan (planner's or person's) breaks the rules: carries every problem
│   └── ScriptError       a script for scripted agents is wrong
├── Refused               we will not start here: repository unfit, another orchestrator, missing guard      exit 3
├── WorldError            git, disk, a process or the journal failed us                                     exit 4
│   ├── GitFailed
│   ├── ProcessFailed
│   ├── JournalError
│   ├── MemoryFailed      what earlier sessions left cannot be read or written; a session goes on without it
│   └── NotifierFailed    nobody could be told; a session goes on all the same
├── NoAnswer              a gate needs an answer and nobody can give one (decisions ran out)                 exit 7
└── InternalError         we are wrong: a bug                                                               exit 70
"""

from __future__ import annotations

from collections.abc import Sequence


class BlueFlameError(Exception):
    """Anything Blue Flame says no with; the message names the thing, the place and what to do next."""

    exit_code = 1


class UsageError(BlueFlameError):
    exit_code = 2


class _ListedProblems(UsageError):
    """A usage error that carries all problems at once, so that they are mended in one go."""

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
    exit_code = 3


class WorldError(BlueFlameError):
    exit_code = 4


class GitFailed(WorldError):
    pass


class ProcessFailed(WorldError):
    pass


class JournalError(WorldError):
    pass


class MemoryFailed(WorldError):
    pass


class NotifierFailed(WorldError):
    pass


class NoAnswer(BlueFlameError):
    exit_code = 7


class InternalError(BlueFlameError):
    exit_code = 70
