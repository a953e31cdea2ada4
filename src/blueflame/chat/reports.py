"""What people in a chat read about their requests: one message for each fact of the house's journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from blueflame.chat.gate_message import name_people
from blueflame.chat.outbox import Outgoing
from blueflame.chat.reactions import BUTTON, SOURCE, read_note
from blueflame.lazy_dataclass import dataclass
from blueflame.model.event import GateOpened
from blueflame.model.house.arrival import IncomingRequest
from blueflame.model.house.event import (
    FINAL,
    AnswerSettled,
    CancelRequested,
    CommandSettled,
    HouseEntry,
    RepositoryHeld,
    RequestCancelled,
    RequestEnded,
    RequestQueued,
    RequestReceived,
    RequestRefused,
    SessionFound,
    SessionStopped,
    StartFailed,
)
from blueflame.text.format import format_dollars, format_duration
from blueflame.text.sanitize import shorten_line

REQUEST, STATUS = "request:", "status:"


class Place(NamedTuple):
    """Where a message goes: a chat, and the message there that it answers."""

    chat: int
    message: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReport:
    """Messages to send now, those that wait for the end of quiet hours, and what to note."""

    now: tuple[Outgoing, ...] = ()
    later: tuple[Outgoing, ...] = ()
    notes: Mapping[str, str | None] = field(default_factory=dict)


def parse_place(reply_to: str) -> Place | None:
    chat, _, message = reply_to.partition(":")
    try:
        return Place(int(chat), int(message.split(":")[0]))
    except ValueError:
        return None


def report_event(
    entry: HouseEntry, notes: Mapping[str, str], *, describe_wait: Callable[[str], str], others: tuple[int, ...]
) -> EventReport:
    """`others`: the chats that read about requests from elsewhere."""
    event, known = entry.event, read_note(notes, REQUEST + entry.stream)
    match event:
        case RequestReceived(request=request, repository=repository):
            return _note_request(entry, request, repository)
        case AnswerSettled(source=source) | CommandSettled(source=source):
            return _report_settled(entry, event, notes) if source == SOURCE else EventReport()
        case RepositoryHeld(repository=repository, reason=reason):
            text = f"{repository}: no session can start; it is tried again. {shorten_line(reason, 500)}"
            places = [Place(chat) for chat in others if chat not in _list_readers(notes, repository, reason)]
            return EventReport(later=tuple(_build(entry, each, text) for each in places))
    place = Place(int(known["chat"]), known["message"]) if "chat" in known else None
    words = name_people(_describe(entry, known, describe_wait)) if known else ""
    changed = _change_note(entry, known) if known else {}
    is_news = isinstance(event, RequestEnded | SessionStopped)  # others are replies: the person is there
    if not words or (place is None and not is_news):
        return EventReport(notes=changed)
    places = [place] if place is not None else [Place(chat) for chat in others]
    messages = tuple(_build(entry, each, words) for each in places)
    return EventReport(later=messages, notes=changed) if is_news else EventReport(now=messages, notes=changed)


def _list_readers(notes: Mapping[str, str], repository: str, reason: str) -> set[int]:
    """The chats that read the same fact as the reply to a request that could not be started."""
    requests = [read_note(notes, key) for key in notes if key.startswith(REQUEST)]
    failed = [each for each in requests if each["repository"] == repository and each.get("failed") == reason]
    return {int(each[name]) for each in failed for name in ("chat", "user") if name in each}


def _change_note(entry: HouseEntry, known: Mapping[str, Any]) -> dict[str, str | None]:
    if isinstance(entry.event, StartFailed):
        return {REQUEST + entry.stream: json.dumps({**known, "failed": entry.event.reason})}
    if isinstance(entry.event, CancelRequested):
        return {REQUEST + entry.stream: json.dumps({**known, "stopping": True})}
    if isinstance(entry.event, SessionFound):
        return {REQUEST + entry.stream: json.dumps({**known, "session": entry.event.session, "failed": ""})}
    if isinstance(entry.event, FINAL):  # the status message shows it once more, if there is one
        ended = json.dumps({**known, "ended": True}) if "session" in known else None
        return {REQUEST + entry.stream: ended}
    return {}


def _note_request(entry: HouseEntry, request: IncomingRequest, repository: str) -> EventReport:
    place = parse_place(request.reply_to) if request.source == SOURCE else None
    note: dict[str, Any] = {"repository": repository, "title": shorten_line(request.title or request.text, 80)}
    if place:
        user = request.sender.address.partition(":")[2]
        note |= {"chat": place.chat, "message": place.message, "user": user}
    return EventReport(notes={REQUEST + entry.stream: json.dumps(note)})


def _describe(entry: HouseEntry, known: Mapping[str, Any], describe_wait: Callable[[str], str]) -> str:
    where, name, title = known["repository"], entry.stream, known.get("title", "")
    match entry.event:
        case RequestQueued(by=by):
            wait = describe_wait(name)
            return f"{f'Approved by {by}. ' if by else ''}{where}: queued as {name}{f', {wait}' if wait else ''}."
        case RequestRefused(reason=reason):
            return f"Not accepted: {shorten_line(reason, 1_000)}"
        case GateOpened():
            return f"{where}: received as {name}. An owner is asked first."
        case StartFailed(reason=reason):
            return f"{where}: {name} could not be started and is tried again. {shorten_line(reason, 500)}"
        case SessionFound(session=session):
            return f"{where}: {name} has begun, {session}."
        case SessionStopped(reason=reason):
            go_on = f"Continue it with /resume {where}, or drop it with /cancel {name}"
            return f"{where}: stopped, {shorten_line(reason, 500)}. {title}\n{go_on}"
        case RequestCancelled(by=by):
            own = f"(telegram:{known.get('user')})" in by and not known.get("stopping")  # the reply to /cancel says so
            return "" if own else f"{where}: {name} was cancelled by {by}."
        case RequestEnded(outcome=outcome, reason=reason, usd=usd, seconds=seconds):
            why = f", {shorten_line(reason, 500)}" if reason else ""
            cost = format_dollars(round(usd * 1e6))
            return f"{where}: {outcome.replace('_', ' ')}{why}. {title} ({cost}, {format_duration(seconds)}, {name})"
    return ""


def _report_settled(entry: HouseEntry, event: AnswerSettled | CommandSettled, notes: Mapping[str, str]) -> EventReport:
    """An accepted answer is shown at its gate; one that was not accepted frees its button again."""
    place = parse_place(event.reply_to)
    if place is None or (isinstance(event, AnswerSettled) and event.accepted):
        return EventReport()
    changed: dict[str, str | None] = {}
    if isinstance(event, AnswerSettled):
        name = BUTTON + event.reply_to.split(":", 2)[-1]
        if button := read_note(notes, name):
            changed = {name: json.dumps({**button, "used": ""})}
    words = name_people(event.reply if event.accepted else f"Not accepted: {event.reply}")
    return EventReport(now=(_build(entry, place, words),), notes=changed)


def _build(entry: HouseEntry, place: Place, text: str) -> Outgoing:
    key = f"event:{entry.n}:{place.chat}"
    if isinstance(entry.event, SessionFound):
        key = STATUS + entry.stream  # it is changed as the session goes on
        return Outgoing(key=key, chat=place.chat, text=text, reply_to=place.message, silent=True, kept=True)
    return Outgoing(key=key, chat=place.chat, text=text, reply_to=place.message)
