"""Where everything is played: one forge, and one undisturbed performance of each piece, for all of the torture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from crash.expectations import Expected, Tally, expected_of
from crash.fork_server import Forge
from crash.scenario import Theatre, again, build

SHORT = 36  # random kills in a run that is not told how many


@dataclass
class House:
    home: Path
    forge: Forge
    kills: int
    _pieces: dict[tuple[str, int], tuple[Theatre, Expected]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def long(self) -> bool:
        return self.kills > SHORT

    def stage(self, workflow: str = "waves", size: int = 4) -> tuple[Theatre, Expected]:
        """A fresh stage, and what an undisturbed performance gives."""
        if (workflow, size) not in self._pieces:
            self._pieces[workflow, size] = self._rehearse(workflow, size)
        piece, expected = self._pieces[workflow, size]
        return again(piece, self.home / f"{workflow}{size}-{next(self._numbers)}"), expected

    def _rehearse(self, workflow: str, size: int) -> tuple[Theatre, Expected]:
        piece = build(self.home / f"{workflow}{size}", workflow=workflow, size=size)
        whole = again(piece, self.home / f"{workflow}{size}-whole")
        assert self.forge.run(whole, "run") == 0, whole.log.read_text()
        expected = expected_of(whole)
        rehearsal = Tally("undisturbed")
        rehearsal.add(whole, expected)
        assert rehearsal.violations == []
        return piece, expected
