"""Messages to running agents, as decisions on values."""

from __future__ import annotations

import pytest

from blueflame.journal.journal import Message
from blueflame.model.attempt import Attempt
from blueflame.model.event import AttemptIntended, JournalEntry, MessageSent
from blueflame.orchestrator.inbox import MessageDecision, decide_message
from blueflame.session.replay import apply_event, open_session
from blueflame.session.requests.messages import MAX_CHARS
from blueflame.session.state import Session
from blueflame.testing.simulation import build_opening


def make_session(**attempt: object) -> Session:
    session = open_session(build_opening())
    fields = {"subject": "plan", "role": "planner", "n": 1, "agent_id": "planner-1", **attempt}
    live = Attempt(id=f"{session.id}.plan.planner.1", session=session.id, **fields)  # type: ignore[arg-type] # as given
    apply_event(session, JournalEntry(2, 1.0, AttemptIntended(attempt=live)))
    return session


def say(session: Session, agent: str, text: str, **kinds: str) -> MessageDecision:
    body = {"agent": agent, "text": text, "by": "Ада"}
    return decide_message(session, Message(id=1, session=session.id, at=9.0, kind="say", body=body), kinds)


@pytest.mark.parametrize("name", ["planner-1", "plan", "plan.planner.1"])
def test_an_agent_is_found_by_each_of_its_names(name: str) -> None:
    session = make_session()

    decision = say(session, name, " ask less\n")

    assert decision.events == (MessageSent(attempt=f"{session.id}.plan.planner.1", text="ask less", by="Ада"),)
    assert not decision.refused


@pytest.mark.parametrize(
    ("attempt", "agent", "text", "words"),
    [
        ({}, "worker-9", "x", "no running agent is called 'worker-9'; running: planner-1"),
        ({}, "plan", " \n", "the message is empty"),
        ({}, "plan", "x" * (MAX_CHARS + 1), "the message has 2,001 characters, the limit is 2,000: shorten it"),
        ({"runtime": "bridge"}, "plan", "x", "the runtime bridge cannot take messages: use 'blueflame kill planner-1"),
        ({"interactive": True}, "plan", "x", "use 'blueflame attach planner-1'"),
    ],
)
def test_what_cannot_be_delivered_is_refused_with_the_reason(
    attempt: dict[str, object], agent: str, text: str, words: str
) -> None:
    decision = say(make_session(**attempt), agent, text, bridge="acp")

    assert decision.refused
    assert words in decision.reply
    assert decision.events == ()
