"""What reaches the house from outside: requests, answers to gates, commands. Every source gives the same values."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from blueflame.lazy_dataclass import dataclass


class Trust(StrEnum):
    """What a sender may cause."""

    OWNER = "owner"  # starts work
    MEMBER = "member"  # asks for work: a gate asks an owner
    FEED = "feed"  # is data: never starts paid work without a person


TRUST_RANKS = {Trust.FEED: 0, Trust.MEMBER: 1, Trust.OWNER: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who, by a name of the configuration, and from where: `telegram:12345`, `terminal:alice`, `feed:tech-news`."""

    name: str
    trust: Trust
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingRequest:
    """Something to do. The same source and key are the same request, however often it arrives."""

    source: str  # terminal, telegram, plans, feeds, schedules, webhooks, issues
    key: str  # what makes it one request: an update id, a path with its digest, a feed with its guid
    sender: Sender
    at: float  # when it was received
    text: str  # what is asked for; data unless the sender is an owner
    repository: str = ""  # its name in house.yaml; empty: the only one, or the sender's
    title: str = ""
    plan: str = ""  # a plan (YAML) instead of a planner
    tier: int | None = None
    workflow: str = ""
    priority: int = 0  # higher first
    origin: str = ""  # a path or an address that a person can open
    reply_to: str = ""  # where the source shows what became of it; opaque to all others
    matched: tuple[str, ...] = ()  # keywords of a feed that it contains: people are notified


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingAnswer:
    """An answer to an open gate of a session, or of the house itself."""

    source: str
    key: str
    sender: Sender
    at: float
    repository: str  # empty: a gate of the house
    session: str
    gate: str
    choice: str
    note: str = ""
    reply_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingCommand:
    """An order about what runs: stop or resume a session, cancel a request."""

    source: str
    key: str
    sender: Sender
    at: float
    verb: str  # stop | resume | cancel
    subject: str = ""  # the id of a request, or the name of a repository
    reply_to: str = ""


Arrival: TypeAlias = IncomingRequest | IncomingAnswer | IncomingCommand
