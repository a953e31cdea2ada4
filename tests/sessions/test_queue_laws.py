"""Laws of the merge queue, whatever the order of arrivals, conflicts, red checks and rejections."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.changeset import LOST, ChangesetState
from blueflame.model.event import ChangesetBuilt, ChangesetJudged, GateAnswered
from blueflame.model.limits import Limits
from blueflame.model.task import TaskState
from blueflame.model.workflow import Workflow
from blueflame.session.state import Session
from support.random_merges import MergeWorld, build_mark, find_marks, make_small_repository, run_git
from support.random_sessions import Dice, Odds, plans

rates = st.sampled_from((0.0, 0.2, 0.5))
lots = st.builds(
    lambda tasks, seed, **odds: Dice(tasks, seed, Odds(fail=0.0, drift=0.0, veto=0.0, evict=0.0, **odds)),
    plans(6),
    st.integers(0, 2**32),
    lose=st.just(0.0),
    unsure=st.just(0.0),
    refuse=rates,
    red=rates,
    disturb=rates,
    contrary=rates,
)


@settings(max_examples=int(os.environ.get("BLUEFLAME_EXAMPLES", "4")))
@given(
    lot=lots,
    mode=st.sampled_from(("merge", "squash", "fast-forward")),
    on_conflict=st.sampled_from(("merger", "requeue")),
    barrier=st.booleans(),
)
def test_the_base_holds_only_what_was_verified_and_approved_and_each_of_it_once(
    lot: Dice, mode: str, on_conflict: str, barrier: bool
) -> None:
    workflow = Workflow(stages=("plan", "work", "check", "merge"), barrier=barrier)
    limits = Limits(workers=3, max_cycles=3, max_retries=1, on_conflict=on_conflict, allowed_paths=("**",))
    with TemporaryDirectory() as folder:
        world = MergeWorld(lot, make_small_repository(Path(folder)), mode=mode, limits=limits, workflow=workflow)
        while world.step():
            assert_only_approved(world)
        assert_only_approved(world)
        assert_each_once(world)


def assert_only_approved(world: MergeWorld) -> None:
    repo, session = world.repo, world.session
    landed = {name: session.changesets[name].build for name in session.landings}
    head, walked = run_git(repo.root, "rev-parse", "main").strip(), []
    for build in reversed(list(landed.values())):
        assert build is not None
        while head != build.commit:  # what is between two landings is the person's own
            assert head in world.own
            head = run_git(repo.root, "rev-parse", f"{head}^").strip()
        walked.append(build.commit)
        head = build.base
    while head != world.start:
        assert head in world.own
        head = run_git(repo.root, "rev-parse", f"{head}^").strip()
    green, approved = verified(world), judged(session, world)
    for name, build in landed.items():
        assert build is not None
        assert build.commit in green
        assert not world.is_red(build.commit)
        assert (name, build.commit) in approved


def verified(world: MergeWorld) -> set[str]:
    builds = (each.event.build for each in world.journal if isinstance(each.event, ChangesetBuilt))
    return {build.commit for build in builds if build.checks and all(check.passed for check in build.checks)}


def judged(session: Session, world: MergeWorld) -> set[tuple[str, str]]:
    """What a person approved: the very commit that the gate showed."""
    answers = (each.event for each in world.journal if isinstance(each.event, GateAnswered))
    gates = (session.gates[answer.gate] for answer in answers if answer.answer.choice == "approve")
    said = {each.event.changeset for each in world.journal if isinstance(each.event, ChangesetJudged)}
    return {(gate.subject, gate.evidence["commit"]) for gate in gates if gate.subject in said}


def assert_each_once(world: MergeWorld) -> None:
    session = world.session
    landed = [session.changesets[name] for name in session.landings]
    assert all(record.state is ChangesetState.LANDED for record in landed)
    tasks = Counter(name for record in landed for name in record.changeset.tasks)
    assert set(tasks) == set(session.list_in_state(TaskState.MERGED))
    assert set(tasks.values()) <= {1}
    reported = {
        (loss.task, line)
        for record in landed
        if record.build
        for loss in record.build.losses
        if loss.kind == LOST
        for line in loss.lines
    }
    there = Counter(find_marks(world.repo, "main"))
    assert set(there.values()) <= {1}
    for name in tasks:
        result = session.tasks[name].result
        assert result is not None
        line = build_mark(name, int(result.attempt.rpartition(".")[2]))
        assert there[line] == 1 or (name, line) in reported or any(line == lost for _, lost in reported)
    assert len(there) <= len(tasks), "nothing of what was sent back is there"
