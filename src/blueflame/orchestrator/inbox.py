"""Decide what a message from another terminal leads to; the loop records it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from blueflame.journal.journal import Message
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import Attempt, Duty
from blueflame.model.event import (
    AttemptCancelled,
    Event,
    FixRequested,
    GateAnswered,
    MessageSent,
    ProceedRequested,
    StopRequested,
    TasksImported,
)
from blueflame.model.gate import Answer
from blueflame.session.clarifications import ANSWER, find_question_gate
from blueflame.session.gates.edits import parse_edit_payload
from blueflame.session.gates.questions import answer_error
from blueflame.session.requests.fixes import find_fix_problem, parse_work
from blueflame.session.requests.messages import find_message_problems, list_live_attempts
from blueflame.session.requests.tasks import (
    complete_new_tasks,
    find_addition_problems,
    find_retry_problem,
)
from blueflame.session.retries import retry_task
from blueflame.session.state import Session
from blueflame.text.sanitize import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDecision:
    reply: str
    events: tuple[Event, ...] = ()
    refused: bool = False
    leave_agents: bool = False


def decide_message(session: Session, message: Message, kinds: Mapping[str, str] | None = None) -> MessageDecision:
    """`kinds` has the kind of each runtime that the configuration names."""
    decide = MESSAGE_KINDS.get(message.kind)
    if session.ended:
        reply = f"{session.id} has ended ({session.outcome}): it accepts no messages"
        return MessageDecision(reply=reply, refused=True)
    if decide is None:
        return MessageDecision(reply=f"{message.kind!r} is an unknown kind of message", refused=True)
    return decide(session, {**message.body, "at": message.at, "kinds": kinds or {}})


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
    left = [attempt.id for attempt in session.live.values() if kill and attempt.duty is Duty.MAKE]
    cancels = tuple(AttemptCancelled(attempt=name, reason=f"left behind by {by}") for name in left)
    events: tuple[Event, ...] = (ProceedRequested(by=by, kill=kill), *cancels)
    return MessageDecision(reply="continuing with what is done", events=events)


def _decide_kill(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    found = list_live_attempts(session, str(body.get("agent", "")))
    if not found:
        return _refuse_unknown_agent(session, body)
    reason = str(body.get("reason") or f"killed by {body.get('by', 'another terminal')}")
    events = tuple(AttemptCancelled(attempt=attempt.id, reason=reason) for attempt in found)
    return MessageDecision(reply=f"ending {', '.join(attempt.agent_id for attempt in found)}", events=events)


def _refuse_unknown_agent(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    running = ", ".join(attempt.agent_id for attempt in session.live.values()) or "none"
    reply = f"no running agent is called {str(body.get('agent', ''))!r}; running: {running}"
    return MessageDecision(reply=reply, refused=True)


def _decide_say(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    found, text = list_live_attempts(session, str(body.get("agent", ""))), clean_text(str(body.get("text", "")).strip())
    if not found:
        return _refuse_unknown_agent(session, body)
    problems = tuple(find_message_problems(found, text, body["kinds"]))
    if problems:
        return MessageDecision(reply="; ".join(problems), refused=True)
    by = str(body.get("by", "another terminal"))
    names = ", ".join(attempt.agent_id for attempt in found)
    events = tuple(_send_message(session, attempt, text, by) for attempt in found)
    reply = f"sent to {names}: delivered with its next tool call, as 'blueflame log' then shows"
    return MessageDecision(reply=reply, events=events)


def _send_message(session: Session, attempt: Attempt, text: str, by: str) -> Event:
    """An agent that waits for an answer takes the message for it."""
    question = find_question_gate(session, attempt)
    if question is not None:
        return GateAnswered(gate=question.id, answer=Answer(choice=ANSWER, note=text, by=by))
    return MessageSent(attempt=attempt.id, text=text, by=by)


def _decide_retry(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    name, note = str(body.get("task", "")), str(body.get("reason", ""))
    problem = find_retry_problem(session, name)
    if problem:
        return MessageDecision(reply=problem, refused=True)
    events = tuple(retry_task(session, name, note, float(body["at"])))
    return MessageDecision(reply=f"{name} is tried again", events=events)


def _decide_add(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    try:
        tasks = complete_new_tasks(session, parse_edit_payload(body))
    except (KeyError, TypeError) as error:
        return MessageDecision(reply=f"not a task: {error}", refused=True)
    problems = find_addition_problems(session, tasks)
    if problems:
        return MessageDecision(reply="; ".join(problems), refused=True)
    names = ", ".join(task.id for task in tasks)
    return MessageDecision(
        reply=f"added {names}", events=(TasksImported(digest="", added=tasks, by=str(body.get("by", ""))),)
    )


def _decide_fix(session: Session, body: Mapping[str, Any]) -> MessageDecision:
    try:
        (task,) = complete_new_tasks(session, parse_edit_payload(body))
        work = parse_work(body["work"])
    except (KeyError, TypeError, ValueError) as error:
        return MessageDecision(reply=f"not a fix: {error}", refused=True)
    again = find_fix_problem(session, work.tasks) if work.session == session.id and not work.commit else ""
    problems = (again,) if again else find_addition_problems(session, (task,))
    if problems:
        return MessageDecision(reply="; ".join(problems), refused=True)
    by = str(body.get("by", ""))
    requested = FixRequested(task=task.id, work=work, wrong=task.description, by=by)
    reply = f"added {task.id}, which fixes {', '.join(work.tasks)}: it goes before all other tasks"
    return MessageDecision(reply=reply, events=(requested, TasksImported(digest="", added=(task,), by=by)))


MESSAGE_KINDS: Mapping[str, Callable[[Session, Mapping[str, Any]], MessageDecision]] = {
    "answer": _decide_answer,
    "stop": _decide_stop,
    "proceed": _decide_proceed,
    "kill": _decide_kill,
    "say": _decide_say,
    "retry": _decide_retry,
    "add": _decide_add,
    "fix": _decide_fix,
}
