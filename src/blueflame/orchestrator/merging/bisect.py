"""Find the cause of red checks on a changeset: flaky, the base, or one task. Each tree is checked at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from blueflame.git.merging import find_tree
from blueflame.model.event import ChangesetJudged, Event
from blueflame.model.verdict import Check
from blueflame.orchestrator.merging.assemble import MergeCommit, MergeInputs, trial_merge
from blueflame.session.consequences import build_failed_verdict
from blueflame.session.merging.queue import trim_changeset

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

    async def examine(self, made: MergeCommit) -> Checks:
        """Check the commit. A failed check runs once more; if it passes then, it is flaky."""
        if made.tree not in self.known:
            checks = await self._run(made.commit, again=False)
            if self.retry and _list_failed(checks):
                checks = _mark_flaky(checks, await self._run(made.commit, again=True))
            self.known[made.tree] = checks
        return self.known[made.tree]

    async def _run(self, commit: str, *, again: bool) -> Checks:
        checks = await self.run(commit, again)
        if checks is None:
            raise ChecksStopped
        return checks


def _mark_flaky(first: Checks, second: Checks) -> Checks:
    """Mark checks that differ between two runs on one tree. After a failed setup the first run lacks the others."""
    later = {check.name: check for check in second}
    if {check.name for check in first} != later.keys():
        return tuple(replace(check, flaky=check.passed) for check in second) if not _list_failed(second) else first
    return tuple(_compare_runs(check, later[check.name]) for check in first)


def _compare_runs(one: Check, other: Check) -> Check:
    if one.passed == other.passed:
        return one
    return replace(one if one.passed else other, flaky=True)


def _list_failed(checks: Checks) -> list[Check]:
    return [check for check in checks if not check.passed]


async def find_culprit(runner: CheckRunner, inputs: MergeInputs, checks: Checks) -> Sequence[Event]:
    """The events after failed checks: the task that causes them goes back, alone; a red base is no task's fault."""
    session, changeset, base = inputs.session, inputs.changeset, inputs.base
    red = frozenset(check.name for check in _list_failed(checks))
    on_base = await runner.examine(MergeCommit(base, await asyncio.to_thread(find_tree, inputs.repo, base)))
    if _has_failure(on_base, red):
        where = f"checks are red on {session.base_branch} itself, at {base[:12]}"
        note = f"{where}: {', '.join(sorted(red))}; fix that first"
        return [ChangesetJudged(changeset=changeset.id, choice="skip", note=note)]
    found = await _bisect_tasks(runner, inputs, red)
    if found is None:  # the culprit cannot be determined
        return [trim_changeset(session, changeset.id, changeset.tasks, _format_reason(checks, "on the combined tree"))]
    culprit, shown = found
    where = "on the combined tree"
    if len(changeset.tasks) > 1:
        where += f" as soon as {culprit} is in it"
    return [trim_changeset(session, changeset.id, (culprit,), _format_reason(shown or checks, where))]


async def _bisect_tasks(runner: CheckRunner, inputs: MergeInputs, red: frozenset[str]) -> tuple[str, Checks] | None:
    """Bisect: without its tasks the tree is green, with all of them it is red."""
    tasks = inputs.changeset.tasks
    green, bad = 0, len(tasks)
    shown: Checks = ()
    while bad - green > 1:
        middle = (green + bad) // 2
        made = await asyncio.to_thread(trial_merge, inputs, tasks[:middle])
        if made is None:
            return None
        checks = await runner.examine(made)
        if _has_failure(checks, red):
            bad, shown = middle, checks
        else:
            green = middle
    return tasks[bad - 1], shown


def _has_failure(checks: Checks, red: frozenset[str]) -> bool:
    return any(check.name in red for check in _list_failed(checks))


def _format_reason(checks: Checks, where: str) -> str:
    verdict = build_failed_verdict(_list_failed(checks))
    return f"checks are red {where}: {', '.join(verdict.issues)}\n{verdict.notes}"
