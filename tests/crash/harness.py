"""The fixture of all crash tests: one fork server, and one undisturbed run of each scenario to compare with."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from crash.expectations import Expected, Tally, build_expected
from crash.fork_server import ForkServer
from crash.scenario import Scenario, build_scenario, copy_scenario

SHORT = 24  # random kills by default


@dataclass
class Harness:
    home: Path
    fork_server: ForkServer
    kills: int
    shared: Path  # of all processes that run these tests
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
        """The first process that needs this scenario runs it; the others wait for the result."""
        home = self.shared / f"{workflow}{size}"
        results = self.shared / f"{workflow}{size}.json"
        with (self.shared / f"{workflow}{size}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not results.exists():
                expected = self._run_undisturbed(build_scenario(home, workflow=workflow, size=size))
                results.write_text(json.dumps(expected.as_json()))
        return Scenario(home), Expected.from_json(json.loads(results.read_text()))

    def _run_undisturbed(self, piece: Scenario) -> Expected:
        whole = copy_scenario(piece, piece.home.with_name(f"{piece.home.name}-whole"))
        assert self.fork_server.run(whole, "run") == 0, whole.log.read_text()
        expected = build_expected(whole)
        rehearsal = Tally("undisturbed")
        rehearsal.add(whole, expected)
        assert rehearsal.violations == []
        return expected
