"""Which tasks may be claimed now: pending, dependencies verified, locks free of every running and every picked task.

The queue is an index that the session keeps: events move tasks, `pick` answers. It never decides by anything but the
moves it was told, so the same history gives the same picks.

A task that is kept back by a lock does not hold up those behind it. But once `patience` of them were claimed while it
waited, its locks are reserved: nobody who ranks behind it gets a lock that it needs, so no ready task starves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from blueflame.model.task import VERIFIED, Task, TaskState
from blueflame.paths.locks import LockPath, do_locks_overlap, parse_task_locks
from blueflame.session.scheduling.lock_waiters import WaitingRoom
from blueflame.session.scheduling.passed_over import Patience
from blueflame.session.scheduling.ranking import Rank, compute_ranks, list_dependants

MAX_PASSED_OVER = 16
"""Claims of lower rank that may go past a ready task: four rounds of four workers. Much less costs makespan."""

ON_ITS_WAY = frozenset({TaskState.PENDING, TaskState.CLAIMED})


@dataclass(slots=True)
class _Entry:
    """What the queue knows of one task."""

    task: Task
    rank: Rank
    locks: tuple[LockPath, ...]
    state: TaskState = TaskState.PENDING
    unverified: int = 0  # dependencies that are not verified
    place: int = 0  # among all tasks, by rank
    ready: bool = False
    reserved: bool = False


class ReadyQueue:
    def __init__(self, tasks: Iterable[Task], *, patience: int = MAX_PASSED_OVER) -> None:
        plan = tuple(tasks)
        order = compute_ranks(plan)
        self._limit = max(1, patience)
        self._entries = {task.id: _Entry(task, order[task.id], parse_task_locks(task)) for task in plan}
        self._behind = list_dependants(plan)
        self._room = WaitingRoom()
        self._by_rank = sorted(self._entries.values(), key=lambda entry: entry.rank)
        self._patience = Patience(len(self._by_rank), self._limit)
        for place, entry in enumerate(self._by_rank):
            entry.place = place
            entry.unverified = len(set(entry.task.dependencies))
            self._settle(entry)

    @property
    def ready_count(self) -> int:
        """Tasks that only a lock or a slot keeps from being claimed."""
        return len(self._room)

    def set_state(self, task_id: str, state: TaskState) -> None:
        """Tell the queue how a task stands now. Every state may follow every other; a repetition changes nothing."""
        entry = self._entries[task_id]
        before, entry.state = entry.state, state
        if before is state:
            return
        if before is TaskState.CLAIMED:
            self._room.release(task_id, entry.locks)
        self._settle(entry)
        if state is TaskState.CLAIMED:
            self._room.hold(task_id, entry.locks)
            self._reserve_for_passed_over(entry.place)
        if (before in VERIFIED) != (state in VERIFIED):
            self._tell_dependants(task_id, -1 if state in VERIFIED else 1)

    def edited(self, task: Task) -> ReadyQueue:
        """The queue after a person changed (or added) one task; every ready task's patience starts anew."""
        plan = {name: entry.task for name, entry in self._entries.items()} | {task.id: task}
        fresh = ReadyQueue(plan.values(), patience=self._limit)
        for name, entry in self._entries.items():
            fresh.set_state(name, entry.state)
        return fresh

    def pick(self, slots: int) -> tuple[str, ...]:
        """The tasks to claim now, in this order, for this many free slots. Asking changes no later answer."""
        picked: list[_Entry] = []
        while len(picked) < slots and (rank := self._room.first()) is not None:
            entry = self._entries[rank[2]]
            self._room.leave(rank)
            self._room.hold(entry.task.id, entry.locks)
            picked.append(entry)
        for entry in picked:
            self._room.release(entry.task.id, entry.locks)
            self._room.enter(entry.rank, entry.locks)
        return tuple(entry.task.id for entry in picked)

    def explain_waiting(self, task_id: str) -> str:
        """What a pending task waits for, in words; empty when it is not pending."""
        entry = self._entries[task_id]
        if entry.state is not TaskState.PENDING:
            return ""
        if entry.unverified:
            return f"waits for {', '.join(self._missing(entry))}"
        rival = self._room.blocker(entry.rank, entry.locks)
        if rival is None:
            return "waits for a slot"
        how = "held by" if self._entries[rival].state is TaskState.CLAIMED else "reserved for"
        return f"waits for the lock {self._contested(entry, self._entries[rival])} {how} {rival}"

    def _missing(self, entry: _Entry) -> Iterable[str]:
        for need in dict.fromkeys(entry.task.dependencies):
            other = self._entries.get(need)
            if other is None:
                yield f"{need} (not in the plan)"
            elif other.state not in VERIFIED:
                yield need if other.state in ON_ITS_WAY else f"{need} ({other.state})"

    def _contested(self, entry: _Entry, rival: _Entry) -> str:
        for lock in entry.task.file_locks or (".",):
            for other in rival.task.file_locks or (".",):
                if do_locks_overlap(lock, other):
                    return other
        return "."

    def _settle(self, entry: _Entry) -> None:
        """Let a task that is ready wait for its locks, and take away one that is not."""
        ready = entry.state is TaskState.PENDING and entry.unverified == 0
        if ready == entry.ready:
            return
        entry.ready = ready
        if ready:
            self._patience.begin(entry.place)
            self._room.enter(entry.rank, entry.locks)
            return
        self._patience.end(entry.place)
        self._room.leave(entry.rank)
        if entry.reserved:
            entry.reserved = False
            self._room.unreserve(entry.rank, entry.locks)

    def _reserve_for_passed_over(self, claimed: int) -> None:
        for place in self._patience.passed_over_by(claimed):
            entry = self._by_rank[place]
            entry.reserved = True
            self._room.reserve(entry.rank, entry.locks)

    def _tell_dependants(self, task_id: str, change: int) -> None:
        for name in self._behind[task_id]:
            entry = self._entries[name]
            entry.unverified += change
            self._settle(entry)
