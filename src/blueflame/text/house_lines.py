"""One sentence for each event of the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from blueflame.model import event as happened
from blueflame.model.house import event as house
from blueflame.text.format import format_dollars, format_moment
from blueflame.text.sanitize import clean_line, shorten_line

MAX_CHARS = 200


def format_house_line(entry: house.HouseEntry, *, with_stream: bool = True) -> str:
    """`2026-11-17 12:00:05  req-…  queued`"""
    words = shorten_line(clean_line(HOUSE_LINES[type(entry.event)](entry.event)), MAX_CHARS)
    return f"{format_moment(entry.at)}  {f'{entry.stream}  ' if with_stream else ''}{words}"


def _describe_received(event: house.RequestReceived) -> str:
    request = event.request
    where = f" for {event.repository}" if event.repository else ""
    return f"received from {request.sender.name} ({request.sender.address}){where}: {request.title or request.text}"


def _describe_answer(event: house.AnswerSettled) -> str:
    who = f"{event.sender.name} ({event.sender.address})"
    where = f" of {event.session} in {event.repository}" if event.repository else ""
    if event.accepted:
        return f"{event.choice} for {event.gate}{where} by {who} was taken"
    return f"{event.choice} for {event.gate}{where} by {who} was not taken: {event.reply}"


HOUSE_LINES: Mapping[type, Callable[[Any], str]] = {
    house.RequestReceived: _describe_received,
    house.RequestRefused: lambda e: f"refused: {e.reason}",
    house.RequestQueued: lambda e: f"queued, approved by {e.by}" if e.by else "queued",
    house.StartIntended: lambda e: f"starting a process that resumes {e.resumes}" if e.resumes else "starting",
    house.StartFailed: lambda e: f"could not start: {e.reason}",
    house.SessionFound: lambda e: f"runs as {e.session}",
    house.SessionStopped: lambda e: f"stopped: {e.reason}",
    house.RequestEnded: lambda e: f"ended: {e.outcome}, {format_dollars(round(e.usd * 1e6), places=2)}",
    house.CancelRequested: lambda e: f"being cancelled by {e.by}",
    house.RequestCancelled: lambda e: f"cancelled by {e.by}",
    house.AnswerSettled: _describe_answer,
    house.CommandSettled: lambda e: f"{e.verb} {e.subject} by {e.sender.name} ({e.sender.address}): {e.reply}",
    house.HouseStarted: lambda e: f"started (pid {e.pid}), serving {', '.join(e.repositories) or 'no repository'}",
    house.HouseStopped: lambda e: f"stopped: {e.reason}",
    house.SourceWarned: lambda e: f"{e.source}: {e.text}",
    house.RepositoryHeld: lambda e: f"{e.repository} is held: {e.reason}",
    house.RepositoryFreed: lambda e: f"{e.repository} is free again",
    happened.GateOpened: lambda e: f"{e.gate.id} opened: {e.gate.title}",
    happened.GateAnswered: lambda e: f"{e.gate} answered by {e.answer.by}: {e.answer.choice}",
    happened.GateWithdrawn: lambda e: f"{e.gate} withdrawn: {e.reason}",
}
