"""The pool of a house, as the orchestrators of its sessions ask it."""

from __future__ import annotations

from pathlib import Path

from blueflame.dispatch.pool import PoolLimits
from blueflame.journal.pool import PoolJournal
from blueflame.model.attempt import Attempt
from blueflame.orchestrator.engine.pool import HousePool
from blueflame.system.layout import HousePaths, StatePaths

SAME = Attempt(
    id="ses-20261117-120000.task-001.worker.1",
    session="ses-20261117-120000",
    subject="task-001",
    role="worker",
    n=1,
    agent_id="worker-00000001",
)


def test_attempts_of_the_same_id_in_two_repositories_take_two_slots(tmp_path: Path) -> None:
    """Session ids have seconds: a house starts sessions in several repositories within one."""
    house = HousePaths(tmp_path / "house")
    with PoolJournal.open(house.journal) as journal:
        journal.write_limits(PoolLimits(agents=1))
    shop, blog = (HousePool(house, StatePaths(tmp_path / name)) for name in ("shop", "blog"))

    assert shop.ask(SAME, 1.0) is None
    waits = blog.ask(SAME, 1.0)

    assert waits is not None
    assert "1 of 1 agents work" in waits.reason
    assert waits.occupants == ("shop task-001",)
