"""One type for every judgement of a result: validator, build check, review, qa."""

from __future__ import annotations

from enum import StrEnum

from blueflame.lazy_dataclass import dataclass


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
class StageVerdict:
    """A verdict on a commit of a task, and the stage that gave it."""

    stage: str  # its key; "" in journals of earlier versions
    sha: str
    verdict: Verdict

    @property
    def name(self) -> str:
        return self.stage or "review"

    @property
    def summary(self) -> str:
        """`pass with confidence 0.9: no problems found`, in words for people."""
        sure = "" if self.verdict.confidence is None else f" with confidence {self.verdict.confidence:g}"
        notes = f": {self.verdict.notes}" if self.verdict.notes.strip() else ""
        return f"{self.verdict.status.value}{sure}{notes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One mechanical test of a result: its exit code counts, and whether it was red before."""

    name: str
    exit_code: int
    seconds: float
    output: str = ""
    output_sha256: str = ""
    timed_out: bool = False
    flaky: bool = False  # it failed first, and passed when it was run again on the same tree
    failures: tuple[str, ...] = ()  # the tests that failed, where its runner names them
    red_before: bool = False  # it fails on the base, too, and not for more than there
    tests: int | None = None  # that ran, where its runner says so
    tests_before: int | None = None  # that ran on the base

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def cannot_start(self) -> bool:
        """Whether the shell could not find its program, or not execute it."""
        return self.exit_code in (126, 127) and not self.timed_out

    @property
    def is_acceptable(self) -> bool:
        """Whether the result is not to blame: it passed, or it is as red as the base was before."""
        return self.passed or self.red_before

    @property
    def ran_fewer_tests(self) -> bool:
        """Whether it checks less than on the base, or nothing: green then means little."""
        if self.tests is None:
            return bool(self.tests_before)
        return self.tests < max(self.tests_before or 0, 1)

    @property
    def tests_beside_base(self) -> str:
        """How many tests ran, and how many on the base, in words for people; "" where its runner does not say."""
        before = f", {self.tests_before:,} on the base" if self.tests_before is not None else ""
        if self.tests is None:
            return f"no summary of its tests{before}" if self.tests_before else ""
        return f"{self.tests:,} test{'' if self.tests == 1 else 's'}{before}"

    @property
    def state(self) -> str:
        """How it ended, in words for people."""
        if self.flaky:
            return "flaky (red, then green on the same tree)"
        if self.passed:
            return "passed"
        if self.red_before:
            return "red before, same failures"
        return "timed out" if self.timed_out else f"exit {self.exit_code}"


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
