"""The fixture of all crash tests: one fork server, and one undisturbed run of each scenario to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from crash.expectations import Expected, Tally, build_expected
from crash.fork_server import ForkServer
from crash.scenario import Scenario, build_scenario, copy_scenario

SHORT = 36  # random kills by default


@dataclass
class Harness:
    home: Path
    fork_server: ForkServer
    kills: int
    _pieces: dict[tuple[str, int], tuple[Scenario, Expected]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def long(self) -> bool:
        return self.kills > SHORT

    def stage(self, workflow: str = "waves", size: int = 4) -> tuple[Scenario, Expected]:
        """A fresh scenario, and the result of an undisturbed run."""
        if (workflow, size) not in self._pieces:
            self._pieces[workflow, size] = self._rehearse(workflow, size)
        piece, expected = self._pieces[workflow, size]
        return copy_scenario(piece, self.home / f"{workflow}{size}-{next(self._numbers)}"), expected

    def _rehearse(self, workflow: str, size: int) -> tuple[Scenario, Expected]:
        piece = build_scenario(self.home / f"{workflow}{size}", workflow=workflow, size=size)
        whole = copy_scenario(piece, self.home / f"{workflow}{size}-whole")
        assert self.fork_server.run(whole, "run") == 0, whole.log.read_text()
        expected = build_expected(whole)
        rehearsal = Tally("undisturbed")
        rehearsal.add(whole, expected)
        assert rehearsal.violations == []
        return piece, expected
