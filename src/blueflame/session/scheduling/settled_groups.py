"""Which cohesion groups are at rest: nothing of theirs moves, nor of any group that they are built on.

Without a barrier such groups land while others are worked on. A group that is not at rest watches one group that
moves, and is looked at again when that one has come to a stop: so a decision costs nothing while nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class SettledGroups:
    """`moves(group)` says whether any of its tasks may still move, `needs(group)` which groups it is built on."""

    def __init__(self) -> None:
        self._stirred: dict[str, None] = {}
        self._still: dict[str, None] = {}  # groups that did not move when last looked at
        self._free: dict[str, None] = {}  # groups at rest
        self._watched: dict[str, str] = {}  # a group -> the moving one it waits for
        self._watchers: dict[str, dict[str, None]] = {}

    def mark_changed(self, group: str) -> None:
        """Something about the group has changed."""
        self._stirred[group] = None

    def list_groups(self, moves: Callable[[str], bool], needs: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
        stirred, self._stirred = self._stirred, {}
        doubtful: dict[str, None] = {}
        for group in stirred:
            doubtful[group] = None
            # who waits for the same may wait only because of this one, and this one because of them
            doubtful.update(self._watchers.get(self._watched.get(group, ""), {}))
            if not moves(group):
                self._still[group] = None
                doubtful.update(self._watchers.pop(group, {}))
            elif group in self._still:
                del self._still[group]
                doubtful.update(self._free)  # it moves again: whoever needs it is no longer at rest
        while doubtful:
            free = [group for group in doubtful if group in self._free]
            self._look_at(doubtful, moves, needs)
            fallen = any(group not in self._free for group in free)
            doubtful = dict(self._free) if fallen else {}  # whoever rested on one that no longer rests
        return tuple(self._free)

    def _look_at(
        self, groups: dict[str, None], moves: Callable[[str], bool], needs: Callable[[str], Iterable[str]]
    ) -> None:
        """All together, since groups may be built on each other: nobody waits but for one that moves."""
        for group in groups:
            self._forget(group)
        hopeful = {group: tuple(needs(group)) for group in groups if not moves(group)}
        waiting = True
        while waiting:
            waiting = False
            for group in tuple(hopeful):
                rival = self._rival(hopeful[group], moves)
                if rival is not None:
                    waiting = True
                    del hopeful[group]
                    self._watched[group] = rival
                    self._watchers.setdefault(rival, {})[group] = None
        self._free.update(dict.fromkeys(hopeful))

    def _rival(self, needed: Iterable[str], moves: Callable[[str], bool]) -> str | None:
        for group in needed:
            if moves(group):
                return group
            if group in self._watched:
                return self._watched[group]
        return None

    def _forget(self, group: str) -> None:
        self._free.pop(group, None)
        rival = self._watched.pop(group, None)
        if rival is not None:
            self._watchers.get(rival, {}).pop(group, None)
