"""The fixture of all crash tests: one fork server, and one undisturbed run of each scenario to compare with."""

from __future__ import annotations

import fcntl
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from crash.expectations import Expected, Tally, build_expected
from crash.fork_server import ForkServer
from crash.scenario import Scenario, build_scenario, copy_scenario

SHORT = 8  # random kills by default


@dataclass
class Harness:
    home: Path
    fork_server: ForkServer
    kills: int
    shared: Path  # of all processes that run these tests
    seed: str = ""  # another one gives other dice
    _pieces: dict[str, tuple[Scenario, Expected]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def long(self) -> bool:
        return self.kills > SHORT

    def roll(self, *round_of: object) -> random.Random:
        return random.Random(" ".join(map(str, (*self.seed.split(), *round_of))))

    def stage(
        self, workflow: str = "waves", size: int = 4, *, mode: str = "merge", boxed: bool = False
    ) -> tuple[Scenario, Expected]:
        """A fresh scenario, and the result of an undisturbed run."""
        name = f"{workflow}{size}{'' if mode == 'merge' else f'-{mode}'}{'-boxed' if boxed else ''}"
        if name not in self._pieces:
            build = partial(build_scenario, workflow=workflow, size=size, mode=mode, boxed=boxed)
            self._pieces[name] = self._rehearse(name, build)
        piece, expected = self._pieces[name]
        return copy_scenario(piece, self.home / f"{name}-{next(self._numbers)}"), expected

    def _rehearse(self, name: str, build: Callable[[Path], Scenario]) -> tuple[Scenario, Expected]:
        """The first process that needs this scenario runs it; the others wait for the result."""
        home, results = self.shared / name, self.shared / f"{name}.json"
        with (self.shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not results.exists():
                expected = self._run_undisturbed(build(home))
                results.write_text(json.dumps(expected.as_json()))
        return Scenario(home), Expected.from_json(json.loads(results.read_text()))

    def _run_undisturbed(self, piece: Scenario) -> Expected:
        whole = copy_scenario(piece, piece.home.with_name(f"{piece.home.name}-whole"))
        assert self.fork_server.run(whole, "run") == 0, whole.log.read_text()
        expected = build_expected(whole)
        rehearsal = Tally("undisturbed")
        rehearsal.add(whole, expected)
        assert rehearsal.violations == [], rehearsal.violations
        return expected
