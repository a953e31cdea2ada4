"""What people ask from other terminals: judged here, journalled by the conductor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from blueflame.journal.journal import Journal, Message
from blueflame.model.attempt import WORKER, Attempt
from blueflame.model.event import AttemptCancelled, Event, GateAnswered, ProceedRequested, StopRequested
from blueflame.model.gate import Answer
from blueflame.session.gates.questions import objection
from blueflame.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    words: str
    events: tuple[Event, ...] = ()
    refused: bool = False
    leave_agents: bool = False


class Letters:
    """The inbox of one session."""

    def __init__(self, journal: Journal, session: Session) -> None:
        self._journal = journal
        self._session = session.id

    def waiting(self) -> tuple[Message, ...]:
        return self._journal.waiting(self._session)

    def judge(self, session: Session, letter: Message) -> Judged:
        rule = KINDS.get(letter.kind)
        if session.ended:
            words = f"{session.id} has ended ({session.outcome}): nothing more can be asked of it"
            return Judged(words=words, refused=True)
        if rule is None:
            return Judged(words=f"{letter.kind!r} is nothing that this version understands", refused=True)
        return rule(session, letter.body)


def _answer(session: Session, body: Mapping[str, Any]) -> Judged:
    answer = Answer(
        choice=str(body.get("choice", "")),
        note=str(body.get("note", "")),
        payload=body.get("payload") or {},
        by=str(body.get("by", "another terminal")),
    )
    gate = str(body.get("gate", ""))
    wrong = objection(session, gate, answer)
    if wrong:
        return Judged(words=wrong, refused=True)
    return Judged(words=f"{gate}: {answer.choice}", events=(GateAnswered(gate=gate, answer=answer),))


def _stop(session: Session, body: Mapping[str, Any]) -> Judged:
    now, keep = bool(body.get("now")), bool(body.get("keep_agents"))
    reason = f"stopped by {body.get('by', 'another terminal')}"
    cancels = () if keep else tuple(AttemptCancelled(attempt=name, reason=reason) for name in session.live)
    events: tuple[Event, ...] = (StopRequested(reason=reason, now=now), *cancels)
    return Judged(words=f"{session.id} is stopping; resume with: blueflame resume", events=events, leave_agents=keep)


def _proceed(session: Session, body: Mapping[str, Any]) -> Judged:
    if not session.cycle_open:
        return Judged(words="no wave is under way, so there is nothing to go on from", refused=True)
    by, kill = str(body.get("by", "another terminal")), bool(body.get("kill"))
    left = [attempt.id for attempt in session.live.values() if kill and attempt.role == WORKER]
    cancels = tuple(AttemptCancelled(attempt=name, reason=f"left behind by {by}") for name in left)
    events: tuple[Event, ...] = (ProceedRequested(by=by, kill=kill), *cancels)
    return Judged(words="going on with what is done", events=events)


def _kill(session: Session, body: Mapping[str, Any]) -> Judged:
    wanted = str(body.get("agent", ""))
    found = [attempt for attempt in session.live.values() if wanted in _names(attempt)]
    if not found:
        running = ", ".join(attempt.agent_id for attempt in session.live.values()) or "none"
        return Judged(words=f"no running agent is called {wanted!r}; running: {running}", refused=True)
    reason = str(body.get("reason") or f"killed by {body.get('by', 'another terminal')}")
    events = tuple(AttemptCancelled(attempt=attempt.id, reason=reason) for attempt in found)
    return Judged(words=f"ending {', '.join(attempt.agent_id for attempt in found)}", events=events)


def _names(attempt: Attempt) -> tuple[str, ...]:
    return (attempt.agent_id, attempt.id, attempt.subject)


KINDS: Mapping[str, Callable[[Session, Mapping[str, Any]], Judged]] = {
    "answer": _answer,
    "stop": _stop,
    "proceed": _proceed,
    "kill": _kill,
}
