"""Leases and wants of the pool in the journal of a house."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.dispatch.pool import Grant, Lease, PoolLimits, Want
from blueflame.journal.pool import PoolJournal

HERE = Path("/nowhere")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[PoolJournal]:
    with PoolJournal.open(tmp_path / "house.db") as opened:
        opened.write_limits(PoolLimits(agents=1, roles={"qa": 1}))
        yield opened


def ask(pool: PoolJournal, name: str, at: float = 0.0, repository: str = "shop") -> Grant:
    want = Want(attempt=name, role="worker", repository=repository, session=repository, since=at, asked_at=at)
    return pool.ask(want, day="d", free_memory=0, holder="1 0.00", folder=HERE / name, signals=HERE / repository)


def test_limits_are_read_as_they_were_written(pool: PoolJournal) -> None:
    assert pool.read_limits() == PoolLimits(agents=1, roles={"qa": 1})


def test_a_slot_is_given_once_and_asking_again_is_harmless(pool: PoolJournal) -> None:
    assert ask(pool, "a").given
    assert ask(pool, "a").given
    assert not ask(pool, "b", at=1.0).given
    assert [lease.attempt for lease in pool.read_state("d", 0).leases] == ["a"]
    assert pool.list_waiting_signals(1.0) == (HERE / "shop",)
    assert "1 of 1 agents" in pool.list_reasons()["b"]


def test_a_want_keeps_the_time_when_it_was_asked_for_first(pool: PoolJournal) -> None:
    ask(pool, "a")
    ask(pool, "b", at=1.0)
    ask(pool, "b", at=9.0)
    (want,) = pool.read_state("d", 0).wants
    assert (want.since, want.asked_at) == (1.0, 9.0)


def test_the_leases_of_a_session_are_those_of_its_live_attempts(pool: PoolJournal) -> None:
    ask(pool, "a")
    adopted = Lease(attempt="c", role="worker", repository="shop", session="shop", since=2.0)
    pool.keep_leases("shop", {"c": (adopted, "1 0.00", HERE)})
    assert [lease.attempt for lease in pool.read_state("d", 0).leases] == ["c"]
    pool.keep_leases("blog", {})
    assert len(pool.read_state("d", 0).leases) == 1, "those of other sessions stay"
    pool.keep_leases("shop", {})
    assert ask(pool, "b", at=3.0).given


def test_a_lease_without_a_living_agent_is_dropped(pool: PoolJournal) -> None:
    ask(pool, "a")
    assert pool.drop_dead(lambda _holder, _folder: True) == ()
    assert pool.drop_dead(lambda holder, folder: (holder, folder) != ("1 0.00", HERE / "a")) == ("a",)
    assert ask(pool, "b").given


def test_the_cost_of_an_attempt_counts_once_and_on_its_day(pool: PoolJournal) -> None:
    for _ in range(2):
        pool.note_ended([("a", "worker", "monday", 500, 60.0), ("b", "qa", "tuesday", 300, 30.0)])
    assert pool.read_state("monday", 0).day_micro_usd == 500
    assert pool.read_durations() == {"worker": [60.0], "qa": [30.0]}
