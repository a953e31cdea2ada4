"""One type for every judgement of a result: validator, build check, review, qa."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class VerdictStatus(StrEnum):
    PASS = "pass"  # noqa: S105
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    status: VerdictStatus
    notes: str
    issues: tuple[str, ...] = ()
    confidence: float | None = None
    by: str = ""

    @property
    def passed(self) -> bool:
        return self.status is VerdictStatus.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One mechanical test of a result: only the command's exit code counts."""

    name: str
    exit_code: int
    seconds: float
    output: str = ""
    output_sha256: str = ""
    timed_out: bool = False
    flaky: bool = False  # it failed first, and passed when it was run again on the same tree

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule of the postcheck that a result breaks."""

    rule: str
    path: str
    detail: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{self.rule}: {place}" + (f" ({self.detail})" if self.detail else "")
