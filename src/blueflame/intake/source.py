"""What a source of requests is, and what the house gives it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ConfigError
from blueflame.model.house.arrival import Arrival, Sender


class Intake(Protocol):
    """Where a source puts what it received. Each call is one transaction: all of it is kept, or nothing."""

    def read_cursor(self, source: str) -> str:
        """Return how far the source was read, as it was last written; "" at first. Its form is the source's own."""

    def receive(self, source: str, arrivals: Sequence[Arrival], *, cursor: str | None = None) -> None:
        """Keep the arrivals and the new cursor durably. What was received before, by source and key, is dropped."""

    def is_open(self, source: str, key: str) -> bool:
        """Return whether that request was received and has not ended: it waits, is asked about, or runs."""

    def warn(self, source: str, text: str) -> None:
        """Report that something is wrong with the source: once for each text until `receive` succeeds again."""


class SourceProbe(NamedTuple):
    works: bool
    text: str  # what was tried and found; when it does not work: with what to do


class Source(Protocol):
    """A place that requests come from. It ends with its task, and is started again by the house when it fails."""

    @property
    def name(self) -> str:
        """What its cursor is stored under: feeds/tech-news."""

    async def run(self, intake: Intake) -> None:
        """Receive until cancelled."""

    async def probe(self) -> SourceProbe:
        """Try it without receiving anything: for doctor."""


class Clock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class ServedRepository(NamedTuple):
    root: Path
    config: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What sources need of the house."""

    folder: Path  # of house.yaml
    repositories: Mapping[str, ServedRepository]  # by their names in house.yaml
    identify: Callable[[str], Sender | None]  # the person behind an address such as github:alice
    clock: Clock
    environment: Mapping[str, str] = field(default_factory=dict)  # where secrets are

    def find_repository(self, name: str | None, place: str) -> str:
        """Return the name of a repository, or that of the only one. Raises ConfigError with the place."""
        if name is None and len(self.repositories) == 1:
            return next(iter(self.repositories))
        if name in self.repositories:
            return str(name)
        wrong = "names no repository" if name is None else f"unknown repository {name!r}"
        known = ", ".join(self.repositories) or "none"
        raise ConfigError("a source cannot be used:", [f"{place}: {wrong}; the repositories of house.yaml: {known}"])


MAX_WAIT_SECONDS = 60.0  # machines sleep and clocks jump: a longer wait would end late


async def repeat_steps(step: Callable[[Intake], Awaitable[float]], intake: Intake, clock: Clock) -> None:
    """Take a step, wait as long as it returns, and so on until cancelled."""
    while True:
        await clock.sleep(min(await step(intake), MAX_WAIT_SECONDS))


def parse_cursor(cursor: str) -> dict[str, Any]:
    """Read the state that a source keeps as JSON; empty at first."""
    found = json.loads(cursor) if cursor else {}
    assert isinstance(found, dict), "only we write it"
    return found
