"""One fork server and one undisturbed run of each scenario for all crash tests; a table of the results.

BLUEFLAME_TORTURE=500 makes it a long run with at least so many random kills; BLUEFLAME_TORTURE_RESULTS=FILE keeps the
table as JSON, from which scripts/reliability.py writes docs/evidence/reliability.md. BLUEFLAME_TORTURE_SEED=2 gives
other dice, so that the kills of several runs add up.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crash.expectations import Tally
from crash.fork_server import start_fork_server
from crash.harness import SHORT, Harness
from support.warden_forks import WardenForks

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from reliability import format_table

TALLIES: list[Tally] = []
BEGAN = time.monotonic()


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory, warden_forks: WardenForks) -> Iterator[Harness]:
    """In a long run each orchestrator has a process that forks its wardens; in a short one they share it, unless a test
    asks for its own."""
    with start_fork_server(warden_forks) as running:
        kills = int(os.environ.get("BLUEFLAME_TORTURE", SHORT))
        base = tmp_path_factory.getbasetemp()
        shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "театр torture, shared"
        shared.mkdir(exist_ok=True)
        seed = os.environ.get("BLUEFLAME_TORTURE_SEED", "")
        made = Harness(tmp_path_factory.mktemp("театр torture"), running, kills, shared, seed)
        running.shares_wardens = not made.long
        yield made


@pytest.fixture
def own_wardens(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness.fork_server, "shares_wardens", False)


@pytest.fixture
def tally() -> Iterator[Callable[[str, str], Tally]]:
    """Counts for the table; after the test there must be no violation."""
    mine: list[Tally] = []

    def make(case: str, about: str) -> Tally:
        mine.append(Tally(case, about))
        return mine[-1]

    yield make
    TALLIES.extend(mine)
    assert [violation for each in mine for violation in each.violations] == []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TALLIES:
        return
    rows = [each.as_json() for each in TALLIES]
    terminalreporter.section("torture")
    terminalreporter.write("\n".join([*format_table(rows), ""]))
    if path := os.environ.get("BLUEFLAME_TORTURE_RESULTS"):
        date, seconds = f"{datetime.now(UTC):%Y-%m-%d}", round(time.monotonic() - BEGAN)
        results = {"date": date, "seconds": seconds, "rows": rows}
        Path(path).write_text(json.dumps(results, ensure_ascii=False, indent=1), encoding="utf-8")
