"""Tasks that wait at the stages of a workflow, in rank order: for their checks, a reviewer or the next maker."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from typing import Any, TypeAlias

QueueRank: TypeAlias = tuple[Any, ...]


class StageQueue:
    def __init__(self) -> None:
        self._places: dict[str, tuple[int, QueueRank]] = {}  # task -> its stage and rank
        self._stages: dict[int, list[tuple[QueueRank, str]]] = {}  # stage -> those that wait there; the smallest first

    def add(self, task: str, stage: int, rank: QueueRank) -> None:
        self.remove(task)
        self._places[task] = (stage, rank)
        insort(self._stages.setdefault(stage, []), (rank, task))

    def remove(self, task: str) -> None:
        if (place := self._places.pop(task, None)) is not None:
            stage, rank = place
            waiting = self._stages[stage]
            del waiting[bisect_left(waiting, (rank, task))]

    def list_at(self, stage: int) -> Iterator[str]:
        return (task for _, task in self._stages.get(stage, ()))

    def list_all(self) -> Iterator[str]:
        return (task for _, task in merge(*self._stages.values()))

    def list_ranks(self) -> Iterator[QueueRank]:
        return (rank for rank, _ in merge(*self._stages.values()))

    def has_any_at(self, stage: int) -> bool:
        return bool(self._stages.get(stage))

    def __contains__(self, task: str) -> bool:
        return task in self._places

    def __len__(self) -> int:
        return len(self._places)
