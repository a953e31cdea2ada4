"""Check commits, each tree at most once; a check that is red and then green is flaky."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import field, replace

from blueflame.checks.failed_tests import compare_with_base, find_broken_on_base, is_as_red
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError
from blueflame.model.verdict import Check

Checks = tuple[Check, ...]
RunChecks = Callable[[str, bool], Awaitable[Checks | None]]
"""Runs the diagnostics on a commit, for the first time or (True) again; None when a stop ended them."""


class ChecksStopped(Exception):
    """A stop ended the checks early: there is no result; they run again after a resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRunner:
    """Checks commits, and keeps the results by tree."""

    run: RunChecks
    known: dict[str, Checks] = field(default_factory=dict)  # by tree
    retry: bool = True

    async def examine(self, commit: str, tree: str, on_base: Checks = ()) -> Checks:
        """Check the commit. A failed check runs once more, unless it is as red as on the base; if it passes then, it is
        flaky."""
        if tree not in self.known:
            checks = compare_with_base(await self.run_once(commit), on_base)
            self.known[tree] = await self.repeat_blamed(commit, checks, on_base)
        return self.known[tree]

    async def repeat_blamed(self, commit: str, checks: Checks, on_base: Checks) -> Checks:
        """Run them again if one is to blame; best after the base: what a person repaired meanwhile blames no one."""
        if not self.retry or not list_blamed(checks):
            return checks
        both = _mark_flaky(checks, await self.run_once(commit, again=True))
        compared = zip(both, compare_with_base(both, on_base), strict=True)
        return tuple(replace(now, red_before=check.red_before or now.red_before) for check, now in compared)

    async def run_once(self, commit: str, *, again: bool = False) -> Checks:
        checks = await self.run(commit, again)
        if checks is None:
            raise ChecksStopped
        return checks


async def confirm_blame(checks: Checks, on_base: Checks, run_on_base: Callable[[], Awaitable[Checks | None]]) -> Checks:
    """Compare blamed checks with the base as it is now: what is known of it is from before.

    Raise WorldError if one fails there now and did not before: the disk is full, or a program is gone. One that was red
    there, and is now in another way, excuses what is no redder than that.
    """
    now = await run_on_base()
    if now is None:
        raise ChecksStopped
    require_endings(checks, now)
    red_before = {check.name for check in list_failed(on_base)}
    broken = [check for check in find_broken_on_base(list_blamed(checks), now) if check.name not in red_before]
    if broken:
        shown = ", ".join(f"`{check.name}` ({check.state})" for check in broken)
        fix = "repair what they need; if the base is red from now on, record that with 'blueflame doctor --try'"
        raise WorldError(
            f"checks fail on the base, too, and did not before: {shown}; {fix}\n{broken[0].output[-1000:]}"
        )
    there = {check.name: check for check in now if check.name in red_before}
    return tuple(
        replace(check, red_before=check.red_before or is_as_red(check, there.get(check.name))) for check in checks
    )


def require_endings(checks: Checks, on_base_now: Checks) -> None:
    """Raise WorldError if a check takes too long on the base as well: what it says about a result is unknown."""
    endless = {check.name for check in on_base_now if check.timed_out}
    found = [check for check in list_blamed(checks) if check.timed_out and check.name in endless]
    if found:
        shown = ", ".join(f"`{check.name}` (ended after {check.seconds:.0f} s)" for check in found)
        fix = "repair what they wait for, or raise validation.validator_diagnostics.timeout"
        raise WorldError(f"checks do not end in time, on the base either: {shown}; {fix}\n{found[0].output[-1000:]}")


def require_programs(checks: Checks, missing: Collection[str]) -> None:
    """Raise WorldError if a check is excused only because its program is missing on the base, too.

    Where a person has seen that, in a trial on the base, its name is among the `missing`.
    """
    found = [check for check in checks if check.red_before and check.cannot_start and check.name not in missing]
    if found:
        shown = ", ".join(f"`{check.name}` (exit {check.exit_code})" for check in found)
        fix = "install them or make them executable; if they belong to work to come, run 'blueflame doctor --try'"
        raise WorldError(
            f"programs of checks cannot be started, on the base either: {shown}; {fix}\n{found[0].output[-1000:]}"
        )


def _mark_flaky(first: Checks, second: Checks) -> Checks:
    """Mark checks that differ between two runs on one tree. After a failed setup the first run lacks the others."""
    later = {check.name: check for check in second}
    if {check.name for check in first} != later.keys():
        return tuple(replace(check, flaky=check.passed) for check in second) if not list_failed(second) else first
    return tuple(_compare_runs(check, later[check.name]) for check in first)


def _compare_runs(one: Check, other: Check) -> Check:
    if one.passed == other.passed:
        both = tuple(name for name in one.failures if name in other.failures)
        return replace(one, failures=both or one.failures)
    return replace(one if one.passed else other, flaky=True)


def list_failed(checks: Checks) -> list[Check]:
    return [check for check in checks if not check.passed]


def list_blamed(checks: Checks) -> list[Check]:
    return [check for check in checks if not check.is_acceptable]
