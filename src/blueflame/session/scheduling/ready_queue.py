"""Which tasks can be claimed now: pending, with verified dependencies, and locks that no running or picked task holds.

Events set states, `pick` scans the ready tasks in rank order. The result depends only on the states that were set, so
the same history gives the same picks.

A task whose lock is taken does not stop tasks of lower rank. But once `patience` of them were claimed while it waited,
its locks are reserved: no task of lower rank gets a lock that it needs, so no ready task starves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator

from blueflame.lazy_dataclass import dataclass
from blueflame.model.limits import PASSED, REVIEWED
from blueflame.model.task import VERIFIED, Task, TaskState
from blueflame.paths.locks import HeldLocks, LockPath, do_locks_overlap, parse_task_locks
from blueflame.session.scheduling.ranking import Rank, compute_ranks, list_dependants

MAX_PASSED_OVER = 16
"""Claims of lower rank that may overtake a ready task: four rounds of four workers. Much fewer make plans slower."""


HOLDING = frozenset({TaskState.CLAIMED, TaskState.PARTIAL})
"""Between two stages a task keeps its locks: others would not build on what it has made so far."""
WAITS_FOR_SLOT = "waits for a slot"
WAITED_FOR = {
    TaskState.PENDING: "{}",
    TaskState.CLAIMED: "{}",
    TaskState.PARTIAL: "{}",
    TaskState.DONE: "the review of {}",
}
DEPENDENCY_STATES = {PASSED: VERIFIED, REVIEWED: VERIFIED - {TaskState.DONE}}
"""By `schedule.dependents`: the states of a dependency whose dependents may start."""


@dataclass(slots=True)
class _QueuedTask:
    task: Task
    rank: Rank
    locks: tuple[LockPath, ...]
    unverified: int  # dependencies that are not verified
    state: TaskState = TaskState.PENDING
    passed_over: int = 0  # claims of lower rank since it became ready


def _get_rank(entry: _QueuedTask) -> Rank:
    return entry.rank


class ReadyQueue:
    def __init__(
        self,
        tasks: Iterable[Task],
        *,
        patience: int = MAX_PASSED_OVER,
        enough: frozenset[TaskState] = VERIFIED,
        urgent: Container[str] = (),
    ) -> None:
        """`enough`: the states in which a dependency lets its dependents start. `urgent`: tasks that are never passed
        over: their locks are reserved at once."""
        plan = tuple(tasks)
        ranks = compute_ranks(plan, urgent)
        self._patience, self._enough = max(1, patience), enough
        self._urgent = frozenset(task.id for task in plan if task.id in urgent)
        self._dependants = list_dependants(plan)
        self._entries = {
            task.id: _QueuedTask(task, ranks[task.id], parse_task_locks(task), len(set(task.dependencies)))
            for task in plan
        }
        ready = (entry for entry in self._entries.values() if not entry.unverified)
        self._ready = sorted(ready, key=_get_rank)
        self._holding: dict[str, _QueuedTask] = {}
        self._held: dict[str, str] = {}  # task -> why it cannot start now
        self._picked: list[str] = []  # the beginning of the answer, until the next change
        self._scan = self._scan_ready()

    def set_state(self, task_id: str, state: TaskState) -> None:
        """Set the state of a task. Any state may follow any other; setting the same one again changes nothing."""
        entry = self._entries[task_id]
        before = entry.state
        if before is state:
            return
        self._update(entry, state, entry.unverified)
        self._holding.pop(task_id, None)
        if state in HOLDING:
            self._holding[task_id] = entry
        if state is TaskState.CLAIMED and before is not TaskState.PARTIAL:
            for waiting in self._ready[: bisect_left(self._ready, entry.rank, key=_get_rank)]:
                waiting.passed_over += 1
        if change := (before in self._enough) - (state in self._enough):
            for name in self._dependants[task_id]:
                dependant = self._entries[name]
                self._update(dependant, dependant.state, dependant.unverified + change)
        self._picked, self._scan = [], self._scan_ready()

    def hold(self, task_id: str, why: str) -> None:
        """Do not pick a task, and reserve no lock for it, until `free`."""
        self._held[task_id] = why
        self._picked, self._scan = [], self._scan_ready()

    def free(self, task_id: str) -> None:
        if self._held.pop(task_id, None) is not None:
            self._entries[task_id].passed_over = 0
            self._picked, self._scan = [], self._scan_ready()

    def _update(self, entry: _QueuedTask, state: TaskState, unverified: int) -> None:
        was_ready = _is_ready(entry)
        entry.state, entry.unverified = state, unverified
        if _is_ready(entry) == was_ready:
            return
        if was_ready:
            del self._ready[bisect_left(self._ready, entry.rank, key=_get_rank)]
        else:
            entry.passed_over = 0
            insort(self._ready, entry, key=_get_rank)

    def pick(self, slots: int) -> tuple[str, ...]:
        """Return the tasks to claim now, in this order, for this many free slots."""
        while len(self._picked) < slots and (name := next(self._scan, None)) is not None:
            self._picked.append(name)
        return tuple(self._picked[: max(slots, 0)])

    def can_continue(self, task_id: str) -> bool:
        """Whether no running task has a lock of this one, which has begun: others may have begun while it was out."""
        running = (entry for entry in self._holding.values() if entry.state is TaskState.CLAIMED)
        return HeldLocks(path for entry in running for path in entry.locks).are_free(self._entries[task_id].locks)

    def _scan_ready(self) -> Iterator[str]:
        held = HeldLocks(path for entry in self._holding.values() for path in entry.locks)
        for entry in self._ready:
            if entry.task.id in self._held:
                continue
            free = held.are_free(entry.locks)
            if free:
                yield entry.task.id
            if free or self._is_reserving(entry):
                held.add(entry.locks)

    def _is_reserving(self, entry: _QueuedTask) -> bool:
        return entry.passed_over >= self._patience or entry.task.id in self._urgent

    def explain_waiting(self, task_id: str) -> str:
        """Say what a pending task waits for; empty when it is not pending."""
        entry = self._entries[task_id]
        if entry.state is not TaskState.PENDING:
            return ""
        if entry.unverified:
            return f"waits for {', '.join(self._list_missing(entry))}"
        if task_id in self._held:
            return f"waits: {self._held[task_id]}"
        before = self._ready[: bisect_left(self._ready, entry.rank, key=_get_rank)]
        reserved = [each for each in before if self._is_reserving(each) and each.task.id not in self._held]
        for other in (*sorted(self._holding.values(), key=lambda each: each.task.id), *reserved):
            if (lock := _find_contested_lock(entry.task, other.task)) is not None:
                how = "held by" if other.state in HOLDING else "reserved for"
                return f"waits for the lock {lock} {how} {other.task.id}"
        return WAITS_FOR_SLOT

    def _list_missing(self, entry: _QueuedTask) -> Iterator[str]:
        for need in dict.fromkeys(entry.task.dependencies):
            other = self._entries.get(need)
            if other is None:
                yield f"{need} (not in the plan)"
            elif other.state not in self._enough:
                yield WAITED_FOR.get(other.state, "{} ({state})").format(need, state=other.state)


def _is_ready(entry: _QueuedTask) -> bool:
    return entry.state is TaskState.PENDING and not entry.unverified


def _find_contested_lock(task: Task, other: Task) -> str | None:
    """Return the first lock of the other task that overlaps one of this task's."""
    pairs = ((own, held) for own in task.file_locks or (".",) for held in other.file_locks or (".",))
    return next((held for own, held in pairs if do_locks_overlap(own, held)), None)
