"""What becomes of a request that arrives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.dispatch.admission import (
    admit_request,
    answer_approval,
    find_gate_request,
    find_house_answer_problem,
)
from blueflame.dispatch.state import House, replay_house
from blueflame.model.event import GateAnswered, GateOpened
from blueflame.model.gate import GateKind
from blueflame.model.house.arrival import IncomingAnswer, IncomingRequest, Sender
from blueflame.model.house.event import HouseEvent, Refusal, RequestQueued, RequestReceived, RequestRefused
from support.house_requests import ALICE, BOB, NEWS, build_entries, build_request, build_settings

SHOP = build_settings("shop", "blog")


def admit(request: IncomingRequest, house: House | None = None, *, recent: int = 0) -> HouseEvent:
    received, last = admit_request(house or House(), "req-2", request, SHOP, recent=recent)
    assert isinstance(received, RequestReceived)
    return last


def test_an_owner_starts_work() -> None:
    assert admit(build_request()) == RequestQueued()


@pytest.mark.parametrize("sender", [BOB, NEWS])
def test_a_member_and_a_feed_need_a_person(sender: Sender) -> None:
    asked = admit(build_request(sender=sender))
    assert isinstance(asked, GateOpened)
    assert (asked.gate.kind, asked.gate.subject, asked.gate.default) == (GateKind.REQUEST, "req-2", "refuse")
    assert asked.gate.evidence["trust"] == sender.trust.value


@pytest.mark.parametrize(
    ("request_", "why", "words"),
    [
        (build_request(repository="shopp"), Refusal.UNKNOWN_REPOSITORY, "did you mean shop"),
        (build_request(repository=""), Refusal.UNKNOWN_REPOSITORY, "name one of shop, blog"),
        (build_request(" \n"), Refusal.EMPTY, "no request"),
    ],
)
def test_a_request_that_cannot_be_done_is_refused_with_what_to_do(
    request_: IncomingRequest, why: Refusal, words: str
) -> None:
    refused = admit(request_)
    assert isinstance(refused, RequestRefused)
    assert (refused.why, words in refused.reason) == (why, True)


def test_without_a_name_the_only_repository_is_meant() -> None:
    received, last = admit_request(House(), "req-1", build_request(repository=""), build_settings("shop"), recent=0)
    assert isinstance(received, RequestReceived)
    assert (received.repository, last) == ("shop", RequestQueued())


def test_the_same_text_for_the_same_repository_is_reported_and_not_run() -> None:
    open_ = RequestReceived(request=build_request("Add  a page"), repository="shop")
    house = replay_house(build_entries("req-1", open_, RequestQueued()))
    refused = admit(build_request("Add a\npage"), house)
    assert isinstance(refused, RequestRefused)
    assert (refused.why, "req-1" in refused.reason) == (Refusal.DUPLICATE, True)
    assert admit(build_request("Add a page", repository="blog"), house) == RequestQueued()


def test_too_many_requests_of_one_sender_are_refused() -> None:
    assert admit(build_request(), recent=29) == RequestQueued()
    refused = admit(build_request(), recent=30)
    assert isinstance(refused, RequestRefused)
    assert refused.why is Refusal.RATE


def test_a_full_queue_refuses_more() -> None:
    settings = build_settings("shop", queue_length=1)
    house = replay_house(build_entries("req-1", RequestReceived(request=build_request("a"), repository="shop")))
    _, refused = admit_request(house, "req-2", build_request("b"), settings, recent=0)
    assert isinstance(refused, RequestRefused)
    assert refused.why is Refusal.QUEUE_FULL


@pytest.mark.parametrize(("first", "then"), [(NEWS, BOB), (NEWS, ALICE), (BOB, ALICE)])
def test_what_no_owner_approved_keeps_out_no_one_who_is_trusted_more(first: Sender, then: Sender) -> None:
    settings = build_settings("shop", queue_length=1)
    asked = admit_request(House(), "req-1", build_request("Tidy up", sender=first), settings, recent=0)
    house = replay_house(build_entries("req-1", *asked))
    for text, why in (("Tidy up", Refusal.DUPLICATE), ("another", Refusal.QUEUE_FULL)):
        _, accepted = admit_request(house, "req-2", build_request(text, sender=then), settings, recent=0)
        assert not isinstance(accepted, RequestRefused)
        _, refused = admit_request(house, "req-2", build_request(text, sender=first), settings, recent=0)
        assert isinstance(refused, RequestRefused)
        assert refused.why is why


def ask() -> House:
    request = build_request(sender=BOB)
    return replay_house(build_entries("req-2", *admit_request(House(), "req-2", request, SHOP, recent=0)))


ANSWER = IncomingAnswer(
    source="telegram", key="1", sender=ALICE, at=1.0, repository="", session="", gate="request-req-2", choice="start"
)


def test_an_approved_request_is_queued_and_records_who_approved_it() -> None:
    record = find_gate_request(ask(), ANSWER.gate)
    assert find_house_answer_problem(record, ANSWER) == ""
    answered, queued = answer_approval(ANSWER)
    assert isinstance(answered, GateAnswered)
    assert (answered.answer.by, queued) == ("alice (terminal:alice)", RequestQueued(by="alice (terminal:alice)"))


def test_a_refused_request_ends_with_the_reason() -> None:
    _, refused = answer_approval(replace(ANSWER, choice="refuse", note="not now"))
    assert refused == RequestRefused(why=Refusal.NOT_APPROVED, reason="alice refused it: not now")


@pytest.mark.parametrize(
    ("answer", "words"),
    [(replace(ANSWER, gate="request-req-9"), "is not open"), (replace(ANSWER, choice="maybe"), "start, refuse")],
)
def test_an_answer_that_does_not_fit_is_refused_with_the_choices(answer: IncomingAnswer, words: str) -> None:
    assert words in find_house_answer_problem(find_gate_request(ask(), answer.gate), answer)
