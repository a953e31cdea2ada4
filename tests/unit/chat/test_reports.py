"""What people in a chat read about their requests: one message for each fact."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.chat.reports import report_event
from blueflame.model.house.event import (
    HOUSE,
    CancelRequested,
    HouseEntry,
    HouseEvent,
    RepositoryHeld,
    RequestCancelled,
    RequestQueued,
    RequestReceived,
    SessionFound,
    StartFailed,
)
from support.house_requests import ALICE, build_request

ANNA, BEN, GROUP = 11, 22, -100
DIRTY = "shop has changes that are not committed"


def tell(*events: tuple[str, HouseEvent]) -> list[tuple[int, str]]:
    """Return the chats and texts of what is sent about events of requests and of the house."""
    notes: dict[str, str] = {}
    sent: list[tuple[int, str]] = []
    for n, (stream, event) in enumerate(events, 1):
        entry = HouseEntry(n=n, stream=stream, at=0.0, event=event)
        report = report_event(entry, notes, describe_wait=lambda _request: "", others=(ANNA, BEN))
        notes = {key: value for key, value in {**notes, **report.notes}.items() if value is not None}
        sent += [(each.chat, each.text) for each in (*report.now, *report.later)]
    return sent


def receive(chat: int, user: int) -> RequestReceived:
    sender = replace(ALICE, address=f"telegram:{user}")
    request = build_request(source="telegram", sender=sender, reply_to=f"{chat}:5")
    return RequestReceived(request=request, repository="shop")


@pytest.mark.parametrize(("chat", "readers"), [(ANNA, [ANNA, BEN]), (GROUP, [GROUP, BEN])])
def test_an_owner_whose_request_cannot_be_started_reads_so_once(chat: int, readers: list[int]) -> None:
    failed, held = StartFailed(reason=DIRTY), RepositoryHeld(repository="shop", reason=DIRTY)
    sent = tell(("req-1", receive(chat, ANNA)), ("req-1", failed), (HOUSE, held))
    assert [where for where, _text in sent] == readers
    assert [DIRTY in text for _where, text in sent] == [True, True]


@pytest.mark.parametrize(
    ("by", "before", "texts"),
    [
        (ANNA, [], []),  # the reply to /cancel says so
        (ANNA, [CancelRequested(by="anna")], ["shop: req-1 was cancelled by anna."]),
        (BEN, [], ["shop: req-1 was cancelled by anna."]),
    ],
)
def test_the_end_of_a_cancelled_request_is_said_once(by: int, before: list[HouseEvent], texts: list[str]) -> None:
    cancelled = RequestCancelled(by=f"anna (telegram:{by})")
    sent = tell(("req-1", receive(ANNA, ANNA)), *(("req-1", each) for each in [*before, cancelled]))
    assert [text for _where, text in sent] == texts


def test_owners_read_of_a_repository_that_is_held_later_or_for_another_reason() -> None:
    begun = ("req-1", receive(ANNA, ANNA)), ("req-1", RequestQueued()), ("req-1", StartFailed(reason=DIRTY))
    held = RepositoryHeld(repository="shop", reason=DIRTY)
    later = tell(*begun, ("req-1", SessionFound(session="ses-1")), (HOUSE, held))
    assert [where for where, _text in later[-2:]] == [ANNA, BEN]
    others = [RepositoryHeld(repository="shop", reason="no disk"), RepositoryHeld(repository="blog", reason=DIRTY)]
    assert [[where for where, _text in tell(*begun, (HOUSE, each))[-2:]] for each in others] == [[ANNA, BEN]] * 2
