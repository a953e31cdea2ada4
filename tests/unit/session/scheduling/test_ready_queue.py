"""The laws of scheduling, against an oracle that is slow and plain."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.task import VERIFIED, Task, TaskState
from blueflame.paths.locks import do_locks_overlap
from blueflame.session.scheduling.ranking import compute_ranks
from blueflame.session.scheduling.ready_queue import HOLDING, ReadyQueue

CLAIMED, DONE, FAILED, PENDING = TaskState.CLAIMED, TaskState.DONE, TaskState.FAILED, TaskState.PENDING
PARTIAL = TaskState.PARTIAL


def task(name: str, *locks: str, needs: tuple[str, ...] = (), priority: int = 3) -> Task:
    return Task(id=name, title=name, description="", priority=priority, dependencies=needs, file_locks=locks)


overlapping = cache(do_locks_overlap)


def clash(one: Task, other: Task) -> bool:
    return any(overlapping(a, b) for a in one.file_locks or (".",) for b in other.file_locks or (".",))


@dataclass
class Oracle:
    """The rules of readiness as one would say them, checked pair by pair."""

    plan: dict[str, Task]
    patience: int
    states: dict[str, TaskState] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rank = compute_ranks(self.plan.values())
        self.states = dict.fromkeys(self.plan, PENDING)
        self.passed = {name: 0 for name in self.plan if self.ready(name)}

    def ready(self, name: str) -> bool:
        needs = self.plan[name].dependencies
        return self.states[name] is PENDING and all(self.states.get(need) in VERIFIED for need in needs)

    def set_state(self, name: str, state: TaskState) -> None:
        if self.states[name] is state:
            return
        continued = self.states[name] is PARTIAL  # its locks were held before
        self.states[name] = state
        self.passed.pop(name, None)
        if state is CLAIMED and not continued:
            for other in self.passed:
                self.passed[other] += self.rank[other] < self.rank[name]
        self.passed = {one: self.passed.get(one, 0) for one in self.plan if self.ready(one)}

    def pick(self, slots: int) -> tuple[str, ...]:
        taken = [self.plan[name] for name, state in self.states.items() if state in HOLDING]
        picked: list[str] = []
        for name in sorted(self.passed, key=self.rank.__getitem__):
            if len(picked) == slots:
                break
            if not any(clash(self.plan[name], other) for other in taken):
                picked.append(name)
                taken.append(self.plan[name])
            elif self.passed[name] >= self.patience:
                taken.append(self.plan[name])  # reserved against all that come after it
        return tuple(picked)


PATHS = st.sampled_from(["a", "a/b", "a/b/c", "A/B", "a/d", "e", "e/f", "e/g/h", "i", "j/", "./k", "l/**", "m/n.py"])


@st.composite
def plans(draw: st.DrawFn, largest: int = 14) -> list[Task]:
    names = [f"task-{n:03}" for n in range(draw(st.integers(1, largest)))]
    return [
        task(
            name,
            *draw(st.lists(PATHS, min_size=draw(st.sampled_from([0, 1, 1, 1, 1])), max_size=3)),
            needs=tuple(draw(st.lists(st.sampled_from(names[:n]), max_size=2, unique=True))) if n else (),
            priority=draw(st.integers(1, 3)),
        )
        for n, name in enumerate(names)
    ]


class Run:
    """Random but fair events over a queue and its oracle, side by side."""

    def __init__(self, plan: list[Task], patience: int) -> None:
        self.plan = {one.id: one for one in plan}
        self.queue = ReadyQueue(plan, patience=patience)
        self.oracle = Oracle(self.plan, patience)
        self.events: list[tuple[str, TaskState]] = []

    def move(self, name: str, state: TaskState) -> None:
        self.events.append((name, state))
        self.queue.set_state(name, state)
        self.oracle.set_state(name, state)

    def pick(self, slots: int) -> tuple[str, ...]:
        picked = self.queue.pick(slots)
        assert picked == self.oracle.pick(slots)
        return picked

    def running(self) -> list[str]:
        return [name for name, state in self.oracle.states.items() if state is CLAIMED]

    def claim(self, name: str) -> None:
        mine = self.plan[name]
        assert not any(clash(mine, self.plan[other]) for other in self.running())
        assert all(self.oracle.states[need] in VERIFIED for need in mine.dependencies)
        self.move(name, CLAIMED)


def toss(data: st.DataObject) -> bool:
    return data.draw(st.booleans())


ENDINGS = st.sampled_from([DONE, DONE, DONE, FAILED, PENDING, TaskState.REQUEUED])


@settings(max_examples=50)
@given(plans(), st.integers(1, 4), st.integers(1, 6), st.data())
def test_the_queue_answers_as_the_rules_say_whatever_happens(
    plan: list[Task], slots: int, patience: int, data: st.DataObject
) -> None:
    run = Run(plan, patience)
    for _ in range(data.draw(st.integers(0, 40))):
        free = max(0, slots - len(run.running()))
        picked = run.pick(free)
        assert len(picked) <= free
        if picked and toss(data):
            for name in picked[: data.draw(st.integers(1, len(picked)))]:
                run.claim(name)
        elif run.running() and toss(data):
            run.move(data.draw(st.sampled_from(run.running())), data.draw(ENDINGS))
        else:  # a person, a cascade or a new cycle moves anything anywhere, even what is running
            run.move(data.draw(st.sampled_from(sorted(run.plan))), data.draw(st.sampled_from(list(TaskState))))


@settings(max_examples=50)
@given(plans(), st.integers(1, 4), st.data())
def test_the_same_events_give_the_same_picks_however_often_pick_is_called(
    plan: list[Task], patience: int, data: st.DataObject
) -> None:
    asked, silent = ReadyQueue(plan, patience=patience), ReadyQueue(plan, patience=patience)
    moves = st.tuples(st.sampled_from([one.id for one in plan]), st.sampled_from([PENDING, CLAIMED, DONE, FAILED]))
    events = data.draw(st.lists(moves, max_size=30))
    for name, state in events:
        for slots in data.draw(st.lists(st.integers(0, 20), max_size=2)):
            asked.pick(slots)
            asked.explain_waiting(name)
        asked.set_state(name, state)
        silent.set_state(name, state)
    replayed = ReadyQueue(plan, patience=patience)
    for name, state in events:
        replayed.set_state(name, state)
    for slots in (20, 1, 3):
        assert asked.pick(slots) == silent.pick(slots) == replayed.pick(slots)


@settings(max_examples=30)
@given(plans(), st.data())
def test_the_order_in_which_a_plan_is_written_changes_nothing(plan: list[Task], data: st.DataObject) -> None:
    assert ReadyQueue(data.draw(st.permutations(plan))).pick(4) == ReadyQueue(plan).pick(4)


@settings(max_examples=40)
@given(plans(largest=20), st.integers(1, 4), st.integers(1, 5), st.data())
def test_in_a_fair_run_no_ready_task_starves(plan: list[Task], slots: int, patience: int, data: st.DataObject) -> None:
    """Tasks fail and come back, in any order: each is claimed in the end, and none is passed over for long."""
    run = Run(plan, patience)
    failures: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    while running := run.running() + list(run.pick(slots - len(run.running())))[:1]:
        name = data.draw(st.sampled_from(running))
        if run.oracle.states[name] is PENDING:
            before = run.oracle.rank[name]
            waiting = [other for other in run.oracle.passed if run.oracle.rank[other] < before]
            passed.update(other for other in waiting if clash(run.plan[other], run.plan[name]))
            run.claim(name)
            passed.pop(name, None)
        elif failures[name] < 3 and toss(data):
            failures[name] += 1
            run.move(name, PENDING)
        else:
            run.move(name, DONE)
        assert max(passed.values(), default=0) <= patience
    assert set(run.oracle.states.values()) == {DONE}


def test_a_task_for_everything_is_not_passed_over_for_ever() -> None:
    """Two workers keep each other's files busy; the task that locks all would wait until both have nothing left."""
    crowd = [task(f"task-{n:03}", f"src/f{n}") for n in range(1, 40)]
    queue = ReadyQueue([task("task-000", ".", priority=2), *crowd], patience=4)
    queue.set_state("task-001", CLAIMED)
    running, claims = ["task-001"], 1
    while "task-000" not in (picked := queue.pick(2 - len(running))):
        for name in picked:
            queue.set_state(name, CLAIMED)
            claims += 1
        running = [*running, *picked]
        queue.set_state(running.pop(0), DONE)
    assert claims == 4


def test_a_reservation_does_not_delay_tasks_of_higher_rank() -> None:
    broad, urgent = task("task-002", "src", priority=2), task("task-009", "src/a", priority=1, needs=("task-008",))
    others = [task(f"task-01{n}", f"src/x{n}") for n in range(3)]
    queue = ReadyQueue([broad, urgent, task("task-008", "docs"), *others], patience=1)
    for name in ("task-010", "task-008"):
        queue.set_state(name, CLAIMED)
    queue.set_state("task-008", DONE)
    assert queue.pick(5) == ("task-009",)
    assert queue.explain_waiting("task-011") == "waits for the lock src reserved for task-002"


def test_a_linear_plan_runs_one_task_at_a_time() -> None:
    queue = ReadyQueue([task("a", "x"), task("b", "y", needs=("a",)), task("c", "z", needs=("b",))])
    for name in ("a", "b", "c"):
        assert queue.pick(4) == (name,)
        queue.set_state(name, CLAIMED)
        assert queue.pick(4) == ()
        queue.set_state(name, DONE)


def test_a_diamond_opens_and_closes() -> None:
    plan = [
        task("a", "1"),
        task("b", "2", needs=("a",)),
        task("c", "3", needs=("a",)),
        task("d", "4", needs=("b", "c")),
    ]
    queue = ReadyQueue(plan)
    queue.set_state("a", DONE)
    assert queue.pick(4) == ("b", "c")
    queue.set_state("b", DONE)
    assert queue.pick(4) == ("c",)
    queue.set_state("c", DONE)
    assert queue.pick(4) == ("d",)


@pytest.mark.verification(7, 23)
def test_the_seeds_overlapping_pair_never_runs_together() -> None:
    queue = ReadyQueue([task("task-001", "pkg/middleware/"), task("task-004", "pkg/middleware/ratelimit/")])
    assert queue.pick(4) == ("task-001",)
    queue.set_state("task-001", CLAIMED)
    assert queue.pick(4) == ()
    assert queue.explain_waiting("task-004") == "waits for the lock pkg/middleware/ held by task-001"


def test_a_lower_priority_goes_while_a_higher_one_is_kept_back() -> None:
    queue = ReadyQueue([task("a", "src"), task("b", "src/x", priority=1), task("c", "docs", priority=5)])
    queue.set_state("a", CLAIMED)
    assert queue.pick(4) == ("c",)


def test_a_task_without_locks_runs_alone() -> None:
    queue = ReadyQueue([task("a", priority=1), task("b", "src")])
    assert queue.pick(4) == ("a",)
    queue.set_state("b", CLAIMED)
    assert queue.pick(4) == ()


def test_a_dependency_that_is_requeued_holds_its_dependants_back_again() -> None:
    queue = ReadyQueue([task("a", "x"), task("b", "y", needs=("a",))])
    queue.set_state("a", TaskState.VALIDATED)
    assert queue.pick(4) == ("b",)
    queue.set_state("a", TaskState.REQUEUED)
    assert queue.pick(4) == ()
    assert queue.explain_waiting("b") == "waits for a (requeued)"


@pytest.mark.parametrize("slots", [0, -1])
def test_no_slot_no_pick(slots: int) -> None:
    assert ReadyQueue([task("a", "x")]).pick(slots) == ()


def test_it_says_what_a_task_waits_for() -> None:
    queue = ReadyQueue([task("a", "x"), task("b", "y", needs=("a", "gone")), task("c", "z", needs=("a",))])
    assert queue.explain_waiting("a") == "waits for a slot"
    assert queue.explain_waiting("b") == "waits for a, gone (not in the plan)"
    assert queue.explain_waiting("c") == "waits for a"
    queue.set_state("a", CLAIMED)
    assert queue.explain_waiting("a") == ""


def test_an_empty_plan_has_nothing_to_pick() -> None:
    assert ReadyQueue(()).pick(4) == ()


def test_an_urgent_task_goes_first_and_its_locks_are_reserved_at_once() -> None:
    plan = [task("a", "x", priority=1), task("b", "x", "y", priority=9), task("c", "y", priority=1), task("d", "z")]
    queue = ReadyQueue(plan, urgent=["b"])
    assert queue.pick(3) == ("b", "d")
    queue.set_state("a", CLAIMED)
    assert queue.pick(3) == ("d",), "c would take a lock of b"
    assert queue.explain_waiting("c") == "waits for the lock y reserved for b"
    queue.set_state("a", DONE)
    assert queue.pick(1) == ("b",)
