"""What a reviewer should look at twice: hints at risks, and tests that are weaker than they were."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A hint, never a judgement: it says where to look, and a person decides."""

    kind: str  # checks/risks.KINDS
    words: str
    paths: tuple[str, ...] = ()  # the first of them

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakening:
    """One way in which a test says less than before, with the lines that show it."""

    kind: str  # checks/weakened_tests.KINDS
    path: str
    words: str
    line: int | None = None  # in the result; of what is gone, in the base
    lines: tuple[str, ...] = ()  # as a diff shows them: `-` what went, `+` what came

    def __str__(self) -> str:
        return f"{self.path}{f':{self.line}' if self.line else ''}: {self.words}"
