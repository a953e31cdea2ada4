"""Settings of the people of a house: who is asked, when, where, and by which bot."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, field_validator
from pydantic.functional_validators import AfterValidator

from blueflame.model.gate import FORMS, GateKind
from blueflame.model.house.arrival import Trust
from blueflame.model.settings.fields import (
    Duration,
    DurationOrOff,
    InvalidValue,
    Section,
    Text,
    VariableName,
    ZoneName,
)
from blueflame.model.settings.notifications import URL_HINT, find_url_problem
from blueflame.model.suggestions import suggest

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
BUILT_FROM_FILES = frozenset({"edit", "split"})


def _check_time(text: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        raise InvalidValue("is not a time of day", 'write it as "22:30", in quotes', got=text)
    return text


def _check_account(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", text):
        raise InvalidValue("is not a user name", "write it as in the address of the person's page, without @", got=text)
    return text.lower()


AccountName = Annotated[str, AfterValidator(_check_account)]
TimeOfDay = Annotated[str, AfterValidator(_check_time)]


def parse_gate_kind(value: object) -> GateKind:
    if value in set(GateKind):
        return GateKind(str(value))
    near = suggest(str(value), [kind.value for kind in GateKind])
    raise InvalidValue("is not a kind of gate", near or "see docs/reference/gates.md for the kinds", got=value)


GateKindName = Annotated[GateKind, BeforeValidator(parse_gate_kind)]


class PersonSettings(Section):
    trust: Literal["owner", "member"] = "member"
    """An owner starts work and answers gates; a member asks for work, and a gate asks an owner."""
    telegram: int | None = None
    """The person's number in Telegram: `blueflame telegram pair` finds it. Names in Telegram change hands."""
    terminal: Text | None = None
    """The person's user name on this machine; left out, the name of this entry."""
    github: AccountName | None = None
    """The person's user name on GitHub."""
    gitlab: AccountName | None = None
    """The person's user name on GitLab."""
    answers: tuple[GateKindName, ...] | None = Field(default=None, strict=False)
    """The kinds of gates that this person may answer; left out, all for an owner and no kind for a member."""
    order: int = Field(default=1, ge=1)
    """Who is asked first: 1, then 2 when 1 does not answer, and so on; those with the same number together."""

    @property
    def trust_level(self) -> Trust:
        return Trust(self.trust)


class AskSettings(Section):
    remind: DurationOrOff = 1800.0
    """After how long the person is reminded, once; 0s: never."""
    next: DurationOrOff = 1800.0
    """How long after the reminder the next person is asked too; 0s: never."""
    deadline: DurationOrOff = 86_400.0
    """After how long the default is taken; 0s: never. Quiet hours do not count."""
    default: Text | None = None
    """The answer at the deadline. Left out: the safe one if it lands, spends and loses nothing, else none is taken."""


class QuietHours(Section):
    begin: TimeOfDay
    """When they begin, such as "22:00"."""
    end: TimeOfDay
    """When they end; not after the beginning means on the next day."""
    days: tuple[Day, ...] = Field(default=DAYS, strict=False, min_length=1)
    """The days on which they begin."""
    timezone: ZoneName = "UTC"
    """Whose time it is, such as Europe/Berlin."""


class ChatSettings(Section):
    repository: Text | None = None
    """The repository of requests that name none."""


class TelegramSettings(Section):
    token_from: VariableName = "TELEGRAM_BOT_TOKEN"  # noqa: S105 - the name of a variable
    """The environment variable that holds the token of the bot."""
    chats: dict[Annotated[int, Field(strict=False)], ChatSettings] = Field(default_factory=dict)
    """The chats that the bot serves, by number. A person's own chat with the bot has the person's number."""
    api: Text = "https://api.telegram.org"
    """The address of the Bot API, for a server of your own."""
    status_every: Duration = 30.0
    """The status message of a session is changed at most this often."""

    @field_validator("status_every")
    @classmethod
    def _not_too_often(cls, seconds: float) -> float:
        if seconds < MIN_STATUS_SECONDS:
            raise InvalidValue("is too often: Telegram bans bots for it", f"write {MIN_STATUS_SECONDS:.0f}s or more")
        return seconds

    @field_validator("api")
    @classmethod
    def _an_address(cls, url: str) -> str:
        if fault := find_url_problem(url):
            raise InvalidValue(fault, URL_HINT, got=url)
        return url.rstrip("/")


MIN_STATUS_SECONDS = 30.0


def find_default_problem(kind: GateKind, option: str) -> str:
    """Why an answer cannot be taken without a person; empty if it can."""
    found = next((each for each in FORMS[kind].options if each.name == option), None)
    if found is None:
        return f"is not an answer to a {kind.value} gate"
    return "needs a note or a file of a person" if found.needs_note or option in BUILT_FROM_FILES else ""


def check_asks(asks: dict[GateKind, AskSettings]) -> dict[GateKind, AskSettings]:
    """Refuse defaults that cannot be taken, each with its place."""
    for kind, ask in asks.items():
        if ask.default is not None and (fault := find_default_problem(kind, ask.default)):
            known = ", ".join(each.name for each in FORMS[kind].options if not find_default_problem(kind, each.name))
            raise InvalidValue(fault, f"write one of {known}", at=(kind.value, "default"), got=ask.default)
    return asks


GateAsks = Annotated[dict[GateKindName, AskSettings], AfterValidator(check_asks)]
