"""The journal of the house: arrivals once, events in order, cost of what is under way only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from time import sleep
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.journal.codec import decode_value, encode_event
from blueflame.journal.database import Fenced, NoJournal
from blueflame.journal.house import EVENTS, HouseJournal, Settlement
from blueflame.journal.journal import Journal
from blueflame.model.errors import JournalError
from blueflame.model.house.arrival import IncomingAnswer, IncomingCommand, IncomingRequest, Sender, Trust
from blueflame.model.house.event import (
    FINAL,
    HOUSE,
    HouseEvent,
    Refusal,
    RequestCancelled,
    RequestEnded,
    RequestQueued,
    RequestReceived,
    RequestRefused,
    SourceWarned,
)
from support.event_strategies import build_events

ALICE = Sender(name="alice", trust=Trust.OWNER, address="terminal:alice")
ASKED = IncomingRequest(source="plans", key="a.md:1", sender=ALICE, at=5.0, text="do é\ud800", repository="shop")
SECOND = replace(ASKED, key="a.md:2")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[HouseJournal]:
    with HouseJournal.open(tmp_path / "the house" / "house.db") as opened:
        yield opened


def test_arrivals_and_their_cursor_are_kept_together(journal: HouseJournal) -> None:
    answer = IncomingAnswer(
        source="plans", key="g", sender=ALICE, at=6.0, repository="", session="", gate="g", choice="approve"
    )
    stop = IncomingCommand(source="plans", key="s", sender=ALICE, at=7.0, verb="stop")
    assert journal.read_cursor("plans") == ""
    assert journal.receive("plans", [ASKED, answer, stop], cursor="7") == 3
    assert journal.read_cursor("plans") == "7"
    assert [each.arrival for each in journal.list_waiting()] == [ASKED, answer, stop]


def test_a_process_that_opens_it_waits_for_the_rescue_after_its_wal_was_deleted(journal: HouseJournal) -> None:
    """A second -wal beside the same -shm would damage it."""
    journal.append([(HOUSE, SourceWarned(source="plans", text=str(n))) for n in range(50)], 1.0)
    journal.path.with_name("house.db-wal").unlink()

    def receive() -> None:
        with HouseJournal.open(journal.path) as other:
            other.receive("plans", [ASKED])

    with ThreadPoolExecutor() as threads:
        received = threads.submit(receive)
        sleep(0.2)
        with pytest.raises(JournalError, match="saved there again"):
            journal.check_file()
        received.result()
    with HouseJournal.open(journal.path) as after:
        after.refuse_damage()
        assert len(after.read_after(0)) == 50
        assert [each.arrival for each in after.list_waiting()] == [ASKED]


def test_what_was_received_before_is_dropped_also_after_it_was_settled(journal: HouseJournal) -> None:
    journal.receive("plans", [ASKED])
    (waiting,) = journal.list_waiting()
    journal.append(
        [("req-1", RequestReceived(request=ASKED, repository="shop"))], 6.0, settles=[Settlement(waiting.id)]
    )
    assert journal.receive("plans", [ASKED, SECOND], cursor="2") == 1
    assert [each.arrival for each in journal.list_waiting()] == [SECOND]


def test_the_fate_of_an_arrival_names_its_request(journal: HouseJournal) -> None:
    assert journal.find_fate("plans", ASKED.key) is None
    journal.receive("plans", [ASKED])
    assert journal.find_fate("plans", ASKED.key) == (False, False, "", "")
    (waiting,) = journal.list_waiting()
    received = RequestReceived(request=ASKED, repository="shop")
    journal.append([("req-1", received)], 6.0, settles=[Settlement(waiting.id, "req-1", "queued")])
    assert journal.find_fate("plans", ASKED.key) == (True, True, "req-1", "queued")


def test_a_request_is_open_from_its_arrival_to_its_end(journal: HouseJournal) -> None:
    assert not journal.is_open("plans", ASKED.key)
    journal.receive("plans/docs", [ASKED])
    assert journal.is_open("plans", ASKED.key)
    (waiting,) = journal.list_waiting()
    received = RequestReceived(request=ASKED, repository="shop")
    journal.append([("req-1", received)], 6.0, settles=[Settlement(waiting.id, "req-1")])
    assert journal.is_open("plans", ASKED.key)
    journal.append([("req-1", RequestCancelled(by="alice"))], 7.0)
    assert not journal.is_open("plans", ASKED.key)


def test_only_requests_that_have_not_ended_are_read_at_start(journal: HouseJournal) -> None:
    first, second = (RequestReceived(request=each, repository="shop") for each in (ASKED, SECOND))
    journal.append([("req-1", first), ("req-2", second), (HOUSE, SourceWarned(source="plans", text="gone"))], 6.0)
    journal.append([("req-1", RequestEnded(outcome="completed")), ("req-2", RequestQueued())], 7.0)
    assert [(each.n, each.stream) for each in journal.read_open_streams()] == [(2, "req-2"), (5, "req-2")]
    assert [each.event for each in journal.read_stream("req-1")] == [first, RequestEnded(outcome="completed")]
    assert journal.list_streams(5) == ("req-2", "req-1")
    assert [each.n for each in journal.read_after(3)] == [4, 5]


@pytest.mark.parametrize(
    "found",
    [
        RequestRefused(why=Refusal.RATE, reason="too many"),
        RequestEnded(outcome="stopped"),
        RequestCancelled(by="alice"),
    ],
)
def test_each_final_event_ends_its_stream(journal: HouseJournal, found: HouseEvent) -> None:
    assert isinstance(found, FINAL)
    journal.append([("req-1", RequestReceived(request=ASKED, repository="shop")), ("req-1", found)], 6.0)
    assert journal.read_open_streams() == ()


def test_requests_of_a_sender_are_counted_by_their_time(journal: HouseJournal) -> None:
    for n, at in enumerate((10.0, 20.0, 30.0)):
        journal.append([(f"req-{n}", RequestReceived(request=replace(ASKED, key=str(n)), repository="shop"))], at)
    assert journal.count_requests_since(20.0, "terminal:alice") == 2
    assert journal.count_requests_since(0.0, "terminal:bob") == 0


def test_a_second_house_is_fenced(journal: HouseJournal) -> None:
    with HouseJournal.open(journal.path) as other:
        other.append([(HOUSE, SourceWarned(source="plans", text="first"))], 1.0)
    with pytest.raises(Fenced, match="another process has written"):
        journal.append([(HOUSE, SourceWarned(source="plans", text="second"))], 2.0)
    assert len(journal.read_after(0)) == 1


def test_a_house_whose_folder_is_deleted_takes_nothing_more_and_saves_what_it_has(journal: HouseJournal) -> None:
    journal.receive("plans", [ASKED], cursor="7")
    rmtree(journal.path.parent)
    with pytest.raises(JournalError, match=r"deleted or replaced .*`blueflame serve`"):
        journal.receive("plans", [SECOND], cursor="8")
    with HouseJournal.open(journal.path) as saved:
        assert [each.arrival for each in saved.list_waiting()] == [ASKED]
        assert saved.read_cursor("plans") == "7"


def test_notes_are_kept_by_source_and_removed_with_none(journal: HouseJournal) -> None:
    journal.write_notes("telegram", {"gate-1": "message 5", "gate-2": "message 6"})
    journal.write_notes("telegram", {"gate-1": None, "gate-2": "message 7"})
    assert journal.read_notes("telegram") == {"gate-2": "message 7"}
    assert journal.read_notes("feeds") == {}


def test_the_journal_of_a_repository_is_not_taken_for_one_of_a_house(tmp_path: Path) -> None:
    Journal.open(tmp_path / "journal.db").close()
    with pytest.raises(JournalError, match="another program's database"):
        HouseJournal.open(tmp_path / "journal.db")


def test_a_missing_journal_says_how_a_house_is_begun(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match="start it with `blueflame serve`"):
        HouseJournal.open_read_only(tmp_path / "house.db")


@given(st.data())
@pytest.mark.parametrize("kind", get_args(HouseEvent), ids=lambda kind: kind.__name__)
def test_every_event_comes_back_as_it_was(kind: type[HouseEvent], data: st.DataObject) -> None:
    event = data.draw(build_events(kind))
    assert repr(decode_value(*encode_event(event), EVENTS)) == repr(event)  # nan is not equal to itself
