"""The whole of house.yaml, as one typed object: what `blueflame serve` serves.

Built once, by `config/house.py`. Every field is described here and nowhere else, as in blueflame.yaml.
Tokens are never in the file: a setting names the environment variable that holds one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from blueflame.model.settings.chat import GateAsks, PersonSettings, QuietHours, TelegramSettings
from blueflame.model.settings.fields import InvalidValue, InvalidValues, Label, RoleName, Section, Text
from blueflame.model.settings.notifications import NotifierSettings
from blueflame.model.settings.sources import SourceSettings


def _read_null_as_mapping(given: object) -> object:
    return {} if given is None else given


class RepositorySettings(Section):
    path: Text
    """The folder of the repository, absolute, below ~, or relative to this file."""
    config: Text = "blueflame.yaml"
    """Its configuration, relative to that folder."""
    priority: int = Field(default=0, ge=-100, le=100)
    """Added to the priority of each of its requests; a higher one goes first."""


class RequestLimitSettings(Section):
    requests_per_hour: int = Field(default=30, ge=1, le=100_000)
    """How many requests of one sender are accepted within an hour; the others are refused, with this reason."""
    queue_length: int = Field(default=50, ge=1, le=10_000)
    """How many requests may wait for one repository; the others are refused, with this reason. What no owner has
    approved does not count for senders who are trusted more."""
    sessions: int = Field(default=4, ge=1, le=1_000)
    """How many sessions run at once, over all repositories."""


class PoolSettings(Section):
    agents: int = Field(default=8, ge=1, le=1_000)
    """How many agents work at once, over all repositories."""
    roles: Annotated[
        Mapping[RoleName, Annotated[int, Field(ge=0, le=1_000)]], BeforeValidator(_read_null_as_mapping)
    ] = Field(default_factory=dict)
    """How many agents of a role work at once, by its name; a role that is left out has only the total. A person may let
    ad hoc agents work beside them."""
    max_queue_length: int = Field(default=3, ge=0, le=10_000)
    """How many tasks may wait for a role; about the next one a person is asked: wait, or an ad hoc agent?"""
    max_adhoc_per_type: int = Field(default=2, ge=0, le=1_000)
    """How many ad hoc agents of one role work at once."""
    max_total_adhoc: int = Field(default=5, ge=0, le=1_000)
    """How many ad hoc agents work at once; they count in `agents` too."""
    min_ram_per_agent_mb: int = Field(default=600, ge=0, le=10**8)
    """The memory that must be free for one more agent; 0: memory is not counted."""
    max_day_cost_usd: float = Field(default=0.0, ge=0, le=10_000_000)
    """What all sessions together may spend in a day; 0 is unlimited. Running agents count with their budgets."""


class HouseSettings(Section):
    version: Literal[1] = 1
    """The version of this file."""
    repositories: Annotated[Mapping[Label, RepositorySettings], BeforeValidator(_read_null_as_mapping)] = Field(
        default_factory=dict
    )
    """The repositories that are served, by the names that requests use."""
    people: Annotated[Mapping[Label, PersonSettings], BeforeValidator(_read_null_as_mapping)] = Field(
        default_factory=dict
    )
    """Who may ask and answer, by name. Unknown senders are not answered."""
    gates: Annotated[GateAsks, BeforeValidator(_read_null_as_mapping)] = Field(default_factory=dict)
    """When people are reminded of a gate of this kind, who is asked next, and what is answered at its deadline."""
    quiet_hours: tuple[QuietHours, ...] = Field(default=(), strict=False)
    """When people are left alone, unless money or safety is at stake; what happened comes as one message after it."""
    telegram: TelegramSettings | None = None
    """A bot in which people ask for work and answer gates."""
    notifications: Annotated[Mapping[Label, NotifierSettings], BeforeValidator(_read_null_as_mapping)] = Field(
        default_factory=dict
    )
    """Further notifiers, as in blueflame.yaml, for what happens in all repositories."""
    sources: SourceSettings = Field(default_factory=SourceSettings)
    """Where requests come from besides a terminal."""
    pool: PoolSettings = Field(default_factory=PoolSettings)
    """The agents that all repositories share."""
    limits: RequestLimitSettings = Field(default_factory=RequestLimitSettings)
    """How much is accepted and runs at once."""

    @model_validator(mode="after")
    def _names_are_known_and_addresses_used_once(self) -> HouseSettings:
        if wrongs := (*_find_unknown_repositories(self), *_find_shared_addresses(self)):
            raise InvalidValues(wrongs)
        return self


def list_values(section: BaseModel, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Every value with its place: ("telegram", "token_from") and TELEGRAM_BOT_TOKEN."""
    for name in type(section).model_fields:
        value = getattr(section, name)
        entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, tuple) else ()
        for key, entry in entries:
            if isinstance(entry, BaseModel):
                yield from list_values(entry, (*at, name, key))
        if isinstance(value, BaseModel):
            yield from list_values(value, (*at, name))
        else:
            yield (*at, name), value


def _find_unknown_repositories(house: HouseSettings) -> Iterator[InvalidValue]:
    known = ", ".join(house.repositories) or "none: add one under repositories"
    for at, name in list_values(house):
        if at[-1] == "repository" and name is not None and name not in house.repositories:
            yield InvalidValue("is not one of the repositories", f"they are {known}", at=at, got=name)


def _find_shared_addresses(house: HouseSettings) -> Iterator[InvalidValue]:
    """Two people with one address would be one person, with the rights of either."""
    seen: dict[tuple[str, object], str] = {}
    for name, person in house.people.items():
        for kind in ("telegram", "terminal", "github", "gitlab"):
            address = getattr(person, kind) or (name if kind == "terminal" else None)
            other = seen.setdefault((kind, address), name) if address is not None else name
            if other != name:
                right = "give each person an address of their own, or make them one entry"
                yield InvalidValue(f"is that of {other} too", right, at=("people", name, kind), got=address)
