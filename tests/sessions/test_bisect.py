"""Red checks are traced by halves, and no tree is checked twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from blueflame.model.changeset import Changeset, ChangesetRecord
from blueflame.model.event import ChangesetTrimmed
from blueflame.model.task import Result, Task, TaskRecord, TaskState
from blueflame.model.verdict import Check
from blueflame.orchestrator.check_runner import CheckRunner, ChecksStopped
from blueflame.orchestrator.merge_queue.assemble import MergeCommit, MergeInputs, assemble_changeset
from blueflame.orchestrator.merge_queue.bisect import find_culprit
from blueflame.session.replay import replay
from blueflame.testing.simulation import build_opening
from support.random_merges import commit_file, make_small_repository, run_git

NAME = "make test"


def check(*, green: bool, name: str = NAME) -> Check:
    return Check(name=name, exit_code=0 if green else 1, seconds=0.0)


@dataclass
class Bench:
    """Answers as configured, and records the calls."""

    says: list[tuple[Check, ...] | None]
    asked: list[tuple[str, bool]] = field(default_factory=list)

    async def run(self, commit: str, again: bool) -> tuple[Check, ...] | None:
        self.asked.append((commit, again))
        return self.says.pop(0)


def examine(bench: Bench, *, retry: bool = True, times: int = 1) -> tuple[Check, ...]:
    runner = CheckRunner(run=bench.run, retry=retry)

    async def all_of_it() -> tuple[Check, ...]:
        found: tuple[Check, ...] = ()
        for _ in range(times):
            found = await runner.examine("commit", "tree")
        return found

    return asyncio.run(all_of_it())


def test_green_is_asked_once() -> None:
    bench = Bench([(check(green=True),)])
    assert examine(bench, times=3) == (check(green=True),)
    assert bench.asked == [("commit", False)]


def test_red_is_tried_once_more_and_no_more() -> None:
    bench = Bench([(check(green=False),)] * 2)
    assert not examine(bench, times=3)[0].passed
    assert bench.asked == [("commit", False), ("commit", True)]


def test_red_and_then_green_is_flaky_and_so_is_the_other_way_round() -> None:
    first = (check(green=False), check(green=True, name="lint"))
    second = (check(green=True), check(green=False, name="lint"))
    found = examine(Bench([first, second]))
    assert [(each.name, each.passed, each.flaky) for each in found] == [(NAME, True, True), ("lint", True, True)]


def test_a_setup_that_failed_once_hid_the_checks_and_the_second_run_counts() -> None:
    found = examine(Bench([(check(green=False, name="npm ci"),), (check(green=True),)]))
    assert [(each.name, each.passed, each.flaky) for each in found] == [(NAME, True, True)]


def test_where_retries_are_switched_off_red_is_red() -> None:
    bench = Bench([(check(green=False),)])
    assert not examine(bench, retry=False)[0].passed
    assert len(bench.asked) == 1


def test_a_stop_says_nothing_about_the_tree() -> None:
    with pytest.raises(ChecksStopped):
        examine(Bench([None]))


@pytest.mark.parametrize("culprit", [1, 6, 16])
def test_of_sixteen_tasks_four_trees_find_the_culprit(tmp_path: Path, culprit: int) -> None:
    repo = make_small_repository(tmp_path)
    session = replay([build_opening()])
    names = tuple(f"task-{n:03d}" for n in range(1, 17))
    for n, name in enumerate(names, start=1):
        tip = commit_file(
            repo, repo.base_sha, f"{name}.txt", "red\n" if n == culprit else "green\n", f"feat({name}): it"
        )
        task = Task(id=name, title=name, description="")
        result = Result(sha=tip, base=repo.base_sha)
        session.tasks[name] = TaskRecord(task=task, state=TaskState.VALIDATED, result=result)
    record = ChangesetRecord(changeset=Changeset(id="cs-001", cycle=1, group="a", title="a", tasks=names))
    session.changesets["cs-001"] = record
    examined: list[str] = []

    async def run(commit: str, again: bool) -> tuple[Check, ...]:
        examined.append("" if again else commit)
        return (check(green="red" not in run_git(repo.root, "grep", "-h", "-e", "red", "-e", "line", commit)),)

    async def trace() -> object:
        inputs = MergeInputs(repo, session, record, repo.base_sha)
        whole = assemble_changeset(inputs, "merge")
        assert isinstance(whole, MergeCommit)
        runner = CheckRunner(run=run)
        checks = await runner.examine(whole.commit, whole.tree)
        return await find_culprit(runner, inputs, checks)

    found = asyncio.run(trace())
    assert isinstance(found, list)
    (trimmed,) = found
    assert isinstance(trimmed, ChangesetTrimmed)
    assert trimmed.tasks == (f"task-{culprit:03d}",)
    first_looks = [commit for commit in examined if commit]
    assert len(first_looks) == len(set(first_looks)) == 6, "the whole, the base, and four between them"
