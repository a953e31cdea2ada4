"""Decide what a message from another terminal leads to; the loop records it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from blueflame.journal.journal import Message
from blueflame.model.attempt import WORKER
from blueflame.model.event import AttemptCancelled, Event, GateAnswered, ProceedRequested, StopRequested
from blueflame.model.gate import Answer
from blueflame.session.gates.questions import answer_error
from blueflame.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDecision:
    reply: str
    events: tuple[Event, ...] = ()
    refused: bool = False
    leave_agents: bool = False


def decide_message(session: Session, message: Message) -> MessageDecision:
    decide = MESSAGE_KINDS.get(message.kind)
    if session.ended:
        reply = f"{session.id} has ended ({session.outcome}): it accepts no messages"
        return MessageDecision(reply=reply, refused=True)
    if decide is None:
        return MessageDecision(reply=f"{message.kind!r} is an unknown kind of message", refused=True)
    return decide(session, message.body)


def _decide_answer(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    answer = Answer(
        choice=str(body.get("choice", "")),
        note=str(body.get("note", "")),
        payload=body.get("payload") or {},
        by=str(body.get("by", "another terminal")),
    )
    gate = str(body.get("gate", ""))
    wrong = answer_error(session, gate, answer)
    if wrong:
        return MessageDecision(reply=wrong, refused=True)
    return MessageDecision(reply=f"{gate}: {answer.choice}", events=(GateAnswered(gate=gate, answer=answer),))


def _decide_stop(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    now, keep = bool(body.get("now")), bool(body.get("keep_agents"))
    reason = f"stopped by {body.get('by', 'another terminal')}"
    cancels = () if keep else tuple(AttemptCancelled(attempt=name, reason=reason) for name in session.live)
    events: tuple[Event, ...] = (StopRequested(reason=reason, now=now), *cancels)
    reply = f"{session.id} is stopping; resume with: blueflame resume"
    return MessageDecision(reply=reply, events=events, leave_agents=keep)


def _decide_proceed(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    if not session.cycle_open:
        return MessageDecision(reply="no wave is running: nothing to proceed from", refused=True)
    by, kill = str(body.get("by", "another terminal")), bool(body.get("kill"))
    left = [attempt.id for attempt in session.live.values() if kill and attempt.role == WORKER]
    cancels = tuple(AttemptCancelled(attempt=name, reason=f"left behind by {by}") for name in left)
    events: tuple[Event, ...] = (ProceedRequested(by=by, kill=kill), *cancels)
    return MessageDecision(reply="going on with what is done", events=events)


def _decide_kill(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    wanted = str(body.get("agent", ""))
    live = session.live.values()
    found = [attempt for attempt in live if wanted in (attempt.agent_id, attempt.id, attempt.subject)]
    if not found:
        running = ", ".join(attempt.agent_id for attempt in live) or "none"
        return MessageDecision(reply=f"no running agent is called {wanted!r}; running: {running}", refused=True)
    reason = str(body.get("reason") or f"killed by {body.get('by', 'another terminal')}")
    events = tuple(AttemptCancelled(attempt=attempt.id, reason=reason) for attempt in found)
    return MessageDecision(reply=f"ending {', '.join(attempt.agent_id for attempt in found)}", events=events)


MESSAGE_KINDS: Mapping[str, Callable[[Session, Mapping[str, Any]], MessageDecision]] = {
    "answer": _decide_answer,
    "stop": _decide_stop,
    "proceed": _decide_proceed,
    "kill": _decide_kill,
}
