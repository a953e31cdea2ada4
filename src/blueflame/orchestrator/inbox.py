"""Messages from other terminals: decided here, recorded by the session loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from blueflame.journal.journal import Journal, Message
from blueflame.model.attempt import WORKER, Attempt
from blueflame.model.event import AttemptCancelled, Event, GateAnswered, ProceedRequested, StopRequested
from blueflame.model.gate import Answer
from blueflame.session.gates.questions import answer_error
from blueflame.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDecision:
    words: str
    events: tuple[Event, ...] = ()
    refused: bool = False
    leave_agents: bool = False


class Inbox:
    """The inbox of one session."""

    def __init__(self, journal: Journal, session: Session) -> None:
        self._journal = journal
        self._session = session.id

    def waiting(self) -> tuple[Message, ...]:
        return self._journal.waiting(self._session)

    def judge(self, session: Session, message: Message) -> MessageDecision:
        rule = MESSAGE_KINDS.get(message.kind)
        if session.ended:
            words = f"{session.id} has ended ({session.outcome}): nothing more can be asked of it"
            return MessageDecision(words=words, refused=True)
        if rule is None:
            return MessageDecision(words=f"{message.kind!r} is an unknown kind of message", refused=True)
        return rule(session, message.body)


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
        return MessageDecision(words=wrong, refused=True)
    return MessageDecision(words=f"{gate}: {answer.choice}", events=(GateAnswered(gate=gate, answer=answer),))


def _decide_stop(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    now, keep = bool(body.get("now")), bool(body.get("keep_agents"))
    reason = f"stopped by {body.get('by', 'another terminal')}"
    cancels = () if keep else tuple(AttemptCancelled(attempt=name, reason=reason) for name in session.live)
    events: tuple[Event, ...] = (StopRequested(reason=reason, now=now), *cancels)
    return MessageDecision(
        words=f"{session.id} is stopping; resume with: blueflame resume", events=events, leave_agents=keep
    )


def _decide_proceed(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    if not session.cycle_open:
        return MessageDecision(words="no wave is under way, so there is nothing to go on from", refused=True)
    by, kill = str(body.get("by", "another terminal")), bool(body.get("kill"))
    left = [attempt.id for attempt in session.live.values() if kill and attempt.role == WORKER]
    cancels = tuple(AttemptCancelled(attempt=name, reason=f"left behind by {by}") for name in left)
    events: tuple[Event, ...] = (ProceedRequested(by=by, kill=kill), *cancels)
    return MessageDecision(words="going on with what is done", events=events)


def _decide_kill(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    wanted = str(body.get("agent", ""))
    found = [attempt for attempt in session.live.values() if wanted in _list_names(attempt)]
    if not found:
        running = ", ".join(attempt.agent_id for attempt in session.live.values()) or "none"
        return MessageDecision(words=f"no running agent is called {wanted!r}; running: {running}", refused=True)
    reason = str(body.get("reason") or f"killed by {body.get('by', 'another terminal')}")
    events = tuple(AttemptCancelled(attempt=attempt.id, reason=reason) for attempt in found)
    return MessageDecision(words=f"ending {', '.join(attempt.agent_id for attempt in found)}", events=events)


def _list_names(attempt: Attempt) -> tuple[str, ...]:
    return (attempt.agent_id, attempt.id, attempt.subject)


MESSAGE_KINDS: Mapping[str, Callable[[Session, Mapping[str, Any]], MessageDecision]] = {
    "answer": _decide_answer,
    "stop": _decide_stop,
    "proceed": _decide_proceed,
    "kill": _decide_kill,
}
