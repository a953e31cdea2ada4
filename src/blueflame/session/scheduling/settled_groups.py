"""Which cohesion groups are settled: none of their tasks may move, nor one of a group that they build on.

Without a barrier such groups land while others are worked on. A group that waits knows one group that it waits for, and
is looked at again when that one has stopped moving: while nothing changes, a decision costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise

from blueflame.model.task import TaskState

MAY_MOVE = frozenset({TaskState.PENDING, TaskState.CLAIMED, TaskState.PARTIAL, TaskState.DONE})


class SettledGroups:
    def __init__(self, groups: Mapping[str, str]) -> None:
        """`groups`: the cohesion group of each task. All tasks are pending."""
        self._groups = groups
        self._states = dict.fromkeys(groups, TaskState.PENDING)
        self._moving = Counter(groups.values())
        self._validated: dict[str, dict[str, tuple[str, ...]]] = {}  # group -> its validated tasks -> their foundations
        self._built_upon: dict[str, dict[str, None]] = {}  # task -> validated tasks that were built on it
        self._settled: dict[str, None] = {}
        self._waits_for: dict[str, str] = {group: group for group in self._moving}  # one that moves, for itself
        self._watchers: dict[str, dict[str, None]] = {group: {group: None} for group in self._moving}

    def list_tasks(self) -> tuple[str, ...]:
        """Return the validated tasks of the settled groups."""
        return tuple(task for group in self._settled for task in self._validated[group])

    def set_state(self, task: str, state: TaskState, built_on: Collection[str] = ()) -> None:
        """Set the state of a task; `built_on`: the tasks that a validated one was built on."""
        group, before = self._groups[task], self._states[task]
        self._states[task] = state
        self._moving[group] += (state in MAY_MOVE) - (before in MAY_MOVE)
        if before is state or {before, state} <= MAY_MOVE:
            return
        if before is TaskState.VALIDATED:
            self._remove_validated(task)
        if state is TaskState.VALIDATED:
            self._validated.setdefault(group, {})[task] = tuple(built_on)
            for foundation in built_on:
                self._built_upon.setdefault(foundation, {})[task] = None
        above = self._built_upon.get(task, ()) if TaskState.MERGED in (before, state) else ()
        self._look_again(dict.fromkeys([group, *(self._groups[name] for name in above)]))

    def _remove_validated(self, task: str) -> None:
        members = self._validated[self._groups[task]]
        for foundation in members.pop(task):
            del self._built_upon[foundation][task]
        if not members:
            del self._validated[self._groups[task]]

    def _look_again(self, changed: Iterable[str]) -> None:
        doubtful = [*changed]
        while doubtful:
            group = doubtful.pop()
            self._settled.pop(group, None)
            if self._moving[group]:
                doubtful += self._set_blocker(group, group)
            elif group not in self._validated:
                doubtful += self._set_blocker(group, None)
            elif way := self._find_way(group, seen := {group: group}):
                for each, blocker in pairwise(way):
                    doubtful += self._set_blocker(each, blocker)
            else:
                for each in seen:
                    doubtful += self._set_blocker(each, None)
                self._settled.update(dict.fromkeys(each for each in seen if each in self._validated))

    def _find_way(self, start: str, seen: dict[str, str]) -> tuple[str, ...]:
        """Return the way from a group to one that moves, through groups that build on each other; fill `seen`."""
        front = [start]
        while front:
            group = front.pop()
            for need in self._list_needs(group):
                if need in seen or need in self._settled:
                    continue
                seen[need] = group
                if self._moving[need]:
                    return _trace_back(seen, need)
                front.append(need)
        return ()

    def _list_needs(self, group: str) -> Iterator[str]:
        """List the groups of the tasks that validated ones were built on and that have not landed."""
        for foundations in self._validated.get(group, {}).values():
            for task in foundations:
                if self._states[task] is not TaskState.MERGED:
                    yield self._groups[task]

    def _set_blocker(self, group: str, blocker: str | None) -> Collection[str]:
        """Record what a group waits for (itself while it moves), and return the groups that this may change."""
        before = self._waits_for.pop(group, None)
        if before is not None:
            del self._watchers[before][group]
        if blocker is None:
            return () if before is None else tuple(self._watchers.get(group, ()))
        self._waits_for[group] = blocker
        self._watchers.setdefault(blocker, {})[group] = None
        return tuple(self._settled) if before is None else ()


def _trace_back(came_from: Mapping[str, str], end: str) -> tuple[str, ...]:
    way = [end]
    while came_from[way[-1]] != way[-1]:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))
