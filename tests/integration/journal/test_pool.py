"""Leases and wants of the pool in the journal of a house."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.dispatch.pool import Lease, PoolLimits, Want
from blueflame.journal.database import Schema, open_to_write
from blueflame.journal.house import HOUSE_TABLES, m001_house, m002_pool
from blueflame.journal.pool import PoolJournal
from blueflame.model.limits import SlotWait

HERE = Path("/nowhere")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[PoolJournal]:
    with PoolJournal.open(tmp_path / "house.db") as opened:
        opened.write_limits(PoolLimits(agents=1, roles={"qa": 1}))
        yield opened


def ask(
    pool: PoolJournal,
    name: str,
    at: float = 0.0,
    repository: str = "shop",
    *,
    role: str = "worker",
    ad_hoc: bool = False,
) -> SlotWait | None:
    want = Want(
        attempt=name, role=role, repository=repository, session=repository, since=at, asked_at=at, ad_hoc=ad_hoc
    )
    return pool.ask(want, day="d", free_memory=0, holder="1 0.00", folder=HERE / name, signals=HERE / repository)


def test_limits_are_read_as_they_were_written(pool: PoolJournal) -> None:
    assert pool.read_limits() == PoolLimits(agents=1, roles={"qa": 1})


def test_a_slot_is_given_once_and_asking_again_is_harmless(pool: PoolJournal) -> None:
    assert ask(pool, "a") is None
    assert ask(pool, "a") is None
    waits = ask(pool, "b", at=1.0)
    assert waits is not None
    assert "1 of 1 agents" in waits.reason
    assert [lease.attempt for lease in pool.read_state("d", 0).leases] == ["a"]
    assert pool.list_waiting_signals(1.0) == (HERE / "shop",)


def test_a_want_keeps_the_time_when_it_was_asked_for_first(pool: PoolJournal) -> None:
    ask(pool, "a")
    ask(pool, "b", at=1.0)
    ask(pool, "b", at=9.0)
    (want,) = pool.read_state("d", 0).wants
    assert (want.since, want.asked_at) == (1.0, 9.0)


def test_the_leases_of_a_session_are_those_of_its_live_attempts(pool: PoolJournal) -> None:
    ask(pool, "a")
    adopted = Lease(attempt="c", role="worker", repository="shop", session="shop", since=2.0)
    pool.keep_leases("shop", "shop", {"c": (adopted, "1 0.00", HERE)})
    assert [lease.attempt for lease in pool.read_state("d", 0).leases] == ["c"]
    pool.keep_leases("blog", "shop", {})
    assert len(pool.read_state("d", 0).leases) == 1, "of another repository: it stays"
    pool.keep_leases("shop", "shop", {})
    assert ask(pool, "b", at=3.0) is None


def test_a_lease_that_a_resumed_session_goes_on_with_is_not_dropped_with_the_process_before(pool: PoolJournal) -> None:
    ask(pool, "a")
    lease = Lease(attempt="a", role="worker", repository="shop", session="shop", since=2.0)

    def resume(_holder: str, _folder: Path) -> bool:
        """The session is resumed between the look at the process and the removal of its lease."""
        pool.keep_leases("shop", "shop", {"a": (lease, "2 0.00", HERE)})
        return False

    assert pool.drop_dead(resume) == ()
    assert pool.drop_dead(lambda holder, _folder: holder == "2 0.00") == ()
    want = Want(attempt="a", role="worker", repository="shop", session="shop", since=3.0, asked_at=3.0)
    assert pool.ask(want, day="d", free_memory=0, holder="3 0.00", folder=HERE, signals=HERE) is None
    assert pool.drop_dead(lambda holder, _folder: holder == "3 0.00") == ()


def test_a_want_from_before_the_clock_was_set_back_holds_no_slot_back(pool: PoolJournal) -> None:
    ask(pool, "a", at=5000.0)
    ask(pool, "given up", at=5000.0, repository="blog")
    ask(pool, "b", at=5000.0, repository="site")
    pool.keep_leases("shop", "shop", {})
    assert ask(pool, "b", at=1400.0, repository="site") is None
    assert pool.list_waiting_signals(1400.0) == ()


def test_a_lease_without_a_living_agent_is_dropped(pool: PoolJournal) -> None:
    ask(pool, "a")
    assert pool.drop_dead(lambda _holder, _folder: True) == ()
    assert pool.drop_dead(lambda holder, folder: (holder, folder) != ("1 0.00", HERE / "a")) == ("a",)
    assert ask(pool, "b") is None


def test_the_cost_of_an_attempt_counts_once_and_on_its_day(pool: PoolJournal) -> None:
    for _ in range(2):
        pool.note_ended([("a", "worker", "monday", 500, 60.0), ("b", "qa", "tuesday", 300, 30.0)])
    assert pool.read_state("monday", 0).day_micro_usd == 500
    assert pool.read_durations() == {"worker": [60.0], "qa": [30.0]}


def test_an_ad_hoc_agent_has_a_slot_of_its_own_and_keeps_it_over_a_lost_lease(pool: PoolJournal) -> None:
    pool.write_limits(PoolLimits(agents=9, roles={"qa": 1}, max_adhoc_per_type=1))
    assert ask(pool, "core", role="qa") is None
    assert ask(pool, "beside", role="qa", ad_hoc=True) is None
    waits = ask(pool, "third", role="qa", ad_hoc=True)
    assert waits is not None
    assert waits.ad_hoc
    assert {each.attempt: each.ad_hoc for each in pool.read_state("d", 0).leases} == {"core": False, "beside": True}
    pool.drop_dead(lambda _holder, _folder: False)
    ours = pool.read_state("d", 0)
    assert [each.attempt for each in ours.wants] == ["third"], "wants are no leases"
    adopted = Lease(attempt="beside", role="qa", repository="shop", session="shop", since=0.0, ad_hoc=True)
    pool.keep_leases("shop", "shop", {"beside": (adopted, "1 0.00", HERE)})
    assert ask(pool, "core", role="qa", at=99.0) is None, "the adopted one has none of the core slots"


def test_a_pool_of_an_earlier_version_is_read_on(tmp_path: Path) -> None:
    earlier = Schema(
        application_id=HOUSE_TABLES.application_id, migrations=(m001_house, m002_pool), resume="", absent="", kept=""
    )
    db = open_to_write(tmp_path / "house.db", earlier)
    with db:
        db.execute("INSERT INTO notes VALUES ('pool', 'limits', ?)", (json.dumps({"agents": 1, "roles": {}}),))
        db.execute("INSERT INTO leases VALUES ('a', 'worker', 'shop', 'shop', 0, 5, '1 0.00', '/nowhere')")
        db.execute("INSERT INTO wants VALUES ('b', 'worker', 'shop', 'shop', 0, 0, 5, '/nowhere', 'full')")
    db.close()
    with PoolJournal.open(tmp_path / "house.db") as opened:
        assert opened.read_limits() == PoolLimits(agents=1)
        (lease,) = opened.read_state("d", 0).leases
        assert (lease.attempt, lease.micro_usd, lease.ad_hoc) == ("a", 5, False)
        assert ask(opened, "b", at=1.0) is not None
