"""Find the cause of red checks on a changeset: flaky, the base, or one task. Each tree is checked at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from blueflame.checks.failed_tests import compare_with_base
from blueflame.git.merge import find_tree
from blueflame.model.event import ChangesetJudged, Event
from blueflame.orchestrator.check_runner import CheckRunner, Checks, list_blamed, list_failed
from blueflame.orchestrator.merge_queue.assemble import MergeInputs, merge_some
from blueflame.session.changesets.queue import trim_changeset
from blueflame.session.consequences.verdicts import build_failed_verdict


async def find_culprit(runner: CheckRunner, inputs: MergeInputs, checks: Checks) -> Sequence[Event]:
    """The events after failed checks: the task that causes them goes back, alone; a red base is no task's fault."""
    session, changeset, base = inputs.session, inputs.changeset, inputs.base
    red = frozenset(check.name for check in list_blamed(checks))
    on_base = await examine_base(runner, inputs)
    if any(check.name in red and not check.failures for check in list_failed(on_base)):
        where = f"checks are red on {session.base_branch} itself, at {base[:12]}"
        note = f"{where}: {', '.join(sorted(red))}; fix that first"
        return [ChangesetJudged(changeset=changeset.id, choice="skip", note=note)]
    found = await _bisect_tasks(runner, inputs, red, on_base)
    if found is None:  # the culprit cannot be determined
        return [trim_changeset(session, changeset.id, changeset.tasks, _format_reason(checks, "on the combined tree"))]
    culprit, shown = found
    where = "on the combined tree"
    if len(changeset.tasks) > 1:
        where += f" as soon as {culprit} is in it"
    return [trim_changeset(session, changeset.id, (culprit,), _format_reason(shown or checks, where))]


async def examine_base(runner: CheckRunner, inputs: MergeInputs) -> Checks:
    return await runner.examine(inputs.base, await asyncio.to_thread(find_tree, inputs.repo, inputs.base))


async def _bisect_tasks(
    runner: CheckRunner, inputs: MergeInputs, red: frozenset[str], on_base: Checks
) -> tuple[str, Checks] | None:
    """Bisect: without its tasks the tree is no more red than the base, with all of them it is."""
    tasks = inputs.changeset.tasks
    green, bad = 0, len(tasks)
    shown: Checks = ()
    while bad - green > 1:
        middle = (green + bad) // 2
        made = await asyncio.to_thread(merge_some, inputs, tasks[:middle])
        if made is None:
            return None
        checks = compare_with_base(await runner.examine(made.commit, made.tree, on_base), on_base)
        if any(check.name in red for check in list_blamed(checks)):
            bad, shown = middle, checks
        else:
            green = middle
    return tasks[bad - 1], shown


def _format_reason(checks: Checks, where: str) -> str:
    verdict = build_failed_verdict(list_blamed(checks))
    return f"checks are red {where}: {', '.join(verdict.issues)}\n{verdict.notes}"
